"""Generated secrets go, what resembles them stays (redaction.md 4, 6, 12, 13, 15)."""

from __future__ import annotations

import os

import pytest
from secret_carriers import carriers
from secret_look_alikes import look_alikes
from secrets_generator import (
    CONTEXTS,
    LABELLED,
    TOKENS,
    Maker,
    Sample,
    aws_pair,
    disguises,
    leaked,
    mnemonic,
    pem,
)

from memory_manager.security.redact import sanitize_server_write
from memory_manager.security.redact.bip39_words import WORDS

SEEDS = ("public", os.environ.get("MEMLOCKET_TEST_SEED", "second"))
KEY_KINDS = (
    "PRIVATE KEY",
    "RSA PRIVATE KEY",
    "EC PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "PGP PRIVATE KEY BLOCK",
)


def assert_removed(text: str, sample: Sample) -> None:
    result = sanitize_server_write(text)
    for core in sample.cores:
        assert not leaked(core, result.text), (text, result.text)
    for kept in sample.keep:
        assert kept in result.text, (text, result.text)
    again = sanitize_server_write(result.text)
    assert again.text is result.text
    assert again.redactions == ()
    if sample.severity == "high_risk":
        assert result.high_risk, text


@pytest.mark.parametrize("name", TOKENS)
def test_a_vendor_token_goes_in_every_context(name: str) -> None:
    for seed in SEEDS:
        make = Maker(f"{seed}-{name}")
        for context in CONTEXTS.values():
            sample = TOKENS[name](make)
            assert_removed(context.format(sample.text), sample)


@pytest.mark.parametrize("name", LABELLED)
def test_a_labelled_secret_goes_and_its_surroundings_stay(name: str) -> None:
    for seed in SEEDS:
        make = Maker(f"{seed}-{name}")
        for _ in range(10):
            sample = LABELLED[name](make)
            assert_removed(sample.text, sample)


ONE_TOKEN = [n for n, draw in TOKENS.items() if not draw(Maker(n)).keep and n != "wif"]


@pytest.mark.parametrize("name", ONE_TOKEN)
def test_a_disguised_token_goes(name: str) -> None:
    make = Maker(f"disguise-{name}")
    sample = TOKENS[name](make)
    for disguise, (text, forms) in disguises(sample, make).items():
        if (name, disguise) == ("twilio-key", "spaced"):
            continue  # two letters and hex digits: glued to the word before, nothing tells it
        result = sanitize_server_write(text)
        for form in forms:
            assert not leaked(form, result.text), (disguise, text, result.text)
        assert sanitize_server_write(result.text).text is result.text


@pytest.mark.parametrize("seed", SEEDS)
def test_look_alikes_come_through_unchanged(seed: str) -> None:
    for round_number in range(5):
        for name, text in look_alikes(Maker(f"{seed}-{round_number}")).items():
            assert sanitize_server_write(text).text is text, (name, text)


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_a_private_key_goes_in_every_shape(kind: str) -> None:
    sample = pem(Maker(kind), kind)
    text = sample.text
    cut = "\n".join(text.split("\n")[:-1])
    headed = "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F0F\n\n"
    for shaped in (
        text,
        text.replace("\n", "\\n"),
        text.replace("\n", "\\\\n"),
        text.replace("\n", "\r\n"),
        "  " + text.replace("\n", "\n    "),
        "> " + text.replace("\n", "\n> "),
        text.replace("\n", " "),
        '{"key": "' + text.replace("\n", "\\n") + '"}',
        cut,
        cut + "\n\nThat was the key we used.",
        text.replace("-----\n", headed, 1),
        cut.replace("-----\n", headed, 1),
        cut.replace("-----\n", headed, 1).replace("\n", "\\n"),
    ):
        assert_removed(shaped, sample)


