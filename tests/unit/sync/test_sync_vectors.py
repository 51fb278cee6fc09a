"""Golden vectors of the sync format: the bytes are the contract (sync.md 15)."""

from __future__ import annotations

import pytest
from nacl.public import PrivateKey
from nacl.signing import SigningKey

from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.enrolment import (
    Invitation,
    NewKeys,
    newcomer_fits,
    read_invitation,
    sign_possession,
)
from memory_manager.sync.wire.envelope import (
    Dot,
    EpochKey,
    Policy,
    SealedRow,
    body_hash,
    open_row,
    padme,
    parents_hash,
    seal_row,
    wrap_cek,
)
from memory_manager.sync.wire.log import (
    FIRST_GLOBAL_HEAD,
    Checkpoint,
    Entry,
    ServerHead,
    head_words_hash,
    login_bytes,
    next_global_head,
    sign_checkpoint,
    sign_server_head,
    unpack_entry,
)
from memory_manager.sync.wire.roster import found, sign_entry, vault_id
from memory_manager.vault.kdf import labelled_hash, seal

VRK = bytes(range(32))
VRK_2 = bytes(range(32, 64))
VAULT, RECORD, DEVICE = bytes(16), b"\x11" * 16, b"\x22" * 16
EPOCH_1 = EpochKey(1, labels.wrapping_key(VRK))
EPOCH_2 = EpochKey(2, labels.wrapping_key(VRK_2))
HELLO = b"hello vault"
TOMBSTONE = b'{"kind":"tombstone","mode":"tidy","v":1}'


def _row(
    record: bytes,
    seq: int,
    policy: Policy,
    parents: tuple[Dot, ...],
    fill: int,
    payload: bytes = HELLO,
) -> SealedRow:
    return seal_row(
        payload,
        policy=policy,
        vault=VAULT,
        record=record,
        dot=Dot(DEVICE, seq),
        parents=parents,
        under=EPOCH_1,
        cek=bytes([0x44 + fill]) * 32,
        body_nonce=bytes([0x33 + fill]) * 24,
        wrap_nonce=bytes([0x55 + fill]) * 24,
    )


ROW_1 = _row(RECORD, 1, Policy.VAULT, (), 0)
ROW_2 = _row(b"\x91" * 16, 2, Policy.INDEXED, (), 1)
ROW_3 = _row(RECORD, 3, Policy.TOMBSTONE, (Dot(DEVICE, 1),), 2, TOMBSTONE)


def test_keys_of_an_epoch() -> None:
    assert EPOCH_1.key.hex() == "5cc30f7ca5898c69c0926757336fa186bb52972f15dffe2733af9d8ad9b1b658"
    assert labels.blinding_key(VRK).hex() == (
        "2cc8a4c1c4452d4cbcc566f0dde4bd31e29cc909038bce0a4c21b570a94d39ae"
    )
    assert labels.export_key(VRK).hex() == (
        "266199d845e9912b50751c7d127b73833aaf458632d266c496e83d5527b95830"
    )
    assert labels.previous_epoch_key(VRK).hex() == (
        "3519ea6fa16e7f1b740c70b68cb3cf7f8cfc60ba90ffb84913733fccd4fda01b"
    )
    assert labels.key_id(EPOCH_1.key).hex() == "cf002fe29131d1454e230f6acd83b92b"


def test_parents_and_commitment() -> None:
    assert parents_hash(()).hex() == (
        "abc1da99a480fab2cef1ab2816c18a8da892fe0d98e856e5c31a3a18112c9266"
    )
    two = (Dot(b"\x33" * 16, 7), Dot(DEVICE, 1))  # given unsorted
    assert parents_hash(two).hex() == (
        "1a2cad8c7be0e7c8532d74a40c1de769a26742f3ebabc2b716d32e5bd15a86cb"
    )
    assert labelled_hash(b"\x44" * 32, labels.CEK_COMMITMENT).hex() == (
        "0ea8f4efa9d830d99f99adc344fbf8b203d2f3e4d933ff42337075bd3abcd7a6"
    )


def test_body_and_wrap_of_the_first_row() -> None:
    assert ROW_1.body[:132].hex() == (
        "4d4c4b310100000000000000000000000000000000000000111111111111111111111111111111112222"
        "22222222222222222222222222220000000000000001abc1da99a480fab2cef1ab2816c18a8da892fe0d"
        "98e856e5c31a3a18112c92660ea8f4efa9d830d99f99adc344fbf8b203d2f3e4d933ff42337075bd3abc"
        "d7a600000100"
    )
    assert ROW_1.body[156:172].hex() == "c216321180c802595edefae8e3a93d5b"
    assert ROW_1.body[412:428].hex() == "305809609b63fc33101b06f861c64c3d"
    assert body_hash(ROW_1.body).hex() == (
        "d199a8a14ba3dc18506e1da21b4aa809a1b4336e5b757f5a52b72621c720ad36"
    )
    assert ROW_1.wrap.hex() == (
        "00000001cf002fe29131d1454e230f6acd83b92b5555555555555555555555555555555555555555555555"
        "55c947e3a055bd32c81c8f80b4b67135e36e5fd7f7e500bedeb4773ce334e7b19460f17a179898c4a2002f"
        "f32205a2c39d"
    )


