"""The sanitizer beside a public scanner in one run (redaction.md 14, 15.5): ratios, not times."""

from __future__ import annotations

import pytest
from public_scanners import kingfisher_scan, scanners
from sanitizer_corpora import edits
from sanitizer_speed import clean_pieces, microseconds
from secrets_generator_draw import Draw, remains
from secrets_generator_harmless import harmless
from secrets_generator_sets import positives

from memory_manager.security.redact import sanitize_server_write


def _ours(text: str) -> str:
    return sanitize_server_write(text).text


@pytest.mark.bench
def test_more_goes_and_less_is_altered_than_by_a_public_scanner_in_less_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    samples = list(positives("beside", 0.01))[::5]
    texts = [text for _, text in harmless(Draw("beside"))][::2]
    pieces = clean_pieces()[:40]
    figures = {}
    with scanners(("detect-secrets",)) as others:
        for name, clean in (("ours", _ours), *others.items()):
            removed = sum(not remains(s, clean(s.text)) for s in samples) / len(samples)
            altered = sum(clean(text) != text for text in texts) / len(texts)
            spent = microseconds(clean, pieces)
            figures[name] = (removed, altered, sum(spent) / len(spent))
    with capsys.disabled():
        for name, (removed, altered, mean) in figures.items():
            print(
                f"\n{name:16} removed {removed:.3f} altered {altered:.3f} {mean:.0f} us/KB", end=""
            )
    ours, theirs = figures["ours"], figures["detect-secrets"]
    assert ours[0] > theirs[0] + 0.3
    assert ours[1] < theirs[1]
    assert ours[2] * 3 < theirs[2]


@pytest.mark.bench
@pytest.mark.slow
def test_another_scanner_finds_nothing_in_what_we_cleaned() -> None:
    scan = kingfisher_scan()
    found = [
        (rule, sample.template)
        for sample in positives("cleaned", 0.05)
        for rule, secret in scan(_ours(sample.text))
        if "REDACTED" not in secret
    ]
    assert not found


@pytest.mark.bench
def test_ordinary_library_code_is_hardly_touched() -> None:
    # the standard library of this very Python: the same code for everybody
    count, size, lines = edits(4.0, "suite", places=("stdlib",))
    assert size > 2_000_000
    assert count / size * 1e6 <= 0.5, "\n".join(lines)
