"""What may be left out in the native tier, and what is kept in memory between two texts.

Contract: redaction.md 5.1, 5.2, 2.3.
"""

from __future__ import annotations

import re

from secrets_generator import LABELLED, TOKENS, Maker, mnemonic
from secrets_generator_draw import Draw
from secrets_generator_harmless import harmless

from memory_manager.security.redact import (
    anchors,
    bip39_words,
    credential_files,
    label_places,
    labels,
    marking,
    native,
    sanitize_server_write,
    views,
)
from memory_manager.security.redact.labels import Family, classify
from memory_manager.security.redact.rules import RULES
from memory_manager.security.redact.triggers import PATTERNS, SEED_WORD, Trigger


def _texts() -> list[str]:
    make = Maker("triggers")
    texts = [text for _, text in harmless(Draw("triggers"))]
    for draw in TOKENS.values():
        token = draw(make).text
        half = len(token) // 2
        for between in ("\n", "\n    ", " \\\n", "\n> ", '" + "', "' '", " ", "*/ /*", "\\n", "é"):
            texts.append(f'x = "{token[:half]}{between}{token[half:]}"')
        texts.append("key " + " ".join(token[:40]) + " end")
    return texts


def test_a_row_of_words_of_a_seed_phrase_has_its_trigger() -> None:
    pattern = re.compile(next(p for trigger, p in PATTERNS if trigger is Trigger.WORDS).encode())
    assert all(re.fullmatch(SEED_WORD, word) for word in bip39_words.WORDS)
    for between in (" ", ", ", "\n- ", " 7. ", "\u3000", '", "'):
        for size in (12, 24):
            for start in range(0, 2048 - size, size):
                words = list(bip39_words.WORDS)[start : start + size]
                assert pattern.search(between.join(words).encode()), words
    assert not pattern.search(b"the port of the service and the name of the host for the log " * 9)


def _triggered(trigger: Trigger, text: str) -> bool:
    data = marking.utf8(text)
    return any(re.search(p.encode(), data) for wanted, p in PATTERNS if wanted is trigger)


BREAKS = (
    "\n", "\r\n", " \\\n\t",
    " \t\r\n  > > ", "\n| ", "\n*  ", '" + "', "' \\\n '", '" || "', '"\n"',
    "\\n  ", "*/ /*", "--><!--", '"."', "' <> '", '" &\r\n"',
)  # fmt: skip


