"""The shape of the tree: what house rules forbid or demand of files and packages."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
from pathlib import Path

MAX_LINES = 500
TOP_LEVEL = {
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md",
    "daemon", "sync", "tray", "tests", "packaging",
}  # fmt: skip
ROOTS = ("daemon", "sync", "tray")


def tracked_files(repository: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        check=True,
        capture_output=True,
    )
    names = listed.stdout.decode().split("\0")
    return [Path(name) for name in names if name and (repository / name).is_file()]


def test_top_level_holds_only_the_allowed_names(repository: Path) -> None:
    top = {path.parts[0] for path in tracked_files(repository)}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def test_no_package_marker_where_it_would_shadow_another_distribution(repository: Path) -> None:
    forbidden = [
        path
        for path in tracked_files(repository)
        if path.name == "__init__.py"
        and (
            path.parts[0] in ("tests", "packaging")
            or path.parent in (Path(root) for root in ROOTS)
            or path.parent in (Path(root) / "memory_manager" for root in ROOTS)
        )
    ]
    assert forbidden == []


def test_every_python_file_is_short_enough_to_read(repository: Path) -> None:
    too_long = {
        str(path): lines
        for path in tracked_files(repository)
        if path.suffix == ".py"
        and (lines := len((repository / path).read_text("utf-8").splitlines())) > MAX_LINES
    }
    assert too_long == {}


def test_every_package_is_typed(repository: Path) -> None:
    packages = {
        repository / root / "memory_manager" / path.parts[2]
        for root in ROOTS
        for path in tracked_files(repository)
        if path.parts[:2] == (root, "memory_manager") and path.name == "__init__.py"
    }
    assert packages
    assert [str(package) for package in packages if not (package / "py.typed").exists()] == []


def test_only_memlocket_owns_the_namespace() -> None:
    owners = importlib.metadata.packages_distributions().get("memory_manager", [])
    assert set(owners) <= {"memlocket"}
    assert importlib.metadata.version("memlocket")


def test_the_documents_imports_work_verbatim() -> None:
    from memory_manager.auth.agent_identity import agent_instance_id_hash
    from memory_manager.security.redact import sanitize_server_write

    result = sanitize_server_write("Deploy with token=not-a-real-secret", redact_contact_pii=False)
    assert result.applied
    assert "not-a-real-secret" not in result.text
    assert agent_instance_id_hash("codex-local-install").startswith("sha256:")


def test_every_error_code_is_unique_and_explained(repository: Path) -> None:
    from memory_manager.base.errors import MemlocketError

    for path in sorted((repository / "daemon/memory_manager").glob("*/errors.py")):
        importlib.import_module(f"memory_manager.{path.parent.name}.errors")
    seen: dict[str, type[MemlocketError]] = {}
    pending = list(MemlocketError.__subclasses__())
    while pending:
        error = pending.pop()
        pending.extend(error.__subclasses__())
        assert re.fullmatch(r"[a-z][a-z0-9_]*", error.code), error
        assert error.__doc__, f"{error.__name__} needs a docstring that says what it means"
        if "code" in vars(error):  # a code that is inherited is the parent's
            assert seen.setdefault(error.code, error) is error, f"code {error.code} is used twice"
    assert seen


def test_no_secret_pattern_lives_outside_the_sanitizer(repository: Path) -> None:
    prefixes = re.compile(r"ghp_|github_pat_|xox[bp]-|AKIA|sk_live_|BEGIN [A-Z ]*PRIVATE")
    security = repository / "daemon/memory_manager/security"
    outside = [
        str(path)
        for path in (repository / "daemon").rglob("*.py")
        if security not in path.parents and prefixes.search(path.read_text("utf-8"))
    ]
    assert outside == []