def test_prose_after_a_truncated_key_stays() -> None:
    sample = pem(Maker("prose"))
    cut = "\n".join(sample.text.split("\n")[:-1])
    result = sanitize_server_write(cut + "\n\nThat was the key we used.")
    assert result.text.endswith("That was the key we used.")


@pytest.mark.parametrize("size", [12, 15, 18, 21, 24])
def test_a_seed_phrase_goes_by_its_checksum(size: int) -> None:
    words = list(WORDS)
    make = Maker(f"bip39-{size}")
    for context in CONTEXTS.values():
        sample = mnemonic(make, words, size)
        assert_removed(context.format(sample.text), sample)


def test_a_labelled_seed_phrase_goes_without_a_valid_checksum() -> None:
    make = Maker("labelled phrase")
    words = [make.random.choice(list(WORDS)) for _ in range(12)]
    result = sanitize_server_write("my wallet recovery phrase: " + " ".join(words))
    assert result.high_risk
    assert words[5] + " " + words[6] not in result.text


def test_aws_secrets_go_labelled_or_near_a_key_id() -> None:
    make = Maker("aws")
    for _ in range(10):
        sample = aws_pair(make)
        assert_removed(sample.text, sample)
        key_id, secret = sample.cores
        for text in (
            f"id AKIA{key_id} and then {secret} ok",
            f"secret {secret} for AKIA{key_id}",
            f"AWS_SECRET_ACCESS_KEY={secret}",
            f'{{"SecretAccessKey": "{secret}"}}',
            f"aws configure set aws_secret_access_key {secret}",
        ):
            result = sanitize_server_write(text)
            assert result.high_risk, text
            assert secret[:12] not in result.text


def test_a_lone_key_id_is_a_credential_by_itself() -> None:
    result = sanitize_server_write("the id is AKIA" + Maker(6).of("ABCDEFGH234567", 16))
    assert [(r.rule, r.severity) for r in result.redactions] == [
        ("aws-access-key-id", "credential")
    ]


def test_a_key_id_that_could_be_words_goes_where_a_key_is_spoken_of() -> None:
    key_id = "AKIA" + "FOREVERANDALWAYS"
    for text in (f"aws_access_key_id = {key_id}", f'"AccessKeyId": "{key_id}"'):
        assert key_id not in sanitize_server_write(text).text
    for text in (f"the {key_id} band", "aws_access_key_id = AKIA" + "EXAMPLEEXAMPLEEX"):
        assert not sanitize_server_write(text).applied


def test_labelled_chain_keys_go_and_transaction_hashes_stay() -> None:
    digits = Maker("eth").hex(64)
    assert sanitize_server_write(f"PRIVATE_KEY=0x{digits}").high_risk
    assert sanitize_server_write(f'"privateKey": "{digits}"').high_risk
    assert not sanitize_server_write(f"tx 0x{digits}").applied


def test_recovery_codes_go_under_their_heading_only() -> None:
    make = Maker("codes")
    codes = [make.hex(4) + "-" + make.hex(4) for _ in range(6)]
    codes = [code if any(c.isdigit() for c in code) else "a1b2-c3d4" for code in codes]
    listed = "\n".join(codes)
    result = sanitize_server_write(f"GitHub recovery codes:\n{listed}\n")
    assert not any(code in result.text for code in codes)
    assert not sanitize_server_write(f"flight numbers:\n{listed}\n").applied


def test_one_mistyped_character_does_not_save_a_checksummed_token() -> None:
    token = TOKENS["github-token"](Maker("typo")).text
    broken = token[:-1] + ("a" if token[-1] != "a" else "b")
    assert sanitize_server_write(broken).text == "[REDACTED:github-token]"


CARRIERS = [carriers(Maker(f"carriers-{seed}")) for seed in SEEDS]


@pytest.mark.parametrize("name", CARRIERS[0])
def test_a_secret_goes_from_its_carrier(name: str) -> None:
    for samples in CARRIERS:
        assert_removed(samples[name].text, samples[name])
