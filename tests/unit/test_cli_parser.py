"""The command line as a document: every command, its help, exit codes and the tables in README."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest
from readme_tables import README, error_classes, with_tables

from memory_manager.cli.arguments import future_moment, moment, positive, ratio
from memory_manager.cli.errors import EXIT_CODES, code_of, exit_code_of, title_of
from memory_manager.cli.main import build_parser, main
from memory_manager.client.errors import ErrorAnswer, RemoteError
from memory_manager.vault.rows import DEFAULT_BUCKET

PROMISED = """
init up stop restart daemon status unlock lock passphrase remember recall search list get forget
restore versions import export backup restore-backup agent doctor logs keyfile model embeddings
bench recovery rekey keyring connect disconnect mcp approvals approve deny open dashboard
destroy settings client mcp server sync conflicts opt-in
""".split()


def commands(
    parser: argparse.ArgumentParser, prefix: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield f"{prefix}{name}", child
                yield from commands(child, f"{prefix}{name} ")


def test_every_promised_command_is_there() -> None:
    assert {name for name, _ in commands(build_parser()) if " " not in name} == set(PROMISED)


def test_every_command_has_help_and_json_and_takes_no_secret() -> None:
    for name, parser in commands(build_parser()):
        text = parser.format_help()
        assert "--json" in text, name
        assert parser.description, name
        options = [option for action in parser._actions for option in action.option_strings]
        secrets = [o for o in options if re.search("passphrase|token$|words|secret", o)]
        assert all(option.endswith("-fd") for option in secrets), name


def test_an_unknown_option_is_told_by_the_command_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--output", "x"])
    said = capsys.readouterr().err
    assert "usage: memlocket export" in said
    assert "unrecognized arguments: --output" in said


def test_the_help_names_the_bucket_that_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["remember", "--help"])
    assert f"(default: {DEFAULT_BUCKET})" in capsys.readouterr().out


def test_help_fits_a_terminal_and_explains_every_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, parser in [("memlocket", build_parser()), *commands(build_parser())]:
        assert [line for line in parser.format_help().splitlines() if len(line) > 80] == [], name
        unexplained = [
            action.dest
            for action in parser._actions
            if not action.help and not isinstance(action, argparse._SubParsersAction)
        ]
        assert unexplained == [], name


@pytest.mark.parametrize("place", ["before", "after"])
def test_json_is_understood_on_either_side(place: str) -> None:
    given = ["--json", "status"] if place == "before" else ["status", "--json"]
    assert build_parser().parse_args(given).json is True
    assert not hasattr(build_parser().parse_args(["status"]), "json")


def test_exit_codes_of_all_errors_are_documented() -> None:
    undocumented = {k.code for k in error_classes().values() if k.exit_code not in EXIT_CODES}
    assert undocumented == set()
    text = build_parser().format_help()
    for number, meaning in EXIT_CODES.items():
        assert f"{number:>3}  {meaning}" in text


def test_readme_tables_are_those_of_the_code() -> None:
    text = README.read_text()
    assert with_tables(text) == text, "run: python tests/support/readme_tables.py"


def test_readme_names_only_commands_that_exist() -> None:
    known = {name for name, _ in commands(build_parser())}
    groups = {name.split()[0] for name in known if " " in name}
    used = re.findall(
        r"^memlocket ([a-z][a-z-]*)(?: ([a-z]+))?|`memlocket ([a-z][a-z-]*)",
        README.read_text(),
        re.MULTILINE,
    )
    assert len(used) > 10
    for first, second, quoted in used:
        assert (first or quoted) in known
        if first in groups and second:
            assert f"{first} {second}" in known


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [
        ("vault_locked", 503, 10),
        ("passphrase_required", 403, 11),
        ("not_found", 404, 4),
        ("read_only", 507, 13),
        ("newer_schema", 500, 15),
        ("a_code_of_the_future", 404, 4),
        ("a_code_of_the_future", 418, 1),
    ],
)
def test_remote_errors_exit_like_local_ones(code: str, status: int, exit_code: int) -> None:
    error = RemoteError(ErrorAnswer(status, code, "m", None, None, None))
    assert code_of(error) == code
    assert exit_code_of(error) == exit_code
    assert title_of(error)


@pytest.mark.parametrize(
    "arguments", [[], ["agent"], ["recall"], ["frobnicate"], ["list", "--limit", "0"]]
)
def test_wrong_usage_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        exit_code = main(arguments)
    except SystemExit as error:
        exit_code = int(error.code or 0)
    assert exit_code == 2
    shown = capsys.readouterr()
    assert "usage" in shown.out + shown.err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(r"memlocket \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


def test_times_are_absolute_or_ages() -> None:
    assert moment("2026-01-31T12:00:00+01:00") == "2026-01-31T11:00:00.000Z"
    assert moment("1h") < future_moment("1h")
    assert future_moment("2w") > future_moment("13d")
    for wrong in ("yesterday", "2026-02-31", "2026-01-31T12:00:00", "1y", "999999999w", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            moment(wrong)


def test_numbers_are_checked() -> None:
    assert positive("3") == 3
    assert ratio("0.5") == 0.5
    for wrong in ("0", "-1", "x", "1.5"):
        with pytest.raises(argparse.ArgumentTypeError):
            positive(wrong)
    for wrong in ("-0.1", "1.1", "nan", "x"):
        with pytest.raises(argparse.ArgumentTypeError):
            ratio(wrong)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["forgt", "x"], "there is no 'forgt'; did you mean 'forget'?"),
        (["agent", "lst"], "there is no 'lst'; did you mean 'list'?"),
        (["zzzz"], "there is no 'zzzz' (see memlocket --help)"),
    ],
)
def test_a_mistyped_command_names_the_nearest_one(
    typed: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(typed)
    assert raised.value.code == 2
    assert said in capsys.readouterr().err
