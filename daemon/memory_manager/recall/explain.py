"""Why a row was found, or why it was not. Contract: recall.md 8, xmemo.md 6.5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory_manager.recall.fusion import FusedRow
from memory_manager.recall.porter import stem
from memory_manager.recall.text_rules import index_fields, plain_terms
from memory_manager.vault.rows import MemoryRow


def explanation(
    fused: FusedRow, terms: Sequence[str], model_key: str | None
) -> Mapping[str, object]:
    """The figures behind one hit's score; ``terms`` are the words of the query that the row
    holds.
    """
    legs = [
        name
        for name, value in (("words", fused.lexical), ("meaning", fused.cosine))
        if value is not None
    ]
    return {
        "lexical": fused.lexical,
        "lexical_norm": fused.lexical_norm,
        "cosine": fused.cosine,
        "semantic_norm": fused.semantic_norm,
        "score": fused.score,
        "legs": legs,
        "terms": list(terms),
        "model_key": model_key,
    }


def matched_terms(row: MemoryRow, terms: tuple[str, ...]) -> list[str]:
    fields = index_fields(row)
    held = {
        stem(term)
        for text in (fields.body, fields.path, fields.who, fields.ident)
        for term in plain_terms(text)
    }
    return [term for term in terms if stem(term) in held]