def test_wrap_for_the_next_epoch_leaves_the_body_alone() -> None:
    again = wrap_cek(ROW_1.body, EPOCH_2, b"\x44" * 32, b"\x66" * 24)
    assert again.hex() == (
        "000000024dc9a496e1b4c6debe3559e6631e5e6b6666666666666666666666666666666666666666666666"
        "66a411f0e856ff0d4de463647722bf627ffdaad9a72e555dcf4cb4947c896f957798a8f37c7c9f683e15a9"
        "4fd0af1db3b8"
    )
    opened = open_row(
        SealedRow(ROW_1.body, again), vault=VAULT, dot=Dot(DEVICE, 1), keys={2: EPOCH_2}
    )
    assert opened.payload == HELLO


def test_rows_two_and_three() -> None:
    assert body_hash(ROW_2.body).hex() == (
        "2a9a5f357f6dfb081ec1c2434383f639c00d91c3033c234d3d651709bd32db89"
    )
    assert ROW_2.wrap[44:].hex() == (
        "13127f20be3cf24b03c42723a9a0eaf31d1019ce3cbb0a6ffd522185a64791659c62676db54723b980f3ea"
        "1d73725af9"
    )
    assert parents_hash([Dot(DEVICE, 1)]).hex() == (
        "46b77e65198dcebeb88c605fe72172fcd9c310e1c27f63a06bb7b236f96bb3a4"
    )
    assert body_hash(ROW_3.body).hex() == (
        "354c2bb25b7766ef4bef36533b23643055c73f120804da73524162b38d4a0a1f"
    )
    assert ROW_3.wrap[44:].hex() == (
        "2c5f479b8a524007dbfc5eca85ea1ce8962170d13b3018a9a657d6fe17d43106ed9c62d4bc316dbe5996ec"
        "bf08824547"
    )


def test_entries_heads_and_global_heads() -> None:
    head, g, heads, global_heads = bytes(32), FIRST_GLOBAL_HEAD, [], []
    for seq, row in enumerate((ROW_1, ROW_2, ROW_3), 1):
        entry = Entry(VAULT, DEVICE, seq, head, body_hash(row.body), bytes(32))
        assert unpack_entry(entry.pack()) == entry
        head = entry.head
        g = next_global_head(g, DEVICE, head)
        heads.append(head.hex())
        global_heads.append(g.hex())
    assert heads == [
        "9fbf732bb203534f5b63c6efb4d233c89f19b5ba374fc6b5820fd924a24479cc",
        "4ab7e8dc0481db233d00d87715dbf71da25059d4069395e626b72c0b41493ebe",
        "83a90d6180adb66b006356cf001bb4123a2fd7c7f0dd785af07680745e3a0fb2",
    ]
    assert global_heads == [
        "8842b63383fc796450d22eee8f8b56e93d34b700955da6d974729c0b92be23db",
        "d51b832f8b5f21dadd8c99a2da4215c538eebc86f12196d458a9062376c032b9",
        "b9f2e1ff552b936bb7f4d41c864dfcf96f288acedce45f4a4b57457df598e625",
    ]


HEAD_3 = bytes.fromhex("83a90d6180adb66b006356cf001bb4123a2fd7c7f0dd785af07680745e3a0fb2")
G_3 = bytes.fromhex("b9f2e1ff552b936bb7f4d41c864dfcf96f288acedce45f4a4b57457df598e625")
SERVER_KEY, DEVICE_KEY = SigningKey(b"\x99" * 32), SigningKey(b"\xaa" * 32)


def test_statements() -> None:
    assert SERVER_KEY.verify_key.encode().hex() == (
        "332ebe8d27cb7323b3a401c1c13b5dd64bccc0e10ecda1c2b5d11a03779a85e5"
    )
    statement = ServerHead(3, G_3)
    assert len(statement.signed_bytes(VAULT)) == 66
    assert sign_server_head(SERVER_KEY, VAULT, statement).hex() == (
        "8d2ea7c8cbbbd5aecc6b87814e72b3f92b493e9526751b5a24af8f2d9e5fdae4e9665a8d4fdbec48441ca4"
        "dcc1e9caf33bc960d0314de4040743d9a452bb6202"
    )
    checkpoint = Checkpoint(VAULT, DEVICE, 3, HEAD_3, 0, FIRST_GLOBAL_HEAD)
    assert sign_checkpoint(DEVICE_KEY, checkpoint).hex() == (
        "8a384a965669bf7d1e287b745040d0f21ca9e3e93e5c5255f532127c9b654caf39f73b9c6086310cb4102c"
        "9c8385ea677d3b5b185f5ce374a9be7e0176a5200e"
    )
    login = login_bytes(
        SERVER_KEY.verify_key.encode(), "sync.example.org:8443", VAULT, DEVICE, 1, b"\xbb" * 32
    )
    assert DEVICE_KEY.sign(login).signature.hex() == (
        "59b0e72a30abf7af9def179a4a6e2b094365999899e494dcf857fbe3aafbb520b1c03412255556b81cb7d6"
        "59842685cb04f47ad2db46de91930bcf71bf4a3002"
    )


