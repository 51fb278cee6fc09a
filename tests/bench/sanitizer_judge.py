"""Counts what the sanitizer removed, altered and kept on the sets of one seed."""

from __future__ import annotations

import collections
import dataclasses

from secrets_generator_draw import Sample, remains
from secrets_generator_harmless import ZERO_GROUPS
from secrets_generator_rows import shown
from secrets_generator_sets import disguises, harmless_texts, positives, rows

from memory_manager.security.redact import sanitize_row, sanitize_server_write

HARMLESS_ROUNDS = 8
OTHER_GROUPS = ("language:", "breadth:", "grid:", "written:", "phrase:", "chosen:")
MOST_TEMPLATES = 14  # named of one family in the findings
NOT_VENDORS = (
    "private-key", "putty", "jwk", "bip39", "bip32", "wif", "age", "ethereum", "wireguard", "jwt",
    "jwe", "paseto", "webhook", "url", "signed", "otpauth", "header", "connection", "file",
    "command", "prose", "label",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Gate:
    """A figure beside its bound."""

    name: str
    figure: float
    bound: float
    at_least: bool
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound

    def line(self) -> str:
        sign = ">=" if self.at_least else "<="
        word = "pass" if self.passed else "FAIL"
        return f"{word}  {self.name:34} {self.figure:10.4f}  {sign} {self.bound:<8g} {self.note}"


@dataclasses.dataclass(slots=True)
class Tally:
    """How many of a family there were, and how many came out right."""

    total: int = 0
    right: int = 0

    @property
    def share(self) -> float:
        return self.right / self.total if self.total else 1.0


@dataclasses.dataclass(slots=True)
class Verdict:
    """Everything counted for one seed."""

    seed: str
    removed: dict[str, Tally] = dataclasses.field(default_factory=dict)
    high: Tally = dataclasses.field(default_factory=Tally)
    flagged: Tally = dataclasses.field(default_factory=Tally)
    kept: Tally = dataclasses.field(default_factory=Tally)
    stable: Tally = dataclasses.field(default_factory=Tally)
    hidden: dict[str, Tally] = dataclasses.field(default_factory=dict)
    quiet: dict[str, Tally] = dataclasses.field(default_factory=dict)
    row_leaks: dict[str, Tally] = dataclasses.field(default_factory=dict)
    failures: dict[tuple[str, str, str], list[str]] = dataclasses.field(default_factory=dict)

    def fail(self, what: str, family: str, template: str, text: str, output: str) -> None:
        self.failures.setdefault((what, family, template), []).append(
            f"{text[:400]!r}\n      -> {output[:400]!r}"
        )

    def vendor_families(self) -> dict[str, Tally]:
        """Families of vendor tokens: neither generic carriers, keys nor languages."""
        return {
            name: tally
            for name, tally in self.removed.items()
            if name not in NOT_VENDORS and not name.startswith(OTHER_GROUPS)
        }

    def gates(self) -> list[Gate]:
        total = _sum(self.removed)
        vendors = self.vendor_families()
        worst = min(vendors, key=lambda name: vendors[name].share)
        quiet = _sum(self.quiet)
        zero = _sum({n: t for n, t in self.quiet.items() if n.split(":")[0] in ZERO_GROUPS})
        hidden = _sum(self.hidden)
        leaks = _sum({n: t for n, t in self.row_leaks.items() if not n.startswith("cut:")})
        cuts = _sum({n: t for n, t in self.row_leaks.items() if n.startswith("cut:")})
        return [
            Gate("removed, all positives", total.share, 0.985, True, f"{total.total}"),
            Gate("worst vendor family", vendors[worst].share, 0.97, True, worst),
            Gate("high risk removed", self.high.share, 1.0, True, f"{self.high.total}"),
            Gate("high risk told as such", self.flagged.share, 1.0, True, f"{self.flagged.total}"),
            Gate("harmless altered", 1 - quiet.share, 0.005, False, f"{quiet.total}"),
            Gate("  in hashes, ids, marks, ...", 1 - zero.share, 0.0, False, f"{zero.total}"),
            Gate("disguises removed", hidden.share, 0.95, True, f"{hidden.total}"),
            Gate("useful context lost", 1 - self.kept.share, 0.01, False, f"{self.kept.total}"),
            Gate("idempotent", self.stable.share, 1.0, True, f"{self.stable.total}"),
            Gate("row leaks", leaks.total - leaks.right, 0, False, f"{leaks.total}"),
            Gate("tokens cut over fields, removed", cuts.share, 0.75, True, f"{cuts.total}"),
        ]

    def table(self) -> str:
        """Share right by family, the worst first."""
        lines = [f"seed {self.seed}"]
        for title, tallies in (
            ("removed", self.removed), ("disguises", self.hidden),
            ("harmless unchanged", self.quiet), ("rows", self.row_leaks),
        ):  # fmt: skip
            total = _sum(tallies)
            lines.append(f"\n{title}: {total.right} of {total.total} in {len(tallies)} families")
            order = sorted(tallies.items(), key=lambda item: (item[1].share, item[0]))
            wrong = [(name, tally) for name, tally in order if tally.right < tally.total]
            lines += [
                f"  {name:34} {tally.share:6.3f}  {tally.total - tally.right} / {tally.total} wrong"
                for name, tally in wrong
            ]
        return "\n".join(lines)

    def findings(self) -> str:
        """What failed, the most frequent first, with two examples each."""
        lines = [self.table(), "", *(gate.line() for gate in self.gates())]
        by_family: dict[tuple[str, str], dict[str, list[str]]] = collections.defaultdict(dict)
        for (what, family, template), examples in self.failures.items():
            by_family[what, family][template] = examples
        order = sorted(by_family.items(), key=lambda item: -sum(map(len, item[1].values())))
        for (what, family), templates in order:
            count = sum(map(len, templates.values()))
            lines.append(f"\n## {what}: {family} ({count})")
            names = [f"{t} x{len(e)}" for t, e in templates.items()]
            lines.append("   " + ", ".join(names[:MOST_TEMPLATES]))
            shown_templates = list(templates.items())
            for template, examples in (shown_templates[0], *shown_templates[-1:])[:2]:
                lines.append(f"   [{template}] {examples[0]}")
        return "\n".join(lines) + "\n"


def _sum(tallies: dict[str, Tally]) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total.total += tally.total
        total.right += tally.right
    return total


def _count(tally: Tally, right: bool) -> None:
    tally.total += 1
    tally.right += right


def _judge_sample(verdict: Verdict, sample: Sample) -> None:
    result = sanitize_server_write(sample.text)
    left = remains(sample, result.text)
    _count(verdict.removed.setdefault(sample.family, Tally()), not left)
    if left:
        verdict.fail("left", sample.family, sample.template, sample.text, result.text)
    if sample.severity == "high_risk":
        _count(verdict.high, not left)
        _count(verdict.flagged, result.high_risk)
        if not left and not result.high_risk:
            verdict.fail("unflagged", sample.family, sample.template, sample.text, result.text)
    for part in sample.keep:
        _count(verdict.kept, part in result.text)
        if part not in result.text:
            verdict.fail("lost", sample.family, sample.template, sample.text, result.text)
    _judge_again(verdict, sample.family, sample.template, sample.text, result.text)


def _judge_again(verdict: Verdict, family: str, template: str, text: str, cleaned: str) -> None:
    again = sanitize_server_write(cleaned)
    same = again.text == cleaned and not again.redactions and not again.applied
    _count(verdict.stable, same)
    if not same:
        verdict.fail("unstable", family, template, text, f"{cleaned} ->> {again.text}")


def judge(seed: str, share: float = 1.0) -> Verdict:
    """The verdict on every set of ``seed``; ``share`` (0..1) thins the surroundings."""
    verdict = Verdict(seed)
    for sample in positives(seed, share):
        _judge_sample(verdict, sample)
    for sample in disguises(seed, share):
        cleaned = sanitize_server_write(sample.text).text
        left = remains(sample, cleaned)
        _count(verdict.hidden.setdefault(sample.family, Tally()), not left)
        if left:
            verdict.fail("left", sample.family, sample.template, sample.text, cleaned)
        _judge_again(verdict, sample.family, sample.template, sample.text, cleaned)
    for name, text in harmless_texts(seed, max(2, int(HARMLESS_ROUNDS * share))):
        result = sanitize_server_write(text)
        same = result.text is text and not result.applied
        _count(verdict.quiet.setdefault(name, Tally()), same)
        if not same:
            verdict.fail("altered", name, "harmless", text, result.text)
    for name, row, secrets in rows(seed, share):
        cleaned_row = sanitize_row(row)
        output = shown(cleaned_row.row) + repr(cleaned_row)
        sample = Sample("", secrets, (), "credential", name, name)
        left = remains(sample, output)
        _count(verdict.row_leaks.setdefault(name.partition("/")[0], Tally()), not left)
        if left:
            family, _, template = name.partition("/")
            verdict.fail("row", family, template or "row", shown(row), output)
        second = sanitize_row(cleaned_row.row)
        _count(verdict.stable, second.row == cleaned_row.row and not second.applied)
        if second.row != cleaned_row.row or second.applied:
            verdict.fail("unstable", name, "row", shown(row), output + " ->> " + shown(second.row))
    return verdict
