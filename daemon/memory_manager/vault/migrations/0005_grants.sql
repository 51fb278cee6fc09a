-- OAuth grants. A grant is one credential: its id stays while access and refresh tokens rotate.
-- Tokens are stored as SHA-256 digests only.
ALTER TABLE credential ADD COLUMN kind TEXT NOT NULL DEFAULT 'installation-key'
  CHECK(kind IN ('installation-key', 'oauth-grant'));
ALTER TABLE credential ADD COLUMN client_id TEXT;

CREATE TABLE oauth_client(
  rowid         INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  name          TEXT NOT NULL CHECK(name <> ''),
  redirect_uris TEXT NOT NULL CHECK(json_type(redirect_uris) = 'array'),
  created_at_ms INTEGER NOT NULL) STRICT;

CREATE TABLE access_token(
  token_digest  BLOB PRIMARY KEY NOT NULL CHECK(length(token_digest) = 32),
  credential_id TEXT NOT NULL REFERENCES credential(id) ON DELETE CASCADE,
  expires_at_ms INTEGER NOT NULL) STRICT;
CREATE INDEX access_token_credential ON access_token(credential_id);

-- A used token stays: seeing it again ends its family.
CREATE TABLE refresh_token(
  token_digest  BLOB PRIMARY KEY NOT NULL CHECK(length(token_digest) = 32),
  credential_id TEXT NOT NULL REFERENCES credential(id) ON DELETE CASCADE,
  expires_at_ms INTEGER NOT NULL,
  used_at_ms    INTEGER) STRICT;
CREATE INDEX refresh_token_credential ON refresh_token(credential_id);

-- Which names a credential was used under: labels, for the owner to look at.
CREATE TABLE credential_label(
  credential_id TEXT NOT NULL REFERENCES credential(id) ON DELETE CASCADE,
  agent_id      TEXT NOT NULL,
  instance_hash TEXT NOT NULL,
  last_seen_ms  INTEGER NOT NULL,
  PRIMARY KEY(credential_id, agent_id, instance_hash)) STRICT;
