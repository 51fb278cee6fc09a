-- Opted-in rows, in a file of their own. The CHECK on the record is the class bit: a row of the
-- vault class does not fit in here.
CREATE TABLE index_row(
  vault BLOB NOT NULL CHECK(length(vault) = 16),
  record BLOB NOT NULL CHECK(length(record) = 16 AND hex(substr(record, 1, 1)) >= '80'),
  device BLOB NOT NULL CHECK(length(device) = 16),
  dot_device BLOB NOT NULL CHECK(length(dot_device) = 16),
  dot_seq INTEGER NOT NULL CHECK(dot_seq > 0),
  owner_grant BLOB NOT NULL,
  document BLOB NOT NULL,
  security_envelope TEXT NOT NULL,
  opted_in INTEGER NOT NULL CHECK(opted_in IN (0, 1)),
  bucket TEXT NOT NULL,
  scope TEXT,
  path TEXT NOT NULL,
  memory_type TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  words BLOB NOT NULL,
  model TEXT,
  dimensions INTEGER,
  pieces BLOB,
  stored_at_ms INTEGER NOT NULL,
  PRIMARY KEY(vault, record)
) STRICT;

-- Every nonce once, until its grant has expired by itself.
CREATE TABLE grant_used(
  vault BLOB NOT NULL,
  nonce BLOB NOT NULL CHECK(length(nonce) = 16),
  expires INTEGER NOT NULL,
  PRIMARY KEY(vault, nonce)
) STRICT, WITHOUT ROWID;

CREATE TABLE index_token(
  id TEXT PRIMARY KEY,
  vault BLOB NOT NULL,
  digest BLOB NOT NULL UNIQUE CHECK(length(digest) = 32),
  name TEXT NOT NULL,
  device BLOB NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER
) STRICT;
CREATE INDEX index_token_vault ON index_token(vault);

CREATE TABLE index_audit(
  number INTEGER PRIMARY KEY,
  vault BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  device BLOB,
  action TEXT NOT NULL,
  code TEXT NOT NULL,
  record BLOB
) STRICT;
CREATE INDEX index_audit_vault ON index_audit(vault, number);
