"""What founding, joining and leaving a shared vault may be refused with; no secret is in a text."""

from __future__ import annotations

from memory_manager.base.errors import MemlocketError, Outcome


class SyncAlreadyOn(MemlocketError):
    """This vault is synced already."""

    code = "sync_already_on"
    title = "Sync is on already"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "This vault is synced with a server already."
    default_hint = (
        "See: memlocket sync status. If a setup was cut off, its words may not count yet:"
        " memlocket sync words. To stop for good here: memlocket sync leave"
    )


class EnrolmentRefused(MemlocketError):
    """The two sides of an enrolment do not fit together; nothing was added or adopted."""

    code = "enrolment_refused"
    title = "Enrolment refused"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "What the mailbox holds is not what the string announced; nothing was added."
    default_hint = "Start again on the new device: memlocket sync join"


class EnrolmentExpired(MemlocketError):
    """Ten minutes are over, the string was used, or nobody waits with it."""

    code = "enrolment_expired"
    title = "Enrolment is over"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "This enrolment string was used already, or its ten minutes are over."
    default_hint = "Make a new one on the new device: memlocket sync join"


class EnrolmentDeclined(MemlocketError):
    """A person at the other device said no."""

    code = "enrolment_declined"
    title = "Not let in"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "The other machine was asked and declined; nothing was added."
    default_hint = "If that was a mistake, make a new string: memlocket sync join"


class RosterMoved(MemlocketError):
    """Other devices kept changing the roster while this one tried to."""

    code = "roster_moved"
    title = "Device list changed meanwhile"
    outcome = Outcome.RETRY_LATER
    exit_code = 16
    default_message = "Other devices changed the device list at the same time; nothing was done."
    default_hint = "Look at: memlocket sync devices; then try again."


class RecoveryRefused(MemlocketError):
    """The words, the vault and the server do not belong together, or the server went back."""

    code = "sync_recovery_refused"
    title = "Recovery refused"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "These recovery words are not those of this vault, or no longer."
    default_hint = "Check the vault id and the words against the recovery sheet."
