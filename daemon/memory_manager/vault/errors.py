"""Every error of the vault, with its stable code (vault.md 14). Import-light: the CLI needs it.

    MemlocketError
    +-- VaultError
        +-- VaultUnavailable          reads are impossible
        |   +-- NoVault  VaultLocked  NeedsRepair  SlotDamaged  WrongFile  PlaintextDatabase
        |   +-- KdfParametersRefused  NewerSchema
        +-- WritesRefused             reads go on
        |   +-- ReadOnly  RolledBack  AnchorDamaged
        +-- PassphraseRequired  WrongPassphrase  WeakPassphrase  WrongRecoveryWords  KeyFileRefused
        +-- AlreadyRunning  VaultExists  IncompleteVault  BackupRefused  RekeyFailed  SetupCancelled
        +-- SchemaMismatch  Busy  Conflict

Exit codes: 3 already running, 10 locked, 11 passphrase or words, 12 files damaged or refused, 13
read-only or rolled back, 14 no vault or one too many, 15 newer schema.
"""

from __future__ import annotations

import enum
import math

from memory_manager.base.errors import MemlocketError, Outcome


class LockReason(enum.StrEnum):
    """Why a vault is locked; the values stand on the wire."""

    NO_KEYRING = "no_keyring"
    KEYRING_LOCKED = "keyring_locked"
    REAUTH_REQUIRED = "reauth_required"
    NO_TERMINAL = "no_terminal"
    USER = "user"
    IDLE = "idle"
    SUSPEND = "suspend"


_UNLOCK_HINT = "Run: memlocket unlock"
_LOCK_HINTS = {
    LockReason.NO_KEYRING: f"No key store of the operating system can open it. {_UNLOCK_HINT}",
    LockReason.KEYRING_LOCKED: "Unlock the system keyring, or run: memlocket unlock",
    LockReason.REAUTH_REQUIRED: f"The passphrase is due again. {_UNLOCK_HINT}",
    LockReason.NO_TERMINAL: _UNLOCK_HINT,
}


class VaultError(MemlocketError):
    """Base of all errors of this package."""

    code = "vault_error"
    title = "Vault error"
    outcome = Outcome.ASK_USER
    exit_code = 12
    default_message = "The vault could not do that."


class VaultUnavailable(VaultError):
    """The vault cannot be read now."""


class NoVault(VaultUnavailable):
    """There is no vault in this data directory."""

    code = "no_vault"
    title = "No vault"
    exit_code = 14
    default_message = "There is no vault yet."
    # a service that runs without one holds its folder, so it has to go first
    default_hint = "Run: memlocket stop && memlocket init && memlocket up"


class IncompleteVault(VaultUnavailable):
    """Only one of ``vault.db`` and ``vault.slots`` exists; never a reason for a fresh start."""

    code = "incomplete_vault"
    title = "Incomplete vault"
    default_message = "One of the two files vault.db and vault.slots is missing."
    default_hint = "Put the missing file back, or restore a backup: memlocket restore-backup FILE"


class VaultExists(VaultError):
    """Setup or restore would replace a vault."""

    code = "vault_exists"
    title = "Vault exists"
    exit_code = 14
    default_message = "There is a vault already; it was left alone."


class SetupCancelled(VaultError):
    """The recovery words were not confirmed; nothing was created."""

    code = "setup_cancelled"
    title = "Setup cancelled"
    exit_code = 11
    default_message = "The recovery words were not confirmed; no vault was made."
    default_hint = "Run the command again; new words are made each time."


class VaultLocked(VaultUnavailable):
    """Locked; ``reason`` says why and ``hint`` how to go on."""

    code = "vault_locked"
    title = "Vault locked"
    exit_code = 10
    default_message = "The vault is locked."
    default_hint = _UNLOCK_HINT

    def __init__(self, reason: LockReason | str, message: str | None = None) -> None:
        self.reason = LockReason(reason)
        super().__init__(message, hint=_LOCK_HINTS.get(self.reason, _UNLOCK_HINT))


class PassphraseRequired(VaultError):
    """An admin act without a passphrase entered in the last five minutes."""

    code = "passphrase_required"
    title = "Passphrase required"
    exit_code = 11
    default_message = "This needs the passphrase, entered within the last five minutes."
    default_hint = "Enter the passphrase (memlocket unlock) and try again."


class WrongPassphrase(VaultError):
    """The key commitment does not match. ``retry_after_seconds`` is the time until the next try."""

    code = "wrong_passphrase"
    title = "Wrong passphrase"
    exit_code = 11
    default_message = "The passphrase is wrong."

    def __init__(self, message: str | None = None, *, retry_after_seconds: float = 0.0) -> None:
        self.retry_after_seconds = retry_after_seconds
        whole = math.ceil(retry_after_seconds)
        hint = f"Try again in {whole} s." if whole > 0 else None
        super().__init__(message, hint=hint)


class WrongRecoveryWords(WrongPassphrase):
    """Not 24 words of the list with a right checksum, or not the words of this vault."""

    code = "wrong_recovery_words"
    title = "Wrong recovery words"
    default_message = "The recovery words are wrong."


