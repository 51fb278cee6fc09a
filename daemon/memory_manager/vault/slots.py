"""The slot file's codec and the slots' cryptography (vault.md 4.1): bytes in, values out, no I/O.

Parsing is strict: one canonical form, unknown and duplicate keys refused, every length checked.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, NoReturn, TypeVar

from memory_manager.vault import kdf
from memory_manager.vault.errors import SlotDamaged, WrongPassphrase

MAX_SLOT_FILE_BYTES = 65_536
ID_BYTES = 16
SALT_BYTES = 16
_SEALED_KEY_BYTES = kdf.KEY_BYTES + kdf.TAG_BYTES
_VERSION = 1
_MAX_SLOTS = 16

_SLOT_AAD = b"mlk-slot-v1"
_GSK_AAD = b"mlk-gsk-v1"
_COMMITMENT = b"mlk-slotkc-v1"
_SUM = b"mlk-slots-v1"
_DATABASE_COMMITMENT = b"mlk-dbkc-v1"

Value = TypeVar("Value")


class SlotType(enum.StrEnum):
    PASSPHRASE = "passphrase"  # noqa: S105 - a slot type, not a passphrase
    OS_KEYRING = "os_keyring"
    RECOVERY = "recovery"
    INSECURE_FILE = "insecure_file"

    @property
    def number(self) -> int:
        """The code that stands in the slot's associated data."""
        return _TYPE_NUMBERS[self]


