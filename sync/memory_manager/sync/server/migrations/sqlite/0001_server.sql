-- sync.md 10. Whatever belongs to a vault has a column that holds its id; bodies are ciphertext.
CREATE TABLE vault(
  id BLOB NOT NULL PRIMARY KEY CHECK(length(id) = 16),
  n INTEGER NOT NULL,
  g BLOB NOT NULL,
  wrap_n INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  roster_idx INTEGER NOT NULL,
  roster_head BLOB NOT NULL,
  quota_rows INTEGER,
  quota_bytes INTEGER,
  quota_devices INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE device(
  vault BLOB NOT NULL,
  id BLOB NOT NULL CHECK(length(id) = 16),
  role TEXT NOT NULL,
  ed25519 BLOB NOT NULL,
  cut INTEGER,
  seq INTEGER NOT NULL,
  head BLOB NOT NULL,
  session_epoch INTEGER NOT NULL,
  PRIMARY KEY(vault, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE entry(
  vault BLOB NOT NULL,
  n INTEGER NOT NULL,
  device BLOB NOT NULL,
  seq INTEGER NOT NULL,
  entry BLOB NOT NULL CHECK(length(entry) = 137),
  body_hash BLOB NOT NULL,
  g BLOB NOT NULL,
  PRIMARY KEY(vault, n),
  UNIQUE(vault, device, seq)
) STRICT, WITHOUT ROWID;

-- with row ids: bodies and wraps lie in the order of the log, only their indexes are at random
CREATE TABLE blob(
  vault BLOB NOT NULL,
  body_hash BLOB NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY(vault, body_hash)
) STRICT;

-- position counts the re-wraps of a vault; 0 came with its row
CREATE TABLE wrap(
  vault BLOB NOT NULL,
  body_hash BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  position INTEGER NOT NULL,
  wrap BLOB NOT NULL CHECK(length(wrap) = 92),
  PRIMARY KEY(vault, body_hash, epoch)
) STRICT;
CREATE INDEX wrap_position ON wrap(vault, position) WHERE position > 0;

-- n is the position of the last row of the checkpoint's batch
CREATE TABLE checkpoint(
  vault BLOB NOT NULL,
  n INTEGER NOT NULL,
  checkpoint BLOB NOT NULL CHECK(length(checkpoint) = 112),
  signature BLOB NOT NULL CHECK(length(signature) = 64),
  PRIMARY KEY(vault, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE roster(
  vault BLOB NOT NULL,
  idx INTEGER NOT NULL,
  document BLOB NOT NULL,
  signature BLOB NOT NULL,
  PRIMARY KEY(vault, idx)
) STRICT;

CREATE TABLE session(
  token_hash BLOB NOT NULL PRIMARY KEY,
  vault BLOB NOT NULL,
  device BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  UNIQUE(vault, nonce)
) STRICT;
CREATE INDEX session_device ON session(vault, device);
CREATE INDEX session_end ON session(expires_at_ms);

-- the payload goes when it is read; the row stays until its time is over
CREATE TABLE mail(
  mailbox BLOB NOT NULL,
  side TEXT NOT NULL,
  origin BLOB NOT NULL,
  payload BLOB,
  expires_at_ms INTEGER NOT NULL,
  PRIMARY KEY(mailbox, side)
) STRICT;
CREATE INDEX mail_origin ON mail(origin, expires_at_ms);
CREATE INDEX mail_end ON mail(expires_at_ms);

CREATE TABLE registration(
  token_hash BLOB NOT NULL PRIMARY KEY,
  expires_at_ms INTEGER NOT NULL
) STRICT;
