"""What a memory is about to say: limits first, then the sanitizer over the whole new version.

Everything that is derived later (full text, vectors, dedupe key) comes from the cleaned values made
here. Pure but for the values it is given. Contract: redaction.md 2, 8, 10; xmemo.md 4.6, 14.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, cast

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.errors import InvalidInput, TooLarge
from memory_manager.security.envelope import OPT_IN_KEY, VAULT_DEFAULT
from memory_manager.security.errors import SanitizerFailed
from memory_manager.security.redact import RULESET_VERSION, RowResult, sanitize_row
from memory_manager.security.redact.sanitize import KEEP_PERSONAL, Personal
from memory_manager.vault.item_fields import check_item, texts_of_item
from memory_manager.vault.row_codec import encode_json
from memory_manager.vault.rows import (
    MAX_CONTENT_CHARACTERS,
    MAX_METADATA_BYTES,
    Attribution,
    JsonValue,
    MemoryDraft,
    MemoryRow,
    MemoryType,
    MemoryVersion,
    RecordKind,
)

MAX_PATH_CHARACTERS = 4_096
MAX_LABEL_CHARACTERS = 1_024
MAX_REASON_CHARACTERS = 4_096
MAX_JSON_DEPTH = 64

DEFAULT_MEMORY_TYPE: Final = MemoryType.SEMANTIC
"""What ``auto`` becomes: a note without a stated kind is most often a fact, and the type only
labels a row. An update through a semantic key keeps the type the row has."""

_TEXT_LIMITS: Final = {
    "content": MAX_CONTENT_CHARACTERS,
    "path": MAX_PATH_CHARACTERS,
    "bucket": MAX_LABEL_CHARACTERS,
    "scope": MAX_LABEL_CHARACTERS,
    "source": MAX_LABEL_CHARACTERS,
    "semantic_key": MAX_LABEL_CHARACTERS,
}
_ENVELOPE_KEYS = frozenset({OPT_IN_KEY, "security_envelope", *VAULT_DEFAULT.as_json()})


@dataclasses.dataclass(frozen=True, slots=True)
class RowContents:
    """Everything of a version that its writer chose."""

    content: str = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    bucket: str
    scope: str | None
    memory_type: MemoryType
    importance: float | None
    confidence: float | None
    source: str | None
    metadata: Mapping[str, JsonValue] = dataclasses.field(repr=False)
    provenance: Mapping[str, JsonValue] = dataclasses.field(repr=False)
    semantic_key: str | None = dataclasses.field(repr=False)
    expires_at_ms: int | None
    kind: RecordKind
    item: Mapping[str, JsonValue] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedVersion:
    """Cleaned values, ready to be stored; ``rules`` are the ids that fired."""

    contents: RowContents
    writer: Attribution
    reason: str | None = dataclasses.field(repr=False)
    rules: tuple[str, ...]
    ruleset_version: str
    metadata_json: str = dataclasses.field(repr=False)
    provenance_json: str = dataclasses.field(repr=False)
    item_json: str = dataclasses.field(repr=False)
    dedupe_key: bytes
    high_risk: bool  # a private key or the like was in it: what comes in by itself is skipped


def contents_of_draft(draft: MemoryDraft, default_type: MemoryType) -> RowContents:
    return RowContents(
        content=draft.content,
        path=draft.path,
        bucket=draft.bucket,
        scope=draft.scope or None,
        memory_type=draft.memory_type or default_type,
        importance=draft.importance,
        confidence=draft.confidence,
        source=draft.source or None,
        metadata=draft.metadata,
        provenance=draft.provenance,
        semantic_key=draft.semantic_key or None,
        expires_at_ms=draft.expires_at_ms,
        kind=draft.kind,
        item=draft.item,
    )


def contents_of_stored(stored: MemoryRow | MemoryVersion) -> RowContents:
    """What a row or one of its versions says; an erased version says nothing."""
    return RowContents(
        content=stored.content or "",
        path=stored.path,
        bucket=stored.bucket,
        scope=stored.scope,
        memory_type=stored.memory_type,
        importance=stored.importance,
        confidence=stored.confidence,
        source=stored.source,
        metadata=stored.metadata,
        provenance=stored.provenance,
        semantic_key=stored.semantic_key,
        expires_at_ms=stored.expires_at_ms,
        kind=stored.kind,
        item=stored.item,
    )


def prepare(
    contents: RowContents,
    writer: Attribution,
    *,
    reason: str | None = None,
    accepted: RowContents | None = None,
    accepted_reason: str | None = None,
    personal: Personal = KEEP_PERSONAL,
) -> PreparedVersion:
    """Check the limits and clean the whole version, the writer's labels included.

    Values equal to those of ``accepted``, and a reason equal to ``accepted_reason``, are not
    measured again: cleaning can make a text longer than what may be sent in, and such a memory must
    still be changed, forgotten and restored.

    Raises TooLarge or InvalidInput, naming the field and never its value, and SanitizerFailed.
    Envelope fields and the opt-in flag in metadata are dropped: only the owner's own act sets them.
    A semantic key in which a secret was found is dropped, not rewritten: two different keys would
    become one and overwrite each other's memory. A state cannot be without its key: InvalidInput.
    """
    _check_limits(contents, None if reason == accepted_reason else reason, accepted)
    given: dict[str, Any] = {
        "path": contents.path,
        "content": contents.content,
        "metadata": contents.metadata,
        "provenance": contents.provenance,
        "bucket": contents.bucket,
        "scope": contents.scope,
        "source": contents.source,
        "semantic_key": contents.semantic_key,
        "agent_id": writer.identity.agent_id,
        "client": writer.client,
        "reason": reason or None,
        "item": texts_of_item(contents.item),
    }
    result = _sanitize(given, personal)
    clean = result.row
    metadata = {
        key: value
        for key, value in cast("dict[str, JsonValue]", clean["metadata"]).items()
        if key not in _ENVELOPE_KEYS
    }
    key_is_clean = clean["semantic_key"] == contents.semantic_key
    if contents.kind is RecordKind.STATE and not key_is_clean:
        raise InvalidInput("state_key looks like a secret.", field="state_key")
    cleaned = dataclasses.replace(
        contents,
        content=clean["content"],
        path=clean["path"],
        bucket=clean["bucket"],
        scope=clean["scope"],
        source=clean["source"],
        metadata=metadata,
        provenance=cast("dict[str, JsonValue]", clean["provenance"]),
        semantic_key=contents.semantic_key if key_is_clean else None,
        item={**contents.item, **cast("dict[str, JsonValue]", clean["item"])},
    )
    return PreparedVersion(
        contents=cleaned,
        writer=dataclasses.replace(
            writer,
            identity=AgentIdentity(clean["agent_id"], writer.identity.instance_hash),
            client=clean["client"],
        ),
        reason=clean["reason"],
        rules=result.rules,
        ruleset_version=RULESET_VERSION,
        metadata_json=encode_json(metadata),
        provenance_json=encode_json(cleaned.provenance),
        item_json=encode_json(cleaned.item),
        dedupe_key=dedupe_key(cleaned),
        high_risk=result.high_risk,
    )


def clean_writer(agent_id: str | None, client: str | None) -> tuple[str | None, str | None]:
    """The labels of somebody who acted, cleaned. Raises SanitizerFailed."""
    clean = _sanitize({"agent_id": agent_id, "client": client}, KEEP_PERSONAL).row
    return clean["agent_id"], clean["client"]


def normalised_text(text: str) -> str:
    """The form in which two contents count as the same: NFKC, trimmed, white space collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def dedupe_key(contents: RowContents) -> bytes:
    """16 bytes that equal rows share: place and normalised text. Equality is checked again."""
    place = encode_json(
        [contents.bucket, contents.scope, contents.path, normalised_text(contents.content)]
    )
    return hashlib.sha256(place.encode()).digest()[:16]


