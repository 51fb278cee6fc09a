-- When a memory is erased, the stored answers that quote it are found without reading all of them.
-- Every answer of a write names its memory in the member "id".
CREATE INDEX idempotency_memory ON idempotency(json_extract(body, '$.id'));
