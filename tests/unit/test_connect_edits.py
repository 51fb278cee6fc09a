"""Our entry in other programs' settings: put in, taken out, and nothing else touched."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import connect_golden as golden
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_manager.cli.connect import json_edit, jsonc, toml_edit
from memory_manager.cli.connect.change import plan_entry, plan_removal, reverted, undo
from memory_manager.cli.connect.clients import CLIENTS, TABLE_CHECKED, Launch, Places
from memory_manager.cli.connect.journal import Edit, Journal, read_journal, write_journal
from memory_manager.cli.connect.jsonc import Unreadable
from memory_manager.cli.connect.settings_file import read_settings, write_settings
from memory_manager.cli.errors import ForeignEntry, SettingsRefused

GOLDEN = json.loads(golden.GOLDEN.read_text())
WRITABLE = [case for case in golden.CASES if case not in ("foreign", "broken")]
ENTRY = {"command": "/opt/memlocket", "args": ["mcp", "--client", "cursor"]}
KEYS = ("mcpServers", "memlocket")


@pytest.mark.parametrize("case", golden.CASES)
@pytest.mark.parametrize("name", CLIENTS)
def test_golden_files(name: str, case: str, tmp_path: Path) -> None:
    assert golden.after(CLIENTS[name], case, tmp_path) == "".join(GOLDEN[name][case])


@pytest.mark.parametrize("case", WRITABLE)
@pytest.mark.parametrize("name", CLIENTS)
def test_connect_twice_then_disconnect_gives_the_same_bytes(
    name: str, case: str, tmp_path: Path
) -> None:
    client = CLIENTS[name]
    path = golden.write(client, case, tmp_path)
    old = path.read_bytes() if path.exists() else None
    change = golden.planned(client, tmp_path)
    journal = change.journal()
    if change.is_needed:
        change.apply()
    again = golden.planned(client, tmp_path)
    assert not again.is_needed
    assert not again.diff
    if case == "present":
        assert path.read_bytes() == old  # keys a client added of its own stay
        return
    assert path.read_bytes() != old
    undo(plan_removal(client, golden.launch(client), path, journal), journal)
    assert (path.read_bytes() if path.exists() else None) == old
    assert [entry for entry in path.parent.glob("*.before-memlocket")] == []
    if old is None:
        assert list(tmp_path.iterdir()) == []  # folders made for it are gone too


@pytest.mark.parametrize("case", [*WRITABLE, "foreign"])
@pytest.mark.parametrize("name", CLIENTS)
def test_without_a_note_the_entry_still_goes_and_the_rest_stays(
    name: str, case: str, tmp_path: Path
) -> None:
    client = CLIENTS[name]
    path = golden.write(client, case, tmp_path)
    if case != "foreign":
        change = golden.planned(client, tmp_path)
        if change.is_needed:
            change.apply()
    old = path.read_text()
    removal = plan_removal(client, golden.launch(client), path, None)
    undo(removal, None)
    if case == "foreign":
        assert path.read_text() == old
        return
    left = path.read_text()
    assert golden.PROGRAM not in left
    for kept in ("// do not touch", "// settings of mine", "/* kept */", "# kept", "other-server"):
        assert (kept in left) == (kept in old)


@pytest.mark.parametrize("name", CLIENTS)
def test_an_entry_from_another_place_is_brought_up_to_date(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    path = golden.write(client, "comments", tmp_path)
    old = path.read_bytes()
    first = golden.planned(client, tmp_path)
    journal = first.journal()
    first.apply()
    places = Places({"HOME": str(tmp_path)}, "linux")
    moved = Launch(name, "/new/memlocket", {"MEMLOCKET_HOME": "/elsewhere"})
    second = plan_entry(client, moved, places, journal)
    second.apply()
    text = path.read_text()
    assert golden.PROGRAM not in text
    assert "/new/memlocket" in text
    assert "/elsewhere" in text
    journal = second.journal()
    undo(plan_removal(client, moved, path, journal), journal)
    assert path.read_bytes() == old


def test_an_entry_of_another_client_or_program_is_foreign(tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    for entry in (
        {"command": "/opt/memlocket", "args": ["mcp", "--client", "zed"]},
        {"command": "npx", "args": ["mcp", "--client", "cursor"]},
        {"url": "http://127.0.0.1:1/mcp"},
        "text",
        [],
    ):
        path = client.file(Places({"HOME": str(tmp_path)}, "linux"))
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"mcpServers": {"memlocket": entry}}))
        with pytest.raises(ForeignEntry):
            golden.planned(client, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"mcpServers": {"memlocket": 1, "memlocket": 1}}',
        "[]",
        '"text"',
        "{} {}",
        "{'a': 1}",
        "{a: 1}",
        '{"a": 01}',
        '{"a": 1 "b": 2}',
        '{"a" 1}',
        '{,}',
        '{"a": 1,,}',
        '{"a": "\n"}',
        '{"a": "\\x41"}',
        "{ /* }",
        "nul",
        "[" * 5000,
        '{"a":' * 5000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=range(21),
)  # fmt: skip
def test_what_is_odd_or_unreadable_is_left_alone(text: str, tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    path = client.file(Places({"HOME": str(tmp_path)}, "linux"))
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(SettingsRefused) as refused:
        golden.planned(client, tmp_path)
    assert "--print" in str(refused.value.hint)
    assert path.read_text() == text
    assert [entry.name for entry in path.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = 7",
        "mcp_servers = { a = { command = 'x' } }",
        "[[mcp_servers]]",
        "a = ",
        "\0",
        "a = " + "9" * 5000,
        "a" + ".a" * 3000 + " = 1",
        "a = " + "[" * 3000 + "]" * 3000,
    ],
    ids=range(8),
)
def test_toml_where_no_table_fits_is_left_alone(text: str, tmp_path: Path) -> None:
    client = CLIENTS["codex"]
    path = client.file(Places({"HOME": str(tmp_path)}, "linux"))
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(SettingsRefused):
        golden.planned(client, tmp_path)
    assert path.read_text() == text


def test_toml_taken_out_of_an_edited_file() -> None:
    text = (
        'a = 1\n[mcp_servers."memlocket"] # mine\ncommand = "c"\nargs = [\n  "[x]",\n]\n'
        '[mcp_servers.memlocket.env]\nK = """\n[b]\n"""\n\n# about z\n[z]\nk = 1\n'
    )
    assert toml_edit.without(text, ("mcp_servers", "memlocket")) == "a = 1\n[z]\nk = 1\n"


# -- random documents

_COMMENT = st.sampled_from(["", "", "", " /* c, } */ ", " // c }\n", "/**/", "\t"])
_BLANK = st.sampled_from(["", " ", "  ", "\n", "\n    ", "\r\n\t"])
_GAP = st.builds("".join, st.tuples(_BLANK, _COMMENT, _BLANK))
_KEY = st.sampled_from(["a", "b", "mcpServers", "memlocket2", 'q"{', "über", "\\"])
_SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**12),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=6),
).map(lambda value: json.dumps(value, ensure_ascii=False))


def _list_of(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda parts, gaps, comma: "[" + ",".join(
            f"{gaps[0]}{part}{gaps[1]}" for part in parts
        ) + ("," if comma and parts else "") + gaps[2] + "]",
        st.lists(items, max_size=3), st.tuples(_GAP, _GAP, _GAP), st.booleans(),
    )  # fmt: skip


def _object_of(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda members, gaps, comma: "{" + ",".join(
            f"{gaps[0]}{json.dumps(key, ensure_ascii=False)}{gaps[1]}:{gaps[2]}{value}{gaps[3]}"
            for key, value in members.items()
        ) + ("," if comma and members else "") + gaps[4] + "}",
        st.dictionaries(_KEY, items, max_size=4), st.tuples(*[_GAP] * 5), st.booleans(),
    )  # fmt: skip


_VALUE = st.recursive(_SCALAR, lambda inner: _list_of(inner) | _object_of(inner), max_leaves=8)
_SERVERS = st.dictionaries(_KEY, _object_of(_VALUE), max_size=3).flatmap(
    lambda given: _object_of(st.sampled_from([*given.values(), "{}"]))
)
_DOCUMENT = st.builds(
    lambda bom, lead, root, servers, tail, mix: bom + lead + _with(root, servers, mix) + tail,
    st.sampled_from(["", "\ufeff"]), _GAP, _object_of(_VALUE), _SERVERS, _GAP, st.booleans(),
)  # fmt: skip


def _with(root: str, servers: str, mix: bool) -> str:
    """Half of the documents have an object of servers already."""
    if not mix:
        return root
    return '{"mcpServers":' + servers + ',"rest":' + root + "}"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=_DOCUMENT, newline=st.sampled_from(["\n", "\r\n"]))
def test_json_in_and_out_is_the_identity(text: str, newline: str) -> None:
    try:
        if json_edit.entry_at(text, KEYS, json5=False) is not None:
            return
        patch = json_edit.insertion(text, KEYS, ENTRY, newline, json5=False)
    except Unreadable:
        node = jsonc.parse(text)  # readable, only no place for the entry
        assert node is not None
        assert not isinstance(node.plain.get("mcpServers", {}), dict)  # type: ignore[attr-defined]
        return
    after = patch.applied(text)
    assert len(after) == len(text) + len(patch.new)
    assert json_edit.entry_at(after, KEYS, json5=False) == ENTRY
    assert json_edit.entry_at(after, KEYS, json5=True) == ENTRY
    assert reverted(after, (Edit(patch.old, patch.new),)) == text
    shorter = json_edit.without(after, KEYS, json5=False)
    before, left = jsonc.parse(text), jsonc.parse(shorter)
    assert before is not None and left is not None  # noqa: PT018
    assert left.plain in (
        before.plain,
        {**before.plain, "mcpServers": {}},  # type: ignore[dict-item]
    )


@settings(max_examples=60, deadline=None)
@given(value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
), indent=st.sampled_from([None, 2, "\t"]), ascii_only=st.booleans())  # fmt: skip
def test_plain_json_reads_as_json_does(value: object, indent: object, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)  # type: ignore[arg-type]
    for json5 in (False, True):
        node = jsonc.parse(text, json5=json5)
        assert node is not None
        assert node.plain == json.loads(text)


def test_json5_of_openclaw() -> None:
    text = (
        "// c\n{a: 'it\\'s', $b_1: [+1, .5, 5., 0xFF, -Infinity,], \"c\": \"x\\\ny\", 'd': null,}"
    )
    node = jsonc.parse(text, json5=True)
    assert node is not None
    assert node.plain == {
        "a": "it's",
        "$b_1": [1, 0.5, 5.0, 255, float("-inf")],
        "c": "xy",
        "d": None,
    }
    with pytest.raises(Unreadable):
        jsonc.parse(text)


_TOML_LINE = st.sampled_from([
    "# comment [x]", "", "a.b = 1", 'name = "v" # [mcp_servers.memlocket]', "[t]", "[[list]]",
    "[mcp_servers.other]", "[mcp_servers.other.env]", "[mcp_servers]", "k = '''\n[q]\n'''",
    'mcp_servers.dotted.command = "x"', "list = [\n  1, # one\n]", '  [  "spaced" . t ]  ',
])  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(_TOML_LINE, max_size=8, unique=True),
    newline=st.sampled_from(["\n", "\r\n"]),
    ended=st.booleans(),
    bom=st.sampled_from(["", "\ufeff"]),
)
def test_toml_in_and_out_is_the_identity(
    lines: list[str], newline: str, ended: bool, bom: str
) -> None:
    text = bom + newline.join(lines).replace("\n", newline).replace("\r\r", "\r")
    text += newline if ended and lines else ""
    keys = ("mcp_servers", "memlocket")
    try:
        patch = toml_edit.insertion(text, keys, ENTRY, newline)
    except Unreadable:
        with pytest.raises(tomllib.TOMLDecodeError):
            tomllib.loads(text.removeprefix("\ufeff"))
        return
    after = patch.applied(text)
    assert toml_edit.entry_at(after, keys) == ENTRY
    assert reverted(after, (Edit(patch.old, patch.new),)) == text
    assert toml_edit.parse(toml_edit.without(after, keys)) == toml_edit.parse(text)


# -- files


def _file(tmp_path: Path, text: str = '{"a": 1}') -> Path:
    path = tmp_path / "s" / "mcp.json"
    path.parent.mkdir()
    path.write_text(text)
    return path


def test_mode_and_link_stay_and_the_backup_is_made_once(tmp_path: Path) -> None:
    real = _file(tmp_path)
    real.chmod(0o640)
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    write_settings(read_settings(link), "{}")
    write_settings(read_settings(link), '{"b": 2}')
    assert link.is_symlink()
    assert real.read_text() == '{"b": 2}'
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    backup = real.with_name("mcp.json.before-memlocket")
    assert backup.read_text() == '{"a": 1}'
    assert stat.S_IMODE(backup.stat().st_mode) == 0o640
    assert sorted(entry.name for entry in real.parent.iterdir()) == [
        "mcp.json",
        "mcp.json.before-memlocket",
    ]


def test_a_file_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = _file(tmp_path)
    seen = read_settings(path)
    path.write_text('{"a": 2}')
    with pytest.raises(SettingsRefused):
        write_settings(seen, "{}")
    assert path.read_text() == '{"a": 2}'


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{\0}\0")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("folder", "fifo", "bytes", "nowhere", "loop"):
        with pytest.raises(SettingsRefused):
            read_settings(tmp_path / name)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 5000, "null"])
def test_a_damaged_note_counts_as_none(text: str, tmp_path: Path) -> None:
    environ = {"MEMLOCKET_HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir(mode=0o700)
    write_journal("zed", Journal("settings.json", existed=True), environ)
    assert read_journal("zed", environ) is not None
    (tmp_path / "home" / "clients" / "zed.change.json").write_text(text)
    assert read_journal("zed", environ) is None


def test_left_over_temporary_files_are_swept(tmp_path: Path) -> None:
    path = _file(tmp_path)
    (path.parent / ".mcp.json.memlocket-abcdef").write_text("half")
    write_settings(read_settings(path), "{}")
    assert not list(path.parent.glob(".mcp.json*"))


@pytest.mark.parametrize(
    ("environ", "platform", "name", "expected"),
    [
        ({}, "linux", "vscode", "/h/.config/Code/User/mcp.json"),
        ({}, "darwin", "vscode", "/h/Library/Application Support/Code/User/mcp.json"),
        ({"XDG_CONFIG_HOME": "/x"}, "linux", "zed", "/x/zed/settings.json"),
        ({}, "darwin", "zed", "/h/.config/zed/settings.json"),
        ({}, "linux", "devin", "/h/.config/devin/mcp_config.json"),
        ({"CODEX_HOME": "/c"}, "linux", "codex", "/c/config.toml"),
        ({"CLAUDE_CONFIG_DIR": "/d"}, "linux", "claude-code", "/d/.claude.json"),
        ({}, "linux", "claude-code", "/h/.claude.json"),
        ({"OPENCLAW_CONFIG_PATH": "/o.json"}, "linux", "openclaw", "/o.json"),
        ({}, "linux", "windsurf", "/h/.codeium/windsurf/mcp_config.json"),
        ({}, "linux", "gemini", "/h/.gemini/settings.json"),
        ({}, "linux", "cursor", "/h/.cursor/mcp.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "plain",
)
def test_where_the_files_are(
    environ: dict[str, str], platform: str, name: str, expected: str
) -> None:
    assert CLIENTS[name].file(Places({"HOME": "/h", **environ}, platform)) == Path(expected)


def test_no_client_gets_a_secret_or_a_port() -> None:
    for client in CLIENTS.values():
        entry = golden.launch(client).entry(with_type=client.with_type)
        assert set(entry) <= {"type", "command", "args"}
        assert entry["args"] == ["mcp", "--client", client.name]
        assert os.path.isabs(str(entry["command"]))
        if client.own_command is not None:
            command = client.own_command.add(golden.launch(client))
            assert golden.PROGRAM in command
    assert TABLE_CHECKED