def _sanitize(given: dict[str, Any], personal: Personal) -> RowResult:
    try:
        return sanitize_row(
            given,
            redact_contact_pii=personal.contact,
            redact_identity_numbers=personal.identity_numbers,
            phone_region=personal.phone_region,
        )
    except Exception:  # noqa: S110 - fail closed; the error may hold the text, so it goes
        pass
    raise SanitizerFailed


def _check_limits(contents: RowContents, reason: str | None, accepted: RowContents | None) -> None:
    if reason is not None:
        _check_text("reason", reason, MAX_REASON_CHARACTERS)
    for field, limit in _TEXT_LIMITS.items():
        text = getattr(contents, field)
        if text is not None and not _is_accepted(field, text, accepted):
            _check_text(field, text, limit)
    for field in ("path", "bucket"):
        if not getattr(contents, field):
            raise InvalidInput(f"{field} must not be empty.", field=field)
    check_item(contents.kind, contents.item, None if accepted is None else accepted.item)
    for field in ("metadata", "provenance"):
        mapping = getattr(contents, field)
        if not _is_accepted(field, mapping, accepted):
            _check_mapping(field, mapping)
    for field in ("importance", "confidence"):
        ratio = getattr(contents, field)
        if ratio is not None and not (math.isfinite(ratio) and 0 <= ratio <= 1):
            raise InvalidInput(f"{field} must be a number from 0 to 1.", field=field)


def _is_accepted(field: str, value: object, accepted: RowContents | None) -> bool:
    return accepted is not None and getattr(accepted, field) == value


def _check_text(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise TooLarge(f"{field} is longer than {limit} characters; nothing was stored.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{field} is not valid Unicode.", field=field) from None


def _check_mapping(field: str, mapping: Mapping[str, JsonValue]) -> None:
    if _deeper_than(mapping, MAX_JSON_DEPTH):
        raise InvalidInput(f"{field} is nested deeper than {MAX_JSON_DEPTH} levels.", field=field)
    try:
        size = len(encode_json(mapping).encode())
    except (TypeError, ValueError):  # NaN, lone surrogates, values JSON does not know
        raise InvalidInput(f"{field} is not a valid JSON object.", field=field) from None
    if size > MAX_METADATA_BYTES:
        raise TooLarge(f"{field} is larger than {MAX_METADATA_BYTES} bytes; nothing was stored.")


def _deeper_than(value: object, limit: int) -> bool:
    if isinstance(value, Mapping):
        children = list(cast("Mapping[str, object]", value).values())
    elif isinstance(value, (list, tuple)):
        children = list(cast("list[object]", value))
    else:
        return False
    return limit == 0 or any(_deeper_than(child, limit - 1) for child in children)