class WeakPassphrase(VaultError):
    """The new passphrase is estimated below 50 bits."""

    code = "weak_passphrase"
    title = "Weak passphrase"
    exit_code = 2
    default_message = "This passphrase is too easy to guess; nothing was changed."
    default_hint = "Use six random words; memlocket offers some."


class KeyFileRefused(VaultError):
    """An insecure key file that is open to others, foreign, a link, or of the wrong length."""

    code = "key_file_refused"
    title = "Key file refused"
    exit_code = 5
    default_message = "The key file was refused."
    default_hint = "Make one with: memlocket keyfile new PATH"


class SlotDamaged(VaultUnavailable):
    """``sum`` is wrong, a committed slot does not open, or ``db.commit`` differs."""

    code = "slot_damaged"
    title = "Key slots damaged"
    default_message = "The key slot file is damaged."
    default_hint = "Use another way to unlock (recovery words), or restore the file vault.slots."


class KdfParametersRefused(VaultUnavailable):
    """Argon2id parameters of a slot outside floor and ceiling; refused before they run."""

    code = "kdf_parameters_refused"
    title = "Key parameters refused"
    default_message = "The passphrase slot asks for key parameters outside the allowed limits."
    default_hint = "Unlock with the recovery words: memlocket unlock --recovery"


class WrongFile(VaultUnavailable):
    """``vault.db`` carries the salt of another vault."""

    code = "wrong_file"
    title = "Wrong file"
    default_message = "vault.db belongs to another vault."
    default_hint = "Put the right vault.db back, or restore a backup."


class PlaintextDatabase(VaultUnavailable):
    """``vault.db`` is not encrypted; never opened, never migrated."""

    code = "plaintext_database"
    title = "Plaintext database"
    default_message = "vault.db is not encrypted; it was not opened."
    default_hint = "Restore a backup: memlocket restore-backup FILE"


class KeyFormat(VaultError):
    """A raw key or salt of the wrong length reached the opener: a bug, stopped before SQLCipher."""

    code = "internal_error"
    title = "Internal error"
    outcome = Outcome.BUG
    exit_code = 1
    default_message = "The database key has the wrong form."


class NeedsRepair(VaultUnavailable):
    """Page checks fail although the key is right."""

    code = "needs_repair"
    title = "Vault damaged"
    default_message = "The database has damaged pages."
    default_hint = "Run: memlocket doctor, then restore a backup if it says so."


class NewerSchema(VaultUnavailable):
    """Written by a newer Memlocket; nothing was changed."""

    code = "newer_schema"
    title = "Newer vault"
    exit_code = 15
    default_message = "This vault was written by a newer version of Memlocket."
    default_hint = "Update Memlocket."


class WritesRefused(VaultError):
    """Reads go on, writes do not."""

    exit_code = 13


class RolledBack(WritesRefused):
    """The database or the anchor is older than its witness (vault.md 9.3)."""

    code = "rolled_back"
    title = "Vault rolled back"
    default_message = "The vault is older than it should be; it can be read but not written."
    default_hint = (
        "If you restored an old copy yourself, accept it: memlocket doctor --accept-rollback"
    )


class AnchorDamaged(WritesRefused):
    """The MAC of ``anchor.bin`` is wrong."""

    code = "anchor_damaged"
    title = "Anchor damaged"
    default_message = "The freshness record is damaged; the vault can be read but not written."
    default_hint = "If you trust this copy of the vault: memlocket doctor --accept-rollback"


class ReadOnly(WritesRefused):
    """No space, read-only file system, quota or I/O error; retried every 30 s."""

    code = "read_only"
    title = "Vault read-only"
    outcome = Outcome.RETRY_LATER
    default_message = "The vault cannot be written: disk full, read-only or failing."
    default_hint = "Free some space; writing starts again by itself."


class AlreadyRunning(VaultError):
    """Another process holds the lock of this vault."""

    code = "already_running"
    title = "Already running"
    exit_code = 3
    default_message = "Another Memlocket process uses this vault."


class BackupRefused(VaultError):
    """A backup could not be written or verified, or a bundle is not one of ours or damaged."""

    code = "backup_refused"
    title = "Backup refused"
    default_message = "The backup is damaged or not a Memlocket backup."


class RekeyFailed(VaultError):
    """Copy-rekey stopped before the switch; the old vault is as it was."""

    code = "rekey_failed"
    title = "Key change failed"
    default_message = "The new key was not put in place; the vault is unchanged."


class SchemaMismatch(VaultError):
    """A migration that this vault has seen is not the one that this program ships."""

    code = "schema_mismatch"
    title = "Schema mismatch"
    exit_code = 15
    default_message = "The vault's schema was not made by a released version of Memlocket."
    default_hint = "Install a released version, or restore a backup."


class Busy(VaultError):
    """Another process held the write lock of the database for longer than the writer waits."""

    code = "vault_busy"
    title = "Vault busy"
    outcome = Outcome.RETRY_LATER
    exit_code = 13
    default_message = "The vault is being maintained; nothing was written."
    default_hint = "Try again in a moment."


class Conflict(VaultError):
    """A name, key or id that must be unique is taken; nothing was written."""

    code = "conflict"
    title = "Conflict"
    exit_code = 2
    default_message = "That name is taken; nothing was changed."

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