def test_words() -> None:
    assert head_words_hash(VAULT, 3, G_3).hex() == (
        "47fe164084beced39368a731f46748eb60146014f044d79af2b0d6a55eb7b21f"
    )
    assert labels.word_indices(head_words_hash(VAULT, 3, G_3)) == (575, 1925, 1153, 75, 1895, 846)
    fingerprint = labelled_hash(SERVER_KEY.verify_key.encode(), labels.SERVER_WORDS)
    assert fingerprint.hex() == "b05bac1ba9fb988104060cb7f7578e8a0fbcec1a759e50a4ffd9e4c5ae00cb5e"
    assert len(set(labels.server_words(SERVER_KEY.verify_key.encode()))) > 1


def test_index_token_and_previous_epoch() -> None:
    token = labels.index_token(labels.blinding_key(VRK), "source_id", "import-42")
    assert token.hex() == "428c1a78cc0e9ad2d4e75ffa93e17b3e"
    wrapped = seal(
        labels.previous_epoch_key(VRK_2),
        b"\x16" * 24,
        VRK,
        labels.PREVIOUS_KEY + VAULT + (1).to_bytes(4, "big"),
    )
    assert wrapped.hex() == (
        "c4d16dcb509fbb58f7c6fd035a4e6098ed41842da9bcad4835739978b6dd9ddc9417e036e8477fadce7fa3"
        "254f42326b"
    )


@pytest.mark.parametrize(
    ("length", "padded"),
    [
        (1, 256),
        (256, 256),
        (257, 272),
        (1000, 1024),
        (5000, 5120),
        (70000, 71680),
        (524292, 540672),
    ],
)
def test_padme(length: int, padded: int) -> None:
    assert padme(length) == padded
    assert padme(padded) == padded


def test_enrolment() -> None:
    keys = NewKeys(
        b"\xe3" * 16,
        SigningKey(b"\xe1" * 32).verify_key.encode(),
        PrivateKey(b"\xe2" * 32).public_key.encode(),
        SigningKey(b"\xe6" * 32).verify_key.encode(),
    )
    assert keys.hash.hex() == "fecefcaecaf6041a6717755bf07d014746c8554c7b9556c615e8fbb8c5870d58"
    possession = sign_possession(keys, b"\xe4" * 16, SigningKey(b"\xe1" * 32))
    assert possession.hex() == (
        "efacce959f9fc5e835d0f732ba19bd5b5b10d051553969260988d9bee1635cb913f33409b51a8f2e9c6ca0"
        "44cd43898e8f4987546c6415aedb79edaa82055a06"
    )
    invitation = Invitation(b"\xe4" * 16, keys.hash, b"\xe5" * 16, "https://sync.example.org:8443")
    assert invitation.text() == (
        "mlk1:AeTk5OTk5OTk5OTk5OTk5OT-zvyuyvYEGmcXdVvwfQFHRshVTHuVVsYV6Pu4xYcNWOXl5eXl5eXl5eXl5"
        "eXl5eVodHRwczovL3N5bmMuZXhhbXBsZS5vcmc6ODQ0Mw"
    )
    assert read_invitation(f"  {invitation.text()}\n") == invitation
    assert newcomer_fits(invitation, keys, possession)


GENESIS = {
    "at_seq": 0,
    "by": DEVICE.hex(),
    "device": {
        "ed25519": DEVICE_KEY.verify_key.encode().hex(),
        "grant": SigningKey(b"\xdd" * 32).verify_key.encode().hex(),
        "id": DEVICE.hex(),
        "role": "device",
        "x25519": PrivateKey(b"\xcc" * 32).public_key.encode().hex(),
    },
    "epoch": {"e": 1, "kid": "cf002fe29131d1454e230f6acd83b92b"},
    "idx": 0,
    "op": "genesis",
    "prev": bytes(32).hex(),
    "v": 1,
    "vault": bytes(16).hex(),
}


def test_genesis() -> None:
    assert len(canonical.encode(GENESIS)) == 550
    vault = vault_id(GENESIS)
    assert vault.hex() == "2a0211bc8d057e0765ca14b7d416a0db"
    entry = sign_entry({**GENESIS, "vault": vault.hex()}, DEVICE_KEY)
    assert entry.hash.hex() == "e6a8f0706858e7e286deb12617ede225f5bae6b86b7eaba2f9826240af2d8bcb"
    assert entry.signature.hex() == (
        "0c7e75eacfff1017267bdc36b6f7c600648c04d44800a598dd4fdca9a5e975907555569d2341510e38a427"
        "414a4d94a3d7cbfe72ebc5e05f527147a8d8a2f60a"
    )
    roster = found(entry, vault)
    assert (roster.head, roster.epoch) == (entry.hash, 1)
    assert [member.id for member in roster.active()] == [DEVICE]
