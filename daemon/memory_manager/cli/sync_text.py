"""Answers about sync as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.cli.output import counted, entries, facts, local_time, section, table

_Entry = Mapping[str, object]
_ID_DIGITS = 8
_OPERATIONS = {
    "add": "added",
    "revoke": "revoked",
    "rotate": "new key",
    "grant_key": "new grant key",
    "leave": "left",
    "fork_close": "goes on under a new id",
}
_ENDED = {"revoke": "revoked", "leave": "left", "fork_close": "renewed"}
_WAYS_ON = {
    "BREAKER": "memlocket sync devices, then: memlocket sync confirm BREAKER",
    "CLONED": "memlocket sync retry, once only one copy is left",
    "ENROL_AGAIN": "memlocket sync join URL, then: memlocket sync revoke {device} (its old entry)\n"
    "        where no backup was restored, without another machine: memlocket sync renew",
    "EQUIVOCATION": "memlocket sync evidence FILE",
    "FORK": "memlocket sync retry",
    "REVOKED_DEVICE": "memlocket sync devices, then: memlocket sync retry",
    "ROLLBACK": "memlocket sync confirm ROLLBACK",
    "ROSTER_CHANGED": "memlocket sync devices, then: memlocket sync confirm ROSTER_CHANGED",
}
"""What to type after each stop; where nothing stands here, it is ``memlocket sync retry``."""


_WORDS_DO_NOT_RECOVER = (
    "! The recovery words of this vault do not recover the shared memory.\n"
    "  To change that: memlocket sync words\n"
    "  Without any, and where they were revoked, first: memlocket recovery new"
)


def status(answer: _Entry) -> str:
    """Facts first, then what needs the owner."""
    sync = section(answer, "sync")
    if sync.get("state") == "off":
        return "Sync is off: this memory is on this machine only."
    verified = section(sync, "verified")
    text = facts(
        (
            ("state", sync.get("state")),
            ("server", sync.get("server")),
            ("vault", grouped(str(sync["vault"])) if sync.get("vault") else None),
            ("device", this_device(sync)),
            ("verified up to row", verified.get("n")),
            ("head words", " ".join(_texts(verified, "words")) or None),
            ("waiting to be sent", counted(_number(sync, "outbox"), "row")),
            ("progress", _progress(sync)),
            ("kept aside", _aside(sync)),
            ("conflicts", _conflicts(sync)),
            ("last contact", local_time(sync["last_contact_at"]) if sync.get("last_contact_at")
             else "never"),
        )
    )  # fmt: skip
    stopped = sync.get("state") == "stopped"
    shown = [_alarm(alarm, sync, stopped=stopped) for alarm in entries(sync, "alarms")]
    if sync.get("words_recover") is False:
        shown.append(_WORDS_DO_NOT_RECOVER)
    return "\n".join([text, *shown])


def this_device(sync: _Entry) -> str | None:
    """Name and beginning of the id of the machine that tells this; None while sync is off."""
    return _called(str(sync["device"]), _names(sync)) if sync.get("device") else None


def line(sync: _Entry) -> str | None:
    """One line among others; None while sync is off."""
    state = sync.get("state")
    if state in (None, "off"):
        return None
    codes = ", ".join(sorted({str(alarm.get("code")) for alarm in entries(sync, "alarms")}))
    if state == "stopped":
        return f"stopped, {codes}: memlocket sync status" if codes else "stopped"
    waiting = _number(sync, "outbox")
    return f"{state}, {counted(waiting, 'row')} to be sent" if waiting else str(state)


def _alarm(alarm: _Entry, sync: _Entry, *, stopped: bool) -> str:
    device, names = str(alarm.get("device") or ""), _names(sync)
    where = [f"device {_called(device, names)}"] if device else []
    where += [f"row {alarm['n']}"] if alarm.get("n") else []
    place = f" ({', '.join(where)})" if where else ""
    when = local_time(alarm["at"]) if alarm.get("at") else ""
    said = [f"! {alarm.get('code')}{place} {when}".rstrip(), f"  {alarm.get('advice')}"]
    said += [f"  {change}" for change in changes(alarm, sync)]
    if alarm.get("seen"):
        said += [f"  expected: {alarm.get('expected')}", f"  seen:     {alarm.get('seen')}"]
    if stopped:
        way = _WAYS_ON.get(str(alarm.get("code")), "memlocket sync retry")
        if alarm.get("code") == "REVOKED_DEVICE" and device == sync.get("device"):
            way = "memlocket sync leave"
        said.append("  Next: " + way.format(device=device[:_ID_DIGITS]))
    return "\n".join(said)


def changes(alarm: _Entry, sync: _Entry) -> list[str]:
    """What another device did to the device list, one line each."""
    names = _names(sync)
    said: list[str] = []
    for change in str(alarm.get("changes") or "").split("; "):
        act, _, by = change.partition(" by ")
        operation, _, target = act.partition(" ")
        if operation:
            author = "the recovery words" if by == "words" else _called(by, names)
            whom = f": {_called(target, names)}" if target else ""
            said.append(f"{_OPERATIONS.get(operation, operation)}{whom} by {author}")
    return said


def _names(sync: _Entry) -> Mapping[str, str]:
    known = {str(each.get("id")): each for each in entries(sync, "devices")}
    return {device: str(each["name"]) for device, each in known.items() if each.get("name")}


def _called(device: str, names: Mapping[str, str]) -> str:
    short = device[:_ID_DIGITS]
    return f"{names[device]} ({short})" if device in names else short


def _progress(sync: _Entry) -> str | None:
    progress = section(sync, "progress")
    if not progress:
        return None
    return f"{progress.get('phase')} {progress.get('done')} of {progress.get('total')}"


def _aside(sync: _Entry) -> str | None:
    """Rows that do not open, by code."""
    codes = section(sync, "quarantined")
    return ", ".join(f"{code} {count}" for code, count in codes.items()) or None


def _conflicts(sync: _Entry) -> str | None:
    count = _number(sync, "conflicts")
    return f"{counted(count, 'memory', 'memories')}: memlocket conflicts" if count else None


def member(headline: str, answer: _Entry) -> str:
    """What a device knows after it became a member."""
    return "\n".join(
        (
            headline,
            facts(
                (
                    ("server", answer.get("server")),
                    ("server's six words", server_words(answer)),
                    ("vault", grouped(str(answer.get("vault") or ""))),
                )
            ),
        )
    )


def jitter(answer: _Entry) -> str:
    """How long sending waits after a write."""
    seconds = answer.get("jitter_seconds")
    if not seconds:
        return "What this machine writes is sent at once."
    return f"What this machine writes is sent within {seconds:g} seconds, by chance."


def proof(checked: _Entry) -> str:
    """What a proof of two histories shows, or that it shows nothing."""
    if not checked.get("holds"):
        return "This proves nothing: it is damaged, altered or no proof."
    text = facts(
        (
            ("server's six words", server_words(checked)),
            ("vault", grouped(str(checked.get("vault") or ""))),
            ("differing at row", checked.get("n")),
            ("with the word of", checked.get("device_key")),
        )
    )
    said = f"This server signed two different histories of one vault:\n{text}"
    if checked.get("device_key"):
        said += "\nOne of the two is told by a device: make sure that this key is its own."
    return said


def server_words(answer: _Entry) -> str:
    """Six words of a server's key."""
    return " ".join(_texts(answer, "server_words"))


