-- name: fact
-- One fact.
SELECT value FROM fact WHERE name = :name;

-- name: set_fact
-- Set one fact.
INSERT INTO fact VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: session_ids
-- All sessions that are in here.
SELECT session_id FROM session;

-- name: with_status
-- Sessions of one of the two statuses that have to be looked at again.
SELECT session_id FROM session WHERE status IN ('running', 'damaged') AND status = :status;

-- name: standing
-- How far one session is in here, and what folding has to know to go on.
SELECT key, seq, row_id, info, state FROM session WHERE session_id = :session_id;

-- name: turn
-- One turn but the last.
SELECT status, failed FROM turn WHERE key = :key AND turn_id = :turn_id;

-- name: put_turn
-- Note a turn that is not the last one.
INSERT INTO turn VALUES (:key, :turn_id, :status, :failed)
ON CONFLICT (key, turn_id) DO UPDATE SET status = excluded.status, failed = excluded.failed;

-- name: put_session
-- Note a session as it is now. Gives its key.
INSERT INTO session (
  session_id, seq, row_id, status, turns, agent_id, source, archived, pinned, active_at, title, tags, info, state
) VALUES (
  :session_id, :seq, :row_id, :status, :turns, :agent_id, :source, :archived, :pinned, :active_at, :title, :tags,
  :info, :state
) ON CONFLICT (session_id) DO UPDATE SET
  seq = excluded.seq, row_id = excluded.row_id, status = excluded.status, turns = excluded.turns,
  agent_id = excluded.agent_id, source = excluded.source, archived = excluded.archived, pinned = excluded.pinned,
  active_at = excluded.active_at, title = excluded.title, tags = excluded.tags, info = excluded.info,
  state = excluded.state
RETURNING key;

-- name: drop_session
-- Forget a session itself.
DELETE FROM session WHERE key = :key;

-- name: drop_turns
-- Forget a session's turns.
DELETE FROM turn WHERE key = :key;

-- name: drop_documents
-- Forget the documents from one rowid up to before another.
DELETE FROM document WHERE rowid >= :first AND rowid < :after;

-- name: put_document
-- Note a document.
INSERT INTO document (rowid, text, parts, seq, kind, name, at)
VALUES (:rowid, :text, :parts, :seq, :kind, :name, :at);

-- name: listed
-- Sessions that pass the filters, the most recently active first.
SELECT info FROM session WHERE {filters} ORDER BY active_at DESC, session_id LIMIT :limit OFFSET :offset;

-- name: found
-- Sessions with documents that match, and how many: good and recent ones first. A month halves the bonus for being new.
-- The rowid is that of the document with the least rank.
SELECT matching.best_rowid, matching.documents, session.info
FROM (
  SELECT rowid >> 33 AS key, rowid AS best_rowid, count(*) AS documents, min(rank) AS best
  FROM document WHERE document MATCH :match GROUP BY rowid >> 33
) AS matching JOIN session ON session.key = matching.key
WHERE {filters}
ORDER BY best * (1 + 1 / (1 + max(0, coalesce(julianday(:now) - julianday(active_at), 1e9)) / 30)), active_at DESC
LIMIT :limit;

-- name: hit
-- One document that matches, with the piece around what was found.
SELECT snippet(document, 0, char(2), char(3), '…', 16), seq, kind, name, at
FROM document WHERE document MATCH :match AND rowid = :rowid;

-- name: text
-- The text of one document.
SELECT text FROM document WHERE rowid = :rowid;
