"""The whole sets of a seed: positives, disguises, harmless texts, rows (redaction.md 15.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from secrets_generator_carriers import carrier_shapes
from secrets_generator_catalogue import breadth_shapes, label_only_shapes
from secrets_generator_chosen import chosen_samples, harmless_names
from secrets_generator_contexts import (
    CONTEXTS,
    DOCUMENT_CONTEXTS,
    LABEL_CONTEXTS,
    MUTATIONS,
    in_context,
    mutated,
    under_label,
)
from secrets_generator_disguises import DISGUISES, NOT_FOR_SHORT_PREFIX, disguised
from secrets_generator_draw import Draw, Sample, Shape, Value
from secrets_generator_grid import harmless_grid, secret_grid
from secrets_generator_harmless import harmless
from secrets_generator_keys import key_shapes
from secrets_generator_languages import language_shapes
from secrets_generator_phrases import coded_samples, harmless_phrases, phrase_samples
from secrets_generator_rows import KEYED, PLACES, SURE_SPLITS, Row, split_rows
from secrets_generator_veiled import veiled_samples
from secrets_generator_vendors import vendor_shapes

GRID_ROUNDS = 40  # of each kind of value
CHOSEN_ROUNDS = 3  # of each build in each surroundings
PHRASE_ROUNDS = 8  # of each way of writing
VEILED_ROUNDS = 2  # of each key in each layout


def token_shapes() -> list[Shape]:
    """Kinds of secret that stand in any surroundings."""
    inline = [s for s in key_shapes() if s.family in ("jwt", "jwe", "paseto", "bip32", "wif")]
    named = ("age-key", "onepassword-secret-key", "aws-session", "bip39-plain")
    return [
        *vendor_shapes(),
        *breadth_shapes(),
        *inline,
        *(s for s in key_shapes() if s.name in named),
    ]


def document_shapes() -> list[Shape]:
    """Kinds of secret that are a text of their own."""
    taken = {shape.name for shape in token_shapes()}
    return [
        *(s for s in key_shapes() if s.name not in taken),
        *carrier_shapes(),
        *language_shapes(),
    ]


def format_count() -> int:
    """How many different kinds of secret there are."""
    names = {s.name for s in (*token_shapes(), *document_shapes())}
    return len(names) + len(label_only_shapes())


def _sample(shape: Shape, value: Value, template: str) -> Sample:
    return Sample(
        value.text, value.secrets, value.keep, shape.severity, shape.family,
        f"{shape.name}/{template}",
    )  # fmt: skip


def _chosen(names: Sequence[str], share: float, draw: Draw) -> Iterable[str]:
    return names if share >= 1 else [n for n in names if draw.random.random() < share]


def positives(seed: str, share: float = 1.0) -> Iterator[Sample]:
    """Every kind of secret in its surroundings, then mutated; ``share`` thins the surroundings."""
    draw = Draw(f"positives-{seed}")
    for shape in token_shapes():
        for name in _chosen(tuple(CONTEXTS), share, draw):
            yield _sample(shape, in_context(name, shape.draw(draw), draw), name)
        yield from _mutations(shape, draw)
    for shape in document_shapes():
        for name in _chosen(DOCUMENT_CONTEXTS, share, draw):
            yield _sample(shape, in_context(name, shape.draw(draw), draw), name)
    for shape, labels in label_only_shapes():
        for name in _chosen(tuple(LABEL_CONTEXTS), share, draw):
            yield _sample(shape, under_label(name, shape.draw(draw), labels), name)

    yield from secret_grid(draw, max(3, int(GRID_ROUNDS * share)))
    yield from phrase_samples(draw, max(2, int(PHRASE_ROUNDS * share)))
    yield from chosen_samples(draw, max(1, int(CHOSEN_ROUNDS * share)))


def harmless_texts(seed: str, rounds: int) -> Iterator[tuple[str, str]]:
    """(category, text): every category ``rounds`` times, then labels with harmless values."""
    for number in range(rounds):
        yield from harmless(Draw(f"harmless-{seed}-{number}"))
        yield from harmless_phrases()
    yield from harmless_grid(Draw(f"harmless-grid-{seed}"), rounds)
    yield from harmless_names(Draw(f"harmless-names-{seed}"), rounds)


def _mutations(shape: Shape, draw: Draw) -> Iterator[Sample]:
    for _ in range(2):
        names = tuple(draw.random.sample(sorted(MUTATIONS), draw.random.randint(1, 3)))
        context = draw.pick(("bare", "prose-en", "env", "label-colon", "json"))
        value = mutated(in_context(context, shape.draw(draw), draw), names, draw)
        yield _sample(shape, value, f"{context}+" + "+".join(names))


def disguises(seed: str, share: float = 1.0) -> Iterator[Sample]:
    """Every token of one run in every disguise, then labelled values, then keys in layouts."""
    draw = Draw(f"disguises-{seed}")
    yield from coded_samples(draw, max(2, int(PHRASE_ROUNDS * share)))
    yield from veiled_samples(draw, max(1, int(VEILED_ROUNDS * share)))
    for shape in token_shapes():
        for name in _chosen(tuple(DISGUISES), share, draw):
            value = shape.draw(draw)
            core = max(value.secrets, key=len)
            prefix = value.text[: value.text.index(core)]
            short = len(prefix) < 3 or prefix[-1:].isalnum()
            if " " in value.text or (short and name in NOT_FOR_SHORT_PREFIX):
                continue
            if not prefix and "prefix" in name:
                continue
            text, forms = disguised(name, value.text, core, draw)
            yield Sample(text, forms, (), shape.severity, f"disguise:{name}", shape.name)


def rows(seed: str, share: float = 1.0) -> Iterator[tuple[str, Row, tuple[str, ...]]]:
    """(position, row, secrets): tokens at every place, passwords under keys, split secrets."""
    draw = Draw(f"rows-{seed}")
    tokens = [s for s in vendor_shapes() if " " not in s.draw(draw).text]
    for name, place in PLACES.items():
        for shape in _chosen_shapes(tokens, share, draw):
            value = shape.draw(draw)
            yield f"place:{name}/{shape.name}", place(value.text), value.secrets
    for name, place in KEYED.items():
        for _ in range(max(2, int(16 * share))):
            secret = draw.password()
            yield f"keyed:{name}", place(secret), (secret,)
    for _ in range(max(2, int(8 * share))):
        for name, (row, value) in split_rows(draw).items():
            group = "split" if name in SURE_SPLITS else "cut"
            yield f"{group}:{name}", row, value.secrets


def _chosen_shapes(found: list[Shape], share: float, draw: Draw) -> list[Shape]:
    return draw.random.sample(found, max(2, int(len(found) * share)))
