-- Records beside memories: states, timeline events, reminders, decisions, restart snapshots and
-- expenses are rows of the same table and the same write path; only kind and item tell them apart.
ALTER TABLE record ADD COLUMN kind TEXT NOT NULL DEFAULT 'memory'
  CHECK(kind IN ('memory', 'state', 'event', 'reminder', 'decision', 'snapshot', 'expense'));
-- What a kind says beyond a memory: current_task, due_at_ms, options, ... as a JSON object.
ALTER TABLE record_version ADD COLUMN item TEXT NOT NULL DEFAULT '{}'
  CHECK(json_type(item) = 'object');

CREATE TRIGGER record_kind_is_fixed BEFORE UPDATE OF kind ON record WHEN NEW.kind <> OLD.kind
BEGIN
  SELECT RAISE(ABORT, 'a record keeps its kind');
END;

-- A state holds its slot by its key; a memory with the same semantic key is another thing.
DROP INDEX record_semantic_key;
CREATE UNIQUE INDEX record_semantic_key ON record(semantic_key, bucket, ifnull(scope, ''), kind)
  WHERE semantic_key IS NOT NULL AND status <> 'deleted';

DROP TRIGGER record_version_is_immutable;
CREATE TRIGGER record_version_is_immutable BEFORE UPDATE ON record_version
WHEN NOT EXISTS(SELECT 1 FROM version_erasure WHERE record_rowid = OLD.slot >> 24)
  OR NEW.slot <> OLD.slot OR NEW.action <> OLD.action OR NEW.status <> OLD.status
  OR NEW.content IS NOT NULL OR NEW.metadata <> '{}' OR NEW.provenance <> '{}'
  OR NEW.item <> '{}'
  OR NEW.path <> '' OR NEW.bucket <> '' OR NEW.scope IS NOT NULL
  OR NEW.source IS NOT NULL OR NEW.semantic_key IS NOT NULL OR NEW.reason IS NOT NULL
  OR NEW.written_at_ms <> OLD.written_at_ms
  OR NEW.agent_id IS NOT OLD.agent_id OR NEW.instance_hash IS NOT OLD.instance_hash
  OR NEW.credential_id IS NOT OLD.credential_id OR NEW.client IS NOT OLD.client
BEGIN
  SELECT RAISE(ABORT, 'memory versions are immutable');
END;

-- What lists filter and sort by: of the current version, for every kind but memory.
-- at_ms is the time an item stands under: when an event happened, else when it was created.
CREATE TABLE record_item(
  record_rowid  INTEGER PRIMARY KEY REFERENCES record(rowid) ON DELETE CASCADE,
  kind          TEXT NOT NULL CHECK(kind <> 'memory'),
  at_ms         INTEGER NOT NULL,
  item_status   TEXT CHECK(item_status IN ('open', 'completed', 'resolved')),
  due_at_ms     INTEGER,
  session_id    TEXT,
  label         TEXT,     -- event_type of an event, state_key of a snapshot, currency of an expense
  amount_micros INTEGER) STRICT;
CREATE INDEX record_item_time ON record_item(kind, at_ms);
CREATE INDEX record_item_status ON record_item(kind, item_status, at_ms)
  WHERE item_status IS NOT NULL;

-- The stored answer of a restored snapshot quotes other records; when one of those is erased, these
-- answers are found without reading all of them.
CREATE INDEX idempotency_snapshot ON idempotency(rowid)
  WHERE json_extract(body, '$.snapshot') IS NOT NULL;
