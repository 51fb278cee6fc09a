-- Opted-in rows, in a schema of their own. The CHECK on the record is the class bit: a row of the
-- vault class does not fit in here.
CREATE SCHEMA IF NOT EXISTS memlocket_index;

CREATE TABLE memlocket_index.index_row(
  vault bytea NOT NULL CHECK(length(vault) = 16),
  record bytea NOT NULL CHECK(length(record) = 16 AND get_byte(record, 0) >= 128),
  device bytea NOT NULL CHECK(length(device) = 16),
  dot_device bytea NOT NULL CHECK(length(dot_device) = 16),
  dot_seq bigint NOT NULL CHECK(dot_seq > 0),
  owner_grant bytea NOT NULL,
  document bytea NOT NULL,
  security_envelope text NOT NULL,
  opted_in boolean NOT NULL,
  bucket text NOT NULL,
  scope text,
  path text NOT NULL,
  memory_type text NOT NULL,
  created_at_ms bigint NOT NULL,
  updated_at_ms bigint NOT NULL,
  words bytea NOT NULL,
  model text,
  dimensions integer,
  pieces bytea,
  stored_at_ms bigint NOT NULL,
  PRIMARY KEY(vault, record));

-- Every nonce once, until its grant has expired by itself.
CREATE TABLE memlocket_index.grant_used(
  vault bytea NOT NULL,
  nonce bytea NOT NULL CHECK(length(nonce) = 16),
  expires bigint NOT NULL,
  PRIMARY KEY(vault, nonce));

CREATE TABLE memlocket_index.index_token(
  id text PRIMARY KEY,
  vault bytea NOT NULL,
  digest bytea NOT NULL UNIQUE CHECK(length(digest) = 32),
  name text NOT NULL,
  device bytea NOT NULL,
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint NOT NULL,
  last_used_at_ms bigint);
CREATE INDEX index_token_vault ON memlocket_index.index_token(vault);

CREATE TABLE memlocket_index.index_audit(
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  vault bytea NOT NULL,
  at_ms bigint NOT NULL,
  device bytea,
  action text NOT NULL,
  code text NOT NULL,
  record bytea);
CREATE INDEX index_audit_vault ON memlocket_index.index_audit(vault, number);

CREATE TABLE memlocket_index.version(number integer PRIMARY KEY);
INSERT INTO memlocket_index.version(number) VALUES(1);
