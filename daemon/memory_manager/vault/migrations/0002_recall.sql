-- Derived data of recall: full text, vectors, the queue that fills them. Contract: recall.md 3.4, 6.1, 7.1, 10.
-- Everything here can be rebuilt from the table record at any time.

CREATE TABLE fts_source(
  record_rowid INTEGER PRIMARY KEY,
  body         TEXT NOT NULL,
  path         TEXT NOT NULL,
  who          TEXT NOT NULL,
  ident        TEXT NOT NULL,
  in_trigram   INTEGER NOT NULL CHECK(in_trigram IN (0, 1)),
  text_rules   INTEGER NOT NULL);

-- Categories with marks: without them the vowel signs of Devanagari would tear words apart.
CREATE VIRTUAL TABLE memory_fts USING fts5(body, path, who, ident,
  content='fts_source', content_rowid='record_rowid',
  tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'");
INSERT INTO memory_fts(memory_fts, rank) VALUES('secure-delete', 1);

CREATE VIRTUAL TABLE memory_tri USING fts5(body,
  content='fts_source', content_rowid='record_rowid', tokenize='trigram remove_diacritics 1');
INSERT INTO memory_tri(memory_tri, rank) VALUES('secure-delete', 1);

CREATE VIRTUAL TABLE memory_vocab USING fts5vocab(memory_fts, 'row');

CREATE TABLE embedding_model(
  model_rowid INTEGER PRIMARY KEY,
  model_key   TEXT NOT NULL UNIQUE,
  dim         INTEGER NOT NULL CHECK(dim BETWEEN 1 AND 8192),
  manifest    TEXT,
  state       TEXT NOT NULL CHECK(state IN ('building', 'active', 'retired')),
  covered     INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL);

CREATE TABLE vector_segment(
  segment_id  INTEGER PRIMARY KEY,
  model_rowid INTEGER NOT NULL REFERENCES embedding_model,
  n           INTEGER NOT NULL CHECK(n BETWEEN 1 AND 4096),
  dead        INTEGER NOT NULL DEFAULT 0,
  keys        BLOB NOT NULL,
  scales      BLOB NOT NULL,
  codes       BLOB NOT NULL);
CREATE INDEX vector_segment_model ON vector_segment(model_rowid);

CREATE TABLE vector_tail(
  record_rowid INTEGER NOT NULL,
  piece        INTEGER NOT NULL,
  model_rowid  INTEGER NOT NULL REFERENCES embedding_model,
  scale        REAL NOT NULL,
  code         BLOB NOT NULL,
  PRIMARY KEY(record_rowid, piece, model_rowid));

-- Where a row's vectors stand inside segments, so that forgetting one need not scan them all.
CREATE TABLE vector_slot(
  record_rowid INTEGER NOT NULL,
  piece        INTEGER NOT NULL,
  segment_id   INTEGER NOT NULL REFERENCES vector_segment ON DELETE CASCADE,
  slot         INTEGER NOT NULL,
  PRIMARY KEY(record_rowid, piece, segment_id)) WITHOUT ROWID;
CREATE INDEX vector_slot_segment ON vector_slot(segment_id);

CREATE TABLE embedding_queue(
  record_rowid INTEGER PRIMARY KEY,
  queued_at    INTEGER NOT NULL,
  attempts     INTEGER NOT NULL DEFAULT 0);

-- Rows that the model in building or in use cannot embed; they stay findable by words.
CREATE TABLE unembeddable(
  record_rowid INTEGER NOT NULL,
  model_rowid  INTEGER NOT NULL REFERENCES embedding_model ON DELETE CASCADE,
  PRIMARY KEY(record_rowid, model_rowid)) WITHOUT ROWID;

-- Near duplicates: a link, nothing else. newer is the row written later.
CREATE TABLE near_pair(
  newer_rowid INTEGER NOT NULL,
  older_rowid INTEGER NOT NULL,
  cosine      REAL NOT NULL,
  model_rowid INTEGER NOT NULL REFERENCES embedding_model ON DELETE CASCADE,
  PRIMARY KEY(newer_rowid, older_rowid)) WITHOUT ROWID;
CREATE INDEX near_pair_older ON near_pair(older_rowid);