def test_a_token_that_is_cut_has_the_trigger_of_breaks() -> None:
    make = Maker("breaks")
    cut = 0
    for draw in TOKENS.values():
        token = draw(make).text
        for between in BREAKS:
            for half in (3, len(token) // 2, len(token) - 4):
                text = f"é {token[:half]}{between}{token[half:]} ."
                marks = marking.marked(marking.utf8(text))
                spans = marking.marked_runs(marks)
                whole = views.joined(text, spans, marks)
                blanks = views.joined(text, spans, marks, breaks=False)
                if whole is not None and (blanks is None or blanks.text != whole.text):
                    cut += 1
                    assert _triggered(Trigger.BREAKS, text), text
    assert cut > 5 * len(TOKENS)
    assert not _triggered(Trigger.BREAKS, "- The port is 80.\n- It's `here`, isn't it?\n\n* No.")


def test_addresses_with_users_and_lines_of_passwords_have_their_triggers() -> None:
    for text in ("https://bob:x@host", "postgres://ü:p(w@[::1]", "x://token@y"):
        assert _triggered(Trigger.USERINFO, text)
    assert not _triggered(Trigger.USERINFO, "https://host/a@b and c@d")
    for text in ("host:5432:db:bob:S3cr3tPw9x", "*:*:db:größe:S3cr3tPw9x", "h:80:数据:b:S3cr3tPw9"):
        assert list(credential_files.pgpass_lines(text))
        assert _triggered(Trigger.PGPASS, text)
    assert not _triggered(Trigger.PGPASS, "at 12:30: the host:port of a:b")


def test_the_native_gate_tells_the_places_of_labels() -> None:
    make = Maker("places")
    texts = [text for _, text in harmless(Draw("places"))]
    texts += [labelled(make).text for labelled in LABELLED.values()]
    before = ("", "Größe, 数据 ", "İ ", "\ud800 TOKENS tokentoken ")
    texts = [start + text for text in texts for start in before]
    portable = [list(anchors.find_anchors(text).labels()) for text in texts]
    assert anchors.use_native_database(anchors.compile_native_database())
    try:
        for text, places in zip(texts, portable, strict=True):
            assert list(anchors.find_anchors(text).labels()) == places, text
    finally:
        anchors.use_portable_tier()
    assert sum(map(len, portable)) > len(texts)


def test_the_kinds_of_characters_tell_what_the_expressions_find() -> None:
    run = re.compile(r"[!#-&*-;=?-Z_a-z~|]{16,}")
    for text in _texts():
        marks = marking.marked(marking.utf8(text))
        assert len(marks) == len(text)
        assert marking.runs(text) == [found.span() for found in run.finditer(text)]
        row = re.search(r"(?: [0-9A-Za-z_./+=:~-]){15}", text)
        assert marking.has_row_of_singles(marks) or row is None
    assert not marking.has_row_of_singles(marking.marked(b"a plain line of a note"))
    assert marking.has_controls(marking.marked(b"a\x1b[31m"))
    assert not marking.has_controls(marking.marked("tab\tline\r\né".encode()))


def test_folding_replaces_drops_and_keeps_places() -> None:
    def folded(text: str) -> tuple[str, tuple[int, int]] | None:
        data = marking.utf8(text)
        view = views.normalised(text, data, marking.marked(data))
        return None if view is None else (view.text, view.raw_span(0, len(view.text)))

    assert folded("plain\ttext") is None
    assert folded("café 日本") is None
    assert folded("a\u200bb — c") == ("ab - c", (0, 7))
    assert folded("tо\u0301ken…") == ("to\u0301ken...", (0, 7))
    assert folded("a\x1b[31mb\x00c") == ("abc", (0, 9))
    many = "".join(chr(code) for code in range(0xFF21, 0xFF21 + 26)) * 2
    many += "".join(chr(code) for code in range(0x1D400, 0x1D434))
    many += "\u200b" + "".join(chr(code) for code in range(0xE0020, 0xE0070))
    assert len(set(many)) > 2 * views.MAX_REPLACED
    found = folded(many)
    assert found is not None
    assert found[0][:26] == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert found[0].isascii()


def test_the_native_gate_says_what_may_be_left_out() -> None:
    assert anchors.use_native_database(anchors.compile_native_database())
    try:
        for text in ("We moved the worker to the other queue.", "Die Brücke — la señal", "日本の"):
            plain = anchors.find_anchors(text)
            assert not any(plain.may(trigger) for trigger in Trigger)
            assert not plain.seen
            assert not plain.has_vendors
        assert "token" in anchors.find_anchors("Ein TOKEN für später").seen
        assert "пароль" in anchors.find_anchors("наш ПАРОЛЬ").seen
        assert "pat" not in anchors.find_anchors("a path and a Pattern").seen
        assert "pat" in anchors.find_anchors("MY_PAT or githubPat").seen
        assert anchors.find_anchors("to\u212aen is here").seen >= {"token"}
        assert not anchors.find_anchors("the server said HTTP 404").seen
        assert "http " in anchors.find_anchors("try http -a bob").seen
    finally:
        anchors.use_portable_tier()
    assert all(anchors.find_anchors("We moved.").may(trigger) for trigger in Trigger)


def test_every_escape_and_a_plus_for_a_blank_are_told_by_one_character() -> None:
    for text in ("%41", r"\u0041", r"\u{41}", r"\x41", r"\U00000041", "&#65;", "&amp;", r"\n"):
        assert views.unescaped(text) is not None
        assert views.may_be_escaped(text.encode())
    assert views.FORM_PLUS.search("key+x")
    assert views.may_be_escaped(b"key+x")
    assert not views.may_be_escaped("a=b, c/d: 数据，$x".encode())


def test_a_part_of_a_word_is_no_label() -> None:
    for text, anchor, alone in (
        ("path", "pat", False), ("spat", "pat", False), ("pat", "pat", True),
        ("_pat2", "pat", True), ("githubPat", "pat", True), ("GITHUB_PAT", "pat", True),
        ("épat", "pat", False),
        ("paté", "pat", False), ("MYPAT", "pat", True), ("patKey", "pat", True),
    ):  # fmt: skip
        place = text.lower().index(anchor)
        assert label_places.is_part_of_word(text, place, len(anchor)) is not alone, text
        pattern = re.compile(label_places.expression(anchor))
        assert pattern.search(text.encode()) is not None or not alone


def test_only_names_are_remembered() -> None:
    labels.remembered.cache_clear()
    assert classify("db_password") is Family.PASSWORD
    assert labels.remembered.cache_info().currsize == 1
    classify("token" + "9f3" * 4)
    sanitize_server_write("pass4word9z is no name: " + "token" + "x8" * 12)
    assert labels.remembered.cache_info().currsize == 1
    for number in range(labels.MAX_REMEMBERED + 10):
        classify("key_" + "".join(chr(97 + int(digit)) for digit in str(number)))
    assert labels.remembered.cache_info().currsize <= labels.MAX_REMEMBERED


def test_a_wide_comma_hides_no_literal_and_no_body_that_the_gate_looks_for() -> None:
    assert not [anchor for anchor in anchors.ANCHORS if "," in anchor or views.COMMA in anchor]
    for rule in RULES:
        if native.COUNTS_CHARACTERS.search(rule.pattern) is None:
            kinds = r"\[(?:\\.|[^\]])*\]"
            for kind in re.findall(kinds, rule.pattern):
                assert re.match(kind, ",") is None, rule.id
            rest = re.sub(kinds + r"|\{\d+(?:,\d*)?\}", "", rule.pattern)
            assert "," not in rest, rule.id


def test_a_reading_that_differs_by_commas_only_is_told_from_others() -> None:
    for text, only in (("a，b", True), ("a，b：c", False), ("a，b\u200b", False), ("a：b", False)):
        data = marking.utf8(text)
        view = views.normalised(text, data, marking.marked(data))
        assert view is not None
        assert view.only_commas is only
    for text, kept in (("数，据", True), ("数，据\u200b", False), ("，\x00", False)):
        data = marking.utf8(text)
        view = views.normalised(text, data, marking.marked(data), commas=False)
        assert (view is None) is kept
        # what is folded beside them folds them too
        assert view is None or views.COMMA not in view.text
    found = anchors.find_anchors("备注，token：x").on("备注,token：x")
    assert list(found.labels()) == [(3, "token")]
    assert found.lowered == "备注,token：x"


def test_a_body_cut_by_wide_commas_goes_as_with_plain_ones() -> None:
    make = Maker("commas")
    for comma in (",", views.COMMA):
        body = comma.join(make.an(30) for _ in range(3))
        result = sanitize_server_write(f"部署用 fm2_{body} 完成")
        assert [entry.rule for entry in result.redactions] == ["fly-token"]
        phrase = mnemonic(make, list(bip39_words.WORDS)).cores[0].replace(" ", comma)
        assert sanitize_server_write(f"备注，{phrase}").high_risk
