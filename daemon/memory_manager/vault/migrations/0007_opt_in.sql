-- Opted-in memories: what agents asked for, and what the owner granted. Contract: sync.md 6.

-- A request grants nothing: it waits for the owner.
CREATE TABLE opt_in_request(
  id            BLOB PRIMARY KEY NOT NULL CHECK(length(id) = 16),
  asked_at_ms   INTEGER NOT NULL,
  agent_id      TEXT,
  client        TEXT,
  reason        TEXT) STRICT;

-- One indexable copy: the exact bytes the owner was shown, and the grant over them. They are NULL
-- for a copy of another device, and once the owner took the row back. state: waiting (to be sent),
-- sent, blocked (never sent), leaving (to be removed from the server).
CREATE TABLE opt_in(
  record        BLOB PRIMARY KEY NOT NULL
                CHECK(length(record) = 16 AND hex(substr(record, 1, 1)) >= '80'),
  id            BLOB NOT NULL CHECK(length(id) = 16),
  dot           BLOB CHECK(length(dot) = 24),
  document      BLOB,
  owner_grant   BLOB,
  sig_device    BLOB CHECK(length(sig_device) = 64),
  sig_grant     BLOB CHECK(length(sig_grant) = 64),
  state         TEXT NOT NULL CHECK(state IN ('waiting', 'sent', 'blocked', 'leaving')),
  code          TEXT,
  changed_at_ms INTEGER NOT NULL) STRICT;
CREATE INDEX opt_in_record ON opt_in(id);
