-- sync.md 10. Whatever belongs to a vault has a column that holds its id; bodies are ciphertext.
-- A transaction names its vault in app.vault and sees no other row; app.scope = 'server' is for
-- what needs all vaults or knows none yet: figures, heads, expiry, and whose a token is.
CREATE TABLE vault(
  id bytea PRIMARY KEY CHECK(octet_length(id) = 16),
  n bigint NOT NULL,
  g bytea NOT NULL,
  wrap_n bigint NOT NULL,
  bytes bigint NOT NULL,
  roster_idx bigint NOT NULL,
  roster_head bytea NOT NULL,
  quota_rows bigint,
  quota_bytes bigint,
  quota_devices bigint
);

CREATE TABLE device(
  vault bytea NOT NULL,
  id bytea NOT NULL CHECK(octet_length(id) = 16),
  role text NOT NULL,
  ed25519 bytea NOT NULL,
  cut bigint,
  seq bigint NOT NULL,
  head bytea NOT NULL,
  session_epoch bigint NOT NULL,
  PRIMARY KEY(vault, id)
);

CREATE TABLE entry(
  vault bytea NOT NULL,
  n bigint NOT NULL,
  device bytea NOT NULL,
  seq bigint NOT NULL,
  entry bytea NOT NULL CHECK(octet_length(entry) = 137),
  body_hash bytea NOT NULL,
  g bytea NOT NULL,
  PRIMARY KEY(vault, n),
  UNIQUE(vault, device, seq)
) PARTITION BY HASH(vault);

CREATE TABLE blob(
  vault bytea NOT NULL,
  body_hash bytea NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY(vault, body_hash)
) PARTITION BY HASH(vault);

-- position counts the re-wraps of a vault; 0 came with its row
CREATE TABLE wrap(
  vault bytea NOT NULL,
  body_hash bytea NOT NULL,
  epoch bigint NOT NULL,
  position bigint NOT NULL,
  wrap bytea NOT NULL CHECK(octet_length(wrap) = 92),
  PRIMARY KEY(vault, body_hash, epoch)
) PARTITION BY HASH(vault);
CREATE INDEX wrap_position ON wrap(vault, position) WHERE position > 0;

-- n is the position of the last row of the checkpoint's batch
CREATE TABLE checkpoint(
  vault bytea NOT NULL,
  n bigint NOT NULL,
  checkpoint bytea NOT NULL CHECK(octet_length(checkpoint) = 112),
  signature bytea NOT NULL CHECK(octet_length(signature) = 64),
  PRIMARY KEY(vault, n)
) PARTITION BY HASH(vault);

CREATE TABLE roster(
  vault bytea NOT NULL,
  idx bigint NOT NULL,
  document bytea NOT NULL,
  signature bytea NOT NULL,
  PRIMARY KEY(vault, idx)
);

CREATE TABLE session(
  token_hash bytea PRIMARY KEY,
  vault bytea NOT NULL,
  device bytea NOT NULL,
  epoch bigint NOT NULL,
  nonce bytea NOT NULL,
  expires_at_ms bigint NOT NULL,
  UNIQUE(vault, nonce)
);
CREATE INDEX session_device ON session(vault, device);
CREATE INDEX session_end ON session(expires_at_ms);

-- the payload goes when it is read; the row stays until its time is over
CREATE TABLE mail(
  mailbox bytea NOT NULL,
  side text NOT NULL,
  origin bytea NOT NULL,
  payload bytea,
  expires_at_ms bigint NOT NULL,
  PRIMARY KEY(mailbox, side)
);
CREATE INDEX mail_origin ON mail(origin, expires_at_ms);
CREATE INDEX mail_end ON mail(expires_at_ms);

CREATE TABLE registration(
  token_hash bytea PRIMARY KEY,
  expires_at_ms bigint NOT NULL
);

-- forced: the owner of the tables, which the server is, has no exception from its own rules
DO $$
DECLARE
  name text;
  own text := 'decode(current_setting(''app.vault'', true), ''hex'')';
  everywhere text := 'current_setting(''app.scope'', true) = ''server''';
BEGIN
  FOREACH name IN ARRAY ARRAY['entry', 'blob', 'wrap', 'checkpoint'] LOOP
    FOR part IN 0..15 LOOP
      EXECUTE format(
        'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
        name || '_' || part, name, part);
      -- no policy of its own: a partition named directly shows nothing
      EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name || '_' || part);
      EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name || '_' || part);
      IF name = 'blob' THEN
        -- ciphertext does not compress
        EXECUTE format('ALTER TABLE %I ALTER COLUMN body SET STORAGE EXTERNAL', name || '_' || part);
      END IF;
    END LOOP;
  END LOOP;
  FOREACH name IN ARRAY ARRAY['device', 'entry', 'blob', 'wrap', 'checkpoint', 'roster', 'session']
  LOOP
    EXECUTE format('CREATE POLICY own_vault ON %I USING (vault = %s)', name, own);
  END LOOP;
  EXECUTE format('CREATE POLICY own_vault ON vault USING (id = %s)', own);
  FOREACH name IN ARRAY ARRAY['vault', 'device', 'session'] LOOP
    EXECUTE format('CREATE POLICY whole_server ON %I USING (%s)', name, everywhere);
  END LOOP;
  FOREACH name IN ARRAY
    ARRAY['vault', 'device', 'entry', 'blob', 'wrap', 'checkpoint', 'roster', 'session']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
  END LOOP;
END $$;