_TYPE_NUMBERS = {
    SlotType.PASSPHRASE: 1,
    SlotType.OS_KEYRING: 2,
    SlotType.RECOVERY: 3,
    SlotType.INSECURE_FILE: 4,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """One wrapped copy of the LUK. The Argon2id fields are zero in every other type."""

    no: int
    type: SlotType
    salt: bytes
    t: int
    m_kib: int
    p: int
    kc: bytes
    nonce: bytes
    ct: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class WrappedGrantKey:
    """The GSK seed sealed under KEK_pw."""

    nonce: bytes
    ct: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class SlotFile:
    """Ids, the database's salt and key commitment, the slots, and the wrapped GSK if any."""

    vault: bytes
    install: bytes
    gen: int
    salt: bytes
    commit: bytes
    slots: tuple[Slot, ...]
    gsk: WrappedGrantKey | None

    def find(self, slot_type: SlotType) -> Slot | None:
        """The first slot of this type."""
        return next((slot for slot in self.slots if slot.type is slot_type), None)


def database_commitment(dbk: kdf.SecretBytes) -> bytes:
    """``db.commit``."""
    return kdf.labelled_hash(dbk, _DATABASE_COMMITMENT)


def key_commitment(kek: kdf.SecretBytes) -> bytes:
    """``kc`` of every slot that opens with this key."""
    return kdf.labelled_hash(kek, _COMMITMENT)


def slot_context(vault: bytes, install: bytes, slot: Slot) -> bytes:
    """The 74 bytes of associated data that bind a slot to its place and parameters."""
    return b"".join(
        (
            _SLOT_AAD,
            bytes((_VERSION,)),
            vault,
            install,
            bytes((slot.no, slot.type.number)),
            slot.salt,
            slot.t.to_bytes(4, "big"),
            slot.m_kib.to_bytes(4, "big"),
            slot.p.to_bytes(4, "big"),
        )
    )


def grant_key_context(vault: bytes, install: bytes) -> bytes:
    """Associated data of the wrapped GSK."""
    return _GSK_AAD + bytes((_VERSION,)) + vault + install


def make_slot(
    vault: bytes,
    install: bytes,
    *,
    no: int,
    slot_type: SlotType,
    kek: kdf.SecretBytes,
    luk: kdf.SecretBytes,
    salt: bytes = bytes(SALT_BYTES),
    t: int = 0,
    m_kib: int = 0,
    p: int = 0,
    nonce: bytes | None = None,
) -> Slot:
    """Wrap ``luk`` under ``kek``."""
    commitment = key_commitment(kek)
    empty = Slot(no, slot_type, salt, t, m_kib, p, commitment, nonce or kdf.new_nonce(), b"")
    sealed = kdf.seal(kek, empty.nonce, luk, slot_context(vault, install, empty))
    return dataclasses.replace(empty, ct=sealed)


def open_slot(slot_file: SlotFile, slot: Slot, kek: kdf.SecretBytes) -> bytearray:
    """The LUK in ``slot``.

    WrongPassphrase when the commitment is not that of ``kek``; SlotDamaged when it is and the slot
    still does not open, or when the LUK in it does not match the database's commitment.
    """
    if not kdf.equal(key_commitment(kek), slot.kc):
        raise WrongPassphrase
    context = slot_context(slot_file.vault, slot_file.install, slot)
    try:
        luk = kdf.open_sealed(kek, slot.nonce, slot.ct, context)
    except kdf.SealBroken:
        raise SlotDamaged from None
    dbk = kdf.database_key(luk)
    committed = kdf.equal(database_commitment(dbk), slot_file.commit)
    kdf.wipe(dbk)
    if not committed:
        kdf.wipe(luk)
        raise SlotDamaged("The key slots do not belong to the database they name.")
    return luk


def wrap_grant_key(
    vault: bytes,
    install: bytes,
    kek: kdf.SecretBytes,
    seed: kdf.SecretBytes,
    nonce: bytes | None = None,
) -> WrappedGrantKey:
    """Seal the GSK seed under KEK_pw."""
    nonce = nonce or kdf.new_nonce()
    return WrappedGrantKey(nonce, kdf.seal(kek, nonce, seed, grant_key_context(vault, install)))


def open_grant_key(slot_file: SlotFile, kek: kdf.SecretBytes) -> bytearray | None:
    """The GSK seed, None when there is none; SlotDamaged when it does not open."""
    if slot_file.gsk is None:
        return None
    context = grant_key_context(slot_file.vault, slot_file.install)
    try:
        return kdf.open_sealed(kek, slot_file.gsk.nonce, slot_file.gsk.ct, context)
    except kdf.SealBroken:
        raise SlotDamaged from None


def encode(slot_file: SlotFile) -> bytes:
    """The canonical JSON of a slot file, with its ``sum``."""
    body: dict[str, Any] = {
        "v": _VERSION,
        "vault": slot_file.vault.hex(),
        "install": slot_file.install.hex(),
        "gen": slot_file.gen,
        "db": {"salt": slot_file.salt.hex(), "commit": slot_file.commit.hex()},
        "slots": [_slot_json(slot) for slot in slot_file.slots],
    }
    if slot_file.gsk is not None:
        body["gsk"] = {"nonce": slot_file.gsk.nonce.hex(), "ct": slot_file.gsk.ct.hex()}
    body["sum"] = _sum_of(body)
    return _canonical(body)


def parse(data: bytes) -> SlotFile:
    """Read a slot file; SlotDamaged for everything that is not exactly one of ours."""
    if len(data) > MAX_SLOT_FILE_BYTES:
        _damaged()
    try:
        text = data.decode("utf-8")
        body = json.loads(
            text, object_pairs_hook=_no_duplicates, parse_float=_refuse, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        _damaged()
    if not isinstance(body, dict) or _canonical(body) != data:
        _damaged()
    stated = body.pop("sum", None)
    if not isinstance(stated, str) or stated != _sum_of(body):
        _damaged()
    return _slot_file_from(body)


def _slot_file_from(body: dict[str, Any]) -> SlotFile:
    optional = {"gsk"} & body.keys()
    _check_keys(body, {"v", "vault", "install", "gen", "db", "slots"} | optional)
    if body["v"] != _VERSION:
        _damaged()
    database = _typed(body["db"], dict)
    _check_keys(database, {"salt", "commit"})
    slots = tuple(_slot_from(entry) for entry in _typed(body["slots"], list))
    numbers = {slot.no for slot in slots}
    if not slots or len(slots) > _MAX_SLOTS or len(numbers) != len(slots):
        _damaged()
    grant_key = None
    if optional:
        wrapped = _typed(body["gsk"], dict)
        _check_keys(wrapped, {"nonce", "ct"})
        grant_key = WrappedGrantKey(
            _hex(wrapped["nonce"], kdf.NONCE_BYTES), _hex(wrapped["ct"], _SEALED_KEY_BYTES)
        )
    return SlotFile(
        vault=_hex(body["vault"], ID_BYTES),
        install=_hex(body["install"], ID_BYTES),
        gen=_number(body["gen"], 64),
        salt=_hex(database["salt"], SALT_BYTES),
        commit=_hex(database["commit"], 32),
        slots=slots,
        gsk=grant_key,
    )


def _slot_from(entry: object) -> Slot:
    fields = _typed(entry, dict)
    _check_keys(fields, {"no", "type", "salt", "t", "m_kib", "p", "kc", "nonce", "ct"})
    try:
        slot_type = SlotType(fields["type"])
    except ValueError:
        _damaged()
    return Slot(
        no=_number(fields["no"], 8),
        type=slot_type,
        salt=_hex(fields["salt"], SALT_BYTES),
        t=_number(fields["t"], 32),
        m_kib=_number(fields["m_kib"], 32),
        p=_number(fields["p"], 32),
        kc=_hex(fields["kc"], 32),
        nonce=_hex(fields["nonce"], kdf.NONCE_BYTES),
        ct=_hex(fields["ct"], _SEALED_KEY_BYTES),
    )


def _slot_json(slot: Slot) -> dict[str, Any]:
    return {
        "no": slot.no,
        "type": slot.type.value,
        "salt": slot.salt.hex(),
        "t": slot.t,
        "m_kib": slot.m_kib,
        "p": slot.p,
        "kc": slot.kc.hex(),
        "nonce": slot.nonce.hex(),
        "ct": slot.ct.hex(),
    }


def _canonical(body: object) -> bytes:
    # surrogates can come in through \\ud800 escapes; they must not crash the check, only fail it
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _sum_of(body: dict[str, Any]) -> str:
    return kdf.labelled_hash(_canonical(body), _SUM).hex()


def _damaged() -> NoReturn:
    raise SlotDamaged


def _refuse(_: str) -> NoReturn:
    raise ValueError


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _check_keys(body: dict[str, Any], expected: set[str]) -> None:
    if body.keys() != expected:
        _damaged()


def _typed(value: object, kind: type[Value]) -> Value:
    if not isinstance(value, kind):
        _damaged()
    return value


def _number(value: object, bits: int) -> int:
    if type(value) is not int or not 0 <= value < 1 << bits:
        _damaged()
    return value


def _hex(value: object, size: int) -> bytes:
    text = _typed(value, str)
    if len(text) != 2 * size or not set(text) <= set("0123456789abcdef"):
        _damaged()
    return bytes.fromhex(text)
