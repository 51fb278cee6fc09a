-- Vectors of opted-in rows where the extension pgvector is; applied once it is there. What the
-- extension took along when it was dropped leaves a table without its column.
DROP TABLE IF EXISTS index_piece;

CREATE TABLE index_piece(
  vault bytea NOT NULL,
  record bytea NOT NULL CHECK(length(record) = 16 AND get_byte(record, 0) >= 128),
  number integer NOT NULL,
  model text NOT NULL,
  piece vector NOT NULL, -- of as many dimensions as its model has
  PRIMARY KEY(vault, record, number),
  FOREIGN KEY(vault, record) REFERENCES index_row(vault, record) ON DELETE CASCADE);

-- Vectors that still stand in their row.
CREATE INDEX IF NOT EXISTS index_row_pieces ON index_row(vault) WHERE pieces IS NOT NULL;

INSERT INTO version(number) VALUES(2) ON CONFLICT DO NOTHING;
