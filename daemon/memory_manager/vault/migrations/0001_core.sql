-- Memories, their immutable versions and what stands around them. Contract: vault.md 8.
-- Times are UTC milliseconds. A version's text is stored once, in record_version; record is the
-- small current row that every filter scans.

CREATE TABLE vault_state(
  key   TEXT PRIMARY KEY NOT NULL,
  value ANY) STRICT;
INSERT INTO vault_state(key, value) VALUES('generation', 0);

-- AUTOINCREMENT: derived indexes name rows by rowid, so the rowid of a destroyed row never returns.
CREATE TABLE record(
  rowid         INTEGER PRIMARY KEY AUTOINCREMENT,
  id            BLOB NOT NULL UNIQUE CHECK(length(id) = 16),
  version       INTEGER NOT NULL CHECK(version BETWEEN 1 AND 16777215),
  status        TEXT NOT NULL CHECK(status IN ('active', 'deleted', 'redacted')),
  bucket        TEXT NOT NULL,
  scope         TEXT CHECK(scope <> ''),
  path          TEXT NOT NULL,
  memory_type   TEXT NOT NULL
    CHECK(memory_type IN ('episodic', 'semantic', 'procedural', 'working', 'identity')),
  semantic_key  TEXT CHECK(semantic_key <> ''),
  agent_id      TEXT,
  expires_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  deleted_at_ms INTEGER,
  destruction_requested_at_ms INTEGER,
  dedupe_key    BLOB NOT NULL CHECK(length(dedupe_key) = 16),
  security_mode TEXT NOT NULL CHECK(security_mode IN ('vault', 'cloud', 'keyguard')),
  encryption_state TEXT NOT NULL
    CHECK(encryption_state IN ('ciphertext', 'server_encrypted', 'plaintext')),
  retrieval_visibility TEXT NOT NULL
    CHECK(retrieval_visibility IN ('client_local_only', 'not_retrievable', 'server_retrievable')),
  server_embeddings_enabled     INTEGER NOT NULL CHECK(server_embeddings_enabled IN (0, 1)),
  server_content_search_enabled INTEGER NOT NULL CHECK(server_content_search_enabled IN (0, 1)),
  CHECK(retrieval_visibility = 'server_retrievable'
        OR (server_embeddings_enabled = 0 AND server_content_search_enabled = 0)),
  CHECK(NOT (security_mode = 'vault' AND server_content_search_enabled = 1)),
  CHECK((status = 'deleted') = (deleted_at_ms IS NOT NULL)),
  CHECK(destruction_requested_at_ms IS NULL OR status = 'deleted')) STRICT;

-- One live row per slot; a deleted row gives its key free.
CREATE UNIQUE INDEX record_semantic_key ON record(semantic_key, bucket, ifnull(scope, ''))
  WHERE semantic_key IS NOT NULL AND status <> 'deleted';
CREATE INDEX record_dedupe ON record(dedupe_key) WHERE status = 'active';
CREATE INDEX record_created ON record(created_at_ms);
CREATE INDEX record_updated ON record(updated_at_ms);
CREATE INDEX record_path ON record(path);
CREATE INDEX record_deleted ON record(deleted_at_ms) WHERE status = 'deleted';

-- slot = rowid of the record * 2^24 + version: the versions of a memory lie together and are found
-- without an index. content is NULL once a redaction has removed it.
CREATE TABLE record_version(
  slot          INTEGER PRIMARY KEY,
  version       INTEGER NOT NULL CHECK(version = slot & 16777215),
  action        TEXT NOT NULL
    CHECK(action IN ('created', 'updated', 'deleted', 'redacted', 'restored')),
  status        TEXT NOT NULL CHECK(status IN ('active', 'deleted', 'redacted')),
  content       TEXT,
  path          TEXT NOT NULL,
  bucket        TEXT NOT NULL,
  scope         TEXT,
  memory_type   TEXT NOT NULL
    CHECK(memory_type IN ('episodic', 'semantic', 'procedural', 'working', 'identity')),
  importance    REAL CHECK(importance BETWEEN 0 AND 1),
  confidence    REAL CHECK(confidence BETWEEN 0 AND 1),
  source        TEXT,
  metadata      TEXT NOT NULL CHECK(json_type(metadata) = 'object'),
  provenance    TEXT NOT NULL CHECK(json_type(provenance) = 'object'),
  semantic_key  TEXT,
  expires_at_ms INTEGER,
  redactions    TEXT NOT NULL CHECK(json_type(redactions) = 'array'),
  ruleset_version TEXT NOT NULL,
  agent_id      TEXT,
  instance_hash BLOB CHECK(length(instance_hash) = 32),
  credential_id TEXT,
  client        TEXT,
  reason        TEXT,
  written_at_ms INTEGER NOT NULL) STRICT;

