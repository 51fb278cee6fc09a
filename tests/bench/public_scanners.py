"""Public secret scanners as functions from a text to a cleaned text, as far as installed.

They are measured beside the sanitizer, in the same run and process. Only their scanning is
called: no verification, no network, and nothing they say about a finding is shown or kept.
"""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

Cleaner = Callable[[str], str]
MARK = "[X]"
VERIFYING = "detect_secrets.filters.common.is_ignored_due_to_verification_policies"


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _cut(text: str, secrets: list[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, MARK)
    return text


@contextlib.contextmanager
def _detect_secrets() -> Iterator[Cleaner]:
    """Files are its real mode: on single lines it reports nearly everything."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings, get_settings

    with default_settings(), tempfile.TemporaryDirectory() as folder:
        get_settings().disable_filters(VERIFYING)
        path = Path(folder) / "memory.txt"

        def clean(text: str) -> str:
            path.write_text(text, encoding="utf-8", errors="surrogatepass")
            return _cut(text, [found.secret_value or "" for found in scan_file(str(path))])

        yield clean


@contextlib.contextmanager
def _kingfisher() -> Iterator[Cleaner]:
    scan = kingfisher_scan()

    def clean(text: str) -> str:
        return _cut(text, [secret for _rule, secret in scan(text)])

    yield clean


def kingfisher_scan() -> Callable[[str], list[tuple[str, str]]]:
    """(rule id, secret) of each visible finding in a text; scanning only, nothing kept on disk."""
    from kingfisher_sdk import Rules, Scanner

    scanner = Scanner(Rules(confidence="low", cache=False))

    def scan(text: str) -> list[tuple[str, str]]:
        raw = text.encode("utf-8", "replace")
        return [(found.rule_id, found.secret) for found in scanner.scan(raw) if found.visible]

    return scan


@contextlib.contextmanager
def _betterleaks() -> Iterator[Cleaner]:
    from betterleaks import scan_string

    def clean(text: str) -> str:
        return _cut(text, [found.secret for found in scan_string(text)])

    yield clean


@contextlib.contextmanager
def _scrubbers() -> Iterator[Cleaner]:
    from scrubbers import scrub_text

    yield lambda text: str(scrub_text(text.encode("utf-8", "replace").decode()))


SCANNERS: dict[str, tuple[str, Callable[[], contextlib.AbstractContextManager[Cleaner]]]] = {
    "detect-secrets": ("detect_secrets", _detect_secrets),
    "scrubbers": ("scrubbers", _scrubbers),
    "kingfisher": ("kingfisher_sdk", _kingfisher),
    "betterleaks": ("betterleaks", _betterleaks),
}


@contextlib.contextmanager
def scanners(names: tuple[str, ...] = tuple(SCANNERS)) -> Iterator[dict[str, Cleaner]]:
    """The installed ones among ``names``, ready to be called."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(SCANNERS[name][1]())
            for name in names
            if installed(SCANNERS[name][0])
        }
