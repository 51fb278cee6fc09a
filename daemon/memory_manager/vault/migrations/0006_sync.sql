-- Sync. Every table is empty until the owner turns sync on. Contract: sync.md 3 to 5, vault.md 8, 9.
-- A revision of a record is named by its dot: author device and the author's log position.

-- One row: which vault of which server, what was verified, our own log, our clock.
-- device is the one that the log's own entries are written as: a copy of the database on another
-- device must not go on with it.
CREATE TABLE sync_state(
  only            INTEGER PRIMARY KEY CHECK(only = 1),
  vault           BLOB NOT NULL CHECK(length(vault) = 16),
  device          BLOB NOT NULL CHECK(length(device) = 16),
  server_url      TEXT NOT NULL,
  server_key      BLOB NOT NULL CHECK(length(server_key) = 32),
  n               INTEGER NOT NULL DEFAULT 0,
  g               BLOB NOT NULL DEFAULT (zeroblob(32)) CHECK(length(g) = 32),
  own_seq         INTEGER NOT NULL DEFAULT 0,
  own_head        BLOB NOT NULL DEFAULT (zeroblob(32)) CHECK(length(own_head) = 32),
  min_epoch       INTEGER NOT NULL DEFAULT 1,
  roster_idx      INTEGER NOT NULL,
  roster_hash     BLOB NOT NULL CHECK(length(roster_hash) = 32),
  clock_ms        INTEGER NOT NULL DEFAULT 0,
  clock_counter   INTEGER NOT NULL DEFAULT 0,
  paused          INTEGER NOT NULL DEFAULT 0 CHECK(paused IN (0, 1)),
  stop_code       TEXT,
  seeding         INTEGER NOT NULL DEFAULT 1 CHECK(seeding IN (0, 1)),
  seeding_cursor  INTEGER NOT NULL DEFAULT 0,
  breaker_until_ms INTEGER NOT NULL DEFAULT 0,
  wrap_cursor     INTEGER NOT NULL DEFAULT 0,
  last_contact_ms INTEGER) STRICT;

CREATE TABLE keybag(
  epoch INTEGER PRIMARY KEY CHECK(epoch > 0),
  vrk   BLOB NOT NULL CHECK(length(vrk) = 32)) STRICT;

CREATE TABLE roster_log(
  idx       INTEGER PRIMARY KEY,
  document  BLOB NOT NULL,
  signature BLOB NOT NULL CHECK(length(signature) = 64),
  hash      BLOB NOT NULL UNIQUE CHECK(length(hash) = 32)) STRICT;

-- Own and others' log entries. n is the server's position and g the global head there; both are
-- NULL for an own entry that no verified server head covers yet: those are the outbox.
CREATE TABLE entry(
  rowid     INTEGER PRIMARY KEY,
  device    BLOB NOT NULL CHECK(length(device) = 16),
  seq       INTEGER NOT NULL CHECK(seq > 0),
  n         INTEGER UNIQUE CHECK(n > 0),
  g         BLOB CHECK(length(g) = 32),
  head      BLOB NOT NULL CHECK(length(head) = 32),
  body_hash BLOB NOT NULL CHECK(length(body_hash) = 32),
  entry     BLOB NOT NULL CHECK(length(entry) = 137),
  UNIQUE(device, seq),
  CHECK((n IS NULL) = (g IS NULL))) STRICT;
CREATE INDEX entry_body ON entry(body_hash);
CREATE INDEX entry_outbox ON entry(seq) WHERE n IS NULL;

-- An entry is what was signed and counted: it is numbered once and never changed.
CREATE TRIGGER entry_is_numbered_once BEFORE UPDATE ON entry
WHEN OLD.n IS NOT NULL OR NEW.device <> OLD.device OR NEW.seq <> OLD.seq
  OR NEW.entry <> OLD.entry OR NEW.head <> OLD.head OR NEW.body_hash <> OLD.body_hash
BEGIN
  SELECT RAISE(ABORT, 'a log entry is numbered once');
END;

-- The last numbered entry of every device.
CREATE TABLE device_head(
  device     BLOB PRIMARY KEY NOT NULL CHECK(length(device) = 16),
  seq        INTEGER NOT NULL,
  head       BLOB NOT NULL CHECK(length(head) = 32),
  roster_idx INTEGER NOT NULL) STRICT;

-- The encrypted rows as they travel, kept for another seeding of the server. Forgetting removes
-- them; of what was not pushed yet the body stays, and the key that opens it goes.
CREATE TABLE sealed(
  entry_rowid INTEGER PRIMARY KEY REFERENCES entry(rowid),
  epoch       INTEGER NOT NULL,
  wrap        BLOB NOT NULL CHECK(length(wrap) = 92),
  body        BLOB NOT NULL,
  dead        INTEGER NOT NULL DEFAULT 0 CHECK(dead IN (0, 1))) STRICT;

