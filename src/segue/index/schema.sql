-- The index of all sessions: a cache of their journals. A changed schema, or a change of what is indexed, gets another
-- VERSION in database.py; an index of another version is made anew.

CREATE TABLE fact (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL            -- `census`: of the store, when the sessions were compared with it last
) WITHOUT ROWID;

CREATE TABLE session (
  key INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL,          -- of the last row that is in here; 0 for none
  row_id BLOB NOT NULL,          -- its id, UTF-8: another one there means another journal
  status TEXT NOT NULL,
  turns INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  source TEXT NOT NULL,
  archived INTEGER NOT NULL,
  pinned INTEGER NOT NULL,
  active_at TEXT NOT NULL,
  title TEXT NOT NULL,           -- case folded
  tags TEXT NOT NULL,            -- each between two separators
  info BLOB NOT NULL,            -- the SessionInfo, JSON
  state BLOB NOT NULL            -- what folding has to know to go on after `seq`, JSON
);
CREATE INDEX newest ON session (active_at DESC, session_id);
CREATE INDEX to_look_at ON session (status) WHERE status IN ('running', 'damaged');

-- Turns but the last of each session: a later row may name one.
CREATE TABLE turn (
  key INTEGER NOT NULL,
  turn_id BLOB NOT NULL,         -- UTF-8
  status TEXT NOT NULL,
  failed INTEGER NOT NULL,
  PRIMARY KEY (key, turn_id)
) WITHOUT ROWID;

-- One row a document. Its rowid is the session's key times 2^33 plus the document's place in the session.
CREATE VIRTUAL TABLE document USING fts5 (
  text, parts, seq UNINDEXED, kind UNINDEXED, name UNINDEXED, at UNINDEXED,
  tokenize = "{tokenizer}"
);
INSERT INTO document (document, rank) VALUES ('rank', 'bm25(1.0, 0.5)');
