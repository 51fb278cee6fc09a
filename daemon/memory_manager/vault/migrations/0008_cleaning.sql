-- A row here, inside one transaction only, permits to put the cleaned text of the versions of that
-- record in the place of what an older rule set let through. Who wrote when, what was done and what
-- was already erased stay as they are.
CREATE TABLE version_cleaning(record_rowid INTEGER PRIMARY KEY) STRICT;

DROP TRIGGER record_version_is_immutable;
CREATE TRIGGER record_version_is_immutable BEFORE UPDATE ON record_version
WHEN NEW.slot <> OLD.slot OR NEW.version <> OLD.version OR NEW.action <> OLD.action
  OR NEW.status <> OLD.status OR NEW.written_at_ms <> OLD.written_at_ms
  OR NEW.instance_hash IS NOT OLD.instance_hash OR NEW.credential_id IS NOT OLD.credential_id
  OR NOT (
    EXISTS(SELECT 1 FROM version_cleaning WHERE record_rowid = OLD.slot >> 24)
      AND (NEW.content IS NULL) = (OLD.content IS NULL) AND NEW.memory_type = OLD.memory_type
      AND NEW.importance IS OLD.importance AND NEW.confidence IS OLD.confidence
      AND NEW.expires_at_ms IS OLD.expires_at_ms
    OR EXISTS(SELECT 1 FROM version_erasure WHERE record_rowid = OLD.slot >> 24)
      AND NEW.content IS NULL AND NEW.metadata = '{}' AND NEW.provenance = '{}'
      AND NEW.item = '{}' AND NEW.path = '' AND NEW.bucket = '' AND NEW.scope IS NULL
      AND NEW.source IS NULL AND NEW.semantic_key IS NULL AND NEW.reason IS NULL
      AND NEW.agent_id IS OLD.agent_id AND NEW.client IS OLD.client)
BEGIN
  SELECT RAISE(ABORT, 'memory versions are immutable');
END;