-- What a device said of its own log when it pushed rows up to seq.
CREATE TABLE checkpoint(
  device    BLOB NOT NULL CHECK(length(device) = 16),
  seq       INTEGER NOT NULL,
  document  BLOB NOT NULL CHECK(length(document) = 112),
  signature BLOB NOT NULL CHECK(length(signature) = 64),
  PRIMARY KEY(device, seq)) STRICT;

-- Revisions that were opened. id is the record here that a revision speaks of, NULL for a row that
-- speaks of none; two devices may have given one record two names on the wire.
CREATE TABLE revision(
  rowid      INTEGER PRIMARY KEY,
  device     BLOB NOT NULL CHECK(length(device) = 16),
  seq        INTEGER NOT NULL,
  record     BLOB NOT NULL CHECK(length(record) = 16),
  id         BLOB CHECK(length(id) = 16),
  kind       TEXT NOT NULL,
  deletion   TEXT CHECK(deletion IN ('tidy', 'forget')),
  hlc_ms     INTEGER NOT NULL,
  hlc_counter INTEGER NOT NULL,
  leads      INTEGER NOT NULL DEFAULT 0 CHECK(leads IN (0, 1)),
  superseded INTEGER NOT NULL DEFAULT 0 CHECK(superseded IN (0, 1)),
  UNIQUE(device, seq)) STRICT;
CREATE INDEX revision_current ON revision(id) WHERE superseded = 0;
CREATE INDEX revision_of_record ON revision(id, deletion);
CREATE INDEX revision_of_wire_record ON revision(record);

-- Whatever destroys a record takes the superseded sealed copies along; those that the server has not
-- seen go when it has.
CREATE TRIGGER destroyed_record_has_no_sealed_copies AFTER DELETE ON record
WHEN EXISTS(SELECT 1 FROM sync_record WHERE id = OLD.id)
BEGIN
  DELETE FROM sealed WHERE entry_rowid IN (
    SELECT e.rowid FROM revision v JOIN entry e ON e.device = v.device AND e.seq = v.seq
    WHERE v.id = OLD.id AND v.deletion IS NULL AND v.superseded = 1 AND e.n IS NOT NULL);
END;

CREATE TABLE revision_parent(
  parent_device BLOB NOT NULL,
  parent_seq    INTEGER NOT NULL,
  child         INTEGER NOT NULL REFERENCES revision(rowid),
  PRIMARY KEY(parent_device, parent_seq, child)) WITHOUT ROWID, STRICT;
CREATE INDEX revision_parent_child ON revision_parent(child);

-- Concurrent revisions beside the winner; their text is in their sealed rows.
CREATE TABLE sibling(
  device BLOB NOT NULL,
  seq    INTEGER NOT NULL,
  id     BLOB NOT NULL CHECK(length(id) = 16),
  PRIMARY KEY(device, seq)) STRICT;
CREATE INDEX sibling_record ON sibling(id);

-- A record here and its name on the wire. version is the local version that the revisions speak
-- for: a newer one still has to be sealed. claim is the place its semantic key takes; of several
-- live claims the one with the greatest time and device holds it.
CREATE TABLE sync_record(
  id         BLOB PRIMARY KEY NOT NULL CHECK(length(id) = 16),
  record     BLOB NOT NULL CHECK(length(record) = 16),
  version    INTEGER NOT NULL,
  claim      BLOB CHECK(length(claim) = 16),
  claim_ms   INTEGER NOT NULL DEFAULT 0,
  claim_counter INTEGER NOT NULL DEFAULT 0,
  claim_device BLOB NOT NULL DEFAULT (zeroblob(16))) STRICT;
CREATE INDEX sync_record_claim ON sync_record(claim) WHERE claim IS NOT NULL;

-- Indexable copies that the owner opted in: records on the wire, none here.
CREATE TABLE sync_copy(
  record   BLOB PRIMARY KEY NOT NULL CHECK(length(record) = 16),
  original BLOB NOT NULL CHECK(length(original) = 16)) STRICT;
CREATE INDEX sync_copy_original ON sync_copy(original);

-- Rows that could not be opened or applied, with the code of the reason.
CREATE TABLE quarantine(
  entry_rowid INTEGER PRIMARY KEY REFERENCES entry(rowid),
  record      BLOB CHECK(length(record) = 16),
  code        TEXT NOT NULL,
  at_ms       INTEGER NOT NULL) STRICT;

CREATE TABLE sync_alarm(
  rowid  INTEGER PRIMARY KEY,
  code   TEXT NOT NULL,
  at_ms  INTEGER NOT NULL,
  device BLOB,
  n      INTEGER,
  detail TEXT NOT NULL DEFAULT '{}' CHECK(json_type(detail) = 'object'),
  cleared_at_ms INTEGER) STRICT;

-- Deletions that came from elsewhere, counted over a sliding day.
CREATE TABLE remote_deletion(
  rowid INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  count INTEGER NOT NULL) STRICT;