def sheet(answer: _Entry, *, with_words: bool) -> str:
    """What belongs on paper."""
    if not with_words:
        return (
            "There are no recovery words for the shared memory: once every device is lost, it is\n"
            "lost. Make some: memlocket recovery new && memlocket sync words"
        )
    return (
        "\nOn your recovery sheet, beside the 24 words:\n"
        f"  server  {answer.get('server')}\n"
        f"  its key {server_words(answer)}\n"
        f"  vault   {grouped(str(answer.get('vault') or ''))}\n"
        "  and from time to time the row and the six head words of: memlocket sync status\n"
        "A machine set up from the words alone cannot tell a server that was set back; with row\n"
        "and head words it can.\n"
    )


def device_name(device: _Entry) -> str:
    """Name and beginning of the id of an entry of the device list."""
    short = str(device.get("device"))[:_ID_DIGITS]
    if device.get("role") == "recovery":
        return f"the recovery words ({short})"
    return f"{device['name']} ({short})" if device.get("name") else short


def devices(answer: _Entry, sync: _Entry) -> str:
    """Who shares this memory; below it what waits for a confirmation, and a lost membership."""
    alarms = entries(sync, "alarms")
    waiting = [change for alarm in alarms for change in changes(alarm, sync)]
    revoked = {alarm.get("device") for alarm in alarms if alarm.get("code") == "REVOKED_DEVICE"}
    rows = [
        (
            str(device.get("name") or "-"),
            str(device.get("device"))[:_ID_DIGITS],
            "revoked" if device.get("device") in revoked else _role(device),
            str(device.get("rows")),
        )
        for device in entries(answer, "devices")
    ]
    shown = table(("NAME", "ID", "STATE", "ROWS"), rows)
    if waiting:
        shown += "\n\nNot confirmed yet:" + "".join(f"\n  {change}" for change in waiting)
        shown += "\nIf you did that: memlocket sync confirm ROSTER_CHANGED"
    return shown


def _role(device: _Entry) -> str:
    if not device.get("active"):
        ended = _ENDED.get(str(device.get("ended_by")), "ended")
        return f"{ended} at row {device.get('ended_at_row')}"
    if device.get("role") == "recovery":
        return "recovery words"
    return "this device" if device.get("this_device") else "active"


def grouped(vault: str) -> str:
    """A vault id as it is written down: groups of four."""
    return "-".join(vault[at : at + 4] for at in range(0, len(vault), 4))


def _texts(answer: _Entry, name: str) -> list[str]:
    return [str(text) for text in cast("Sequence[object]", answer.get(name) or [])]


def _number(answer: _Entry, name: str) -> int:
    value = answer.get(name)
    return value if isinstance(value, int) else 0