-- A row here, inside one transaction only, permits to blank or remove the versions of that record.
CREATE TABLE version_erasure(record_rowid INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER record_version_is_contiguous BEFORE INSERT ON record_version
WHEN NEW.version > 1
  AND NOT EXISTS(SELECT 1 FROM record_version WHERE slot = NEW.slot - 1)
BEGIN
  SELECT RAISE(ABORT, 'memory versions are contiguous');
END;

CREATE TRIGGER record_version_is_immutable BEFORE UPDATE ON record_version
WHEN NOT EXISTS(SELECT 1 FROM version_erasure WHERE record_rowid = OLD.slot >> 24)
  OR NEW.slot <> OLD.slot OR NEW.action <> OLD.action OR NEW.status <> OLD.status
  OR NEW.content IS NOT NULL OR NEW.metadata <> '{}' OR NEW.provenance <> '{}'
  OR NEW.path <> '' OR NEW.bucket <> '' OR NEW.scope IS NOT NULL
  OR NEW.source IS NOT NULL OR NEW.semantic_key IS NOT NULL OR NEW.reason IS NOT NULL
  OR NEW.written_at_ms <> OLD.written_at_ms
  OR NEW.agent_id IS NOT OLD.agent_id OR NEW.instance_hash IS NOT OLD.instance_hash
  OR NEW.credential_id IS NOT OLD.credential_id OR NEW.client IS NOT OLD.client
BEGIN
  SELECT RAISE(ABORT, 'memory versions are immutable');
END;

CREATE TRIGGER record_version_is_kept BEFORE DELETE ON record_version
WHEN NOT EXISTS(SELECT 1 FROM version_erasure WHERE record_rowid = OLD.slot >> 24)
BEGIN
  SELECT RAISE(ABORT, 'memory versions are kept');
END;

CREATE TRIGGER record_names_an_existing_version BEFORE UPDATE ON record
WHEN NEW.rowid <> OLD.rowid OR NEW.id <> OLD.id
  OR NEW.version NOT IN (OLD.version, OLD.version + 1)
  OR NOT EXISTS(SELECT 1 FROM record_version WHERE slot = (NEW.rowid << 24) + NEW.version)
BEGIN
  SELECT RAISE(ABORT, 'a memory advances by one existing version');
END;

CREATE TRIGGER record_is_kept_with_its_versions BEFORE DELETE ON record
WHEN EXISTS(SELECT 1 FROM record_version
            WHERE slot BETWEEN OLD.rowid << 24 AND (OLD.rowid << 24) + 16777215)
BEGIN
  SELECT RAISE(ABORT, 'a memory is kept while it has versions');
END;

-- What is left of a destroyed memory, so that forgetting it again answers the same.
CREATE TABLE destroyed(
  id              BLOB PRIMARY KEY NOT NULL CHECK(length(id) = 16),
  version         INTEGER NOT NULL,
  destroyed_at_ms INTEGER NOT NULL) STRICT;

-- Local counters; they never leave this machine.
CREATE TABLE record_use(
  record_rowid    INTEGER PRIMARY KEY REFERENCES record(rowid) ON DELETE CASCADE,
  use_count       INTEGER NOT NULL,
  last_used_at_ms INTEGER NOT NULL) STRICT;

CREATE TABLE idempotency(
  rowid         INTEGER PRIMARY KEY,
  credential_id TEXT NOT NULL,
  route         TEXT NOT NULL,
  key           TEXT NOT NULL,
  status        INTEGER NOT NULL CHECK(status BETWEEN 200 AND 299),
  body          TEXT NOT NULL CHECK(json_valid(body)),
  saved_at_ms   INTEGER NOT NULL,
  UNIQUE(credential_id, route, key)) STRICT;
CREATE INDEX idempotency_age ON idempotency(saved_at_ms);

CREATE TABLE audit(
  rowid         INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms         INTEGER NOT NULL,
  action        TEXT NOT NULL,
  target_id     TEXT,
  agent_id      TEXT,
  instance_hash BLOB CHECK(length(instance_hash) = 32),
  credential_id TEXT,
  client        TEXT,
  detail        TEXT NOT NULL CHECK(json_type(detail) = 'object')) STRICT;
CREATE INDEX audit_target ON audit(target_id) WHERE target_id IS NOT NULL;
CREATE INDEX audit_time ON audit(at_ms);

CREATE TABLE credential(
  rowid           INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  name            TEXT NOT NULL CHECK(name <> ''),
  agent_id        TEXT,
  token_digest    BLOB NOT NULL UNIQUE CHECK(length(token_digest) = 32),
  scopes          TEXT NOT NULL CHECK(json_type(scopes) = 'array'),
  created_at_ms   INTEGER NOT NULL,
  last_used_at_ms INTEGER,
  revoked_at_ms   INTEGER) STRICT;
CREATE UNIQUE INDEX credential_name ON credential(name) WHERE revoked_at_ms IS NULL;

CREATE TABLE setting(
  name  TEXT PRIMARY KEY NOT NULL,
  value TEXT NOT NULL CHECK(json_valid(value))) STRICT;
