"""A long day of two machines and their server, with a mark in every field that may hold a text.

Real daemons, a real server process, and a relay between them; see ``recording_relay``.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import uuid
from pathlib import Path
from typing import Any

from opened_vault import keys_of, opened, vault_paths
from recording_relay import RecordedCall, RecordingRelay
from sandbox_daemon import SandboxDaemon, Wire, wait_until
from sync_server import ServerProcess

from memory_manager.sync.wire import labels
from memory_manager.sync.wire.enrolment import read_invitation
from memory_manager.vault import device_key, kdf, slots
from memory_manager.vault.credential_slots import Passphrase
from memory_manager.vault.recovery_words import entropy_of
from memory_manager.vault.slot_files import read_slot_file

PASSPHRASE = "walnut orbit cactus lantern meadow pixel"
SECONDS = 60.0
FIELDS = (
    "content", "path", "bucket", "scope", "source", "metadata value", "metadata key", "tag",
    "provenance", "semantic key", "edited", "deleted", "forgotten", "redacted", "replacement",
    "reason", "state", "event", "snapshot", "reminder", "decision", "laptop before", "conflict one",
    "conflict two", "after rotation", "after revocation", "offline", "agent id", "instance id",
)  # fmt: skip
_OF_AN_EPOCH = {
    "wrapping key": labels.wrapping_key,
    "blinding key": labels.blinding_key,
    "export key": labels.export_key,
    "previous-epoch key": labels.previous_epoch_key,
}
TYPES = ("episodic", "semantic", "procedural", "working", "identity")


STEM = f"canary-{uuid.uuid4().hex}"
"""Begins every marked text: where much is searched, this alone is sought."""


def mark(name: str) -> str:
    # Characters that JSON, URLs and base64 change, so that every form differs from the raw one.
    return f'{STEM} {name} {uuid.uuid4().hex[:12]} "é/秘" end'


@dataclasses.dataclass
class Story:
    """Two machines, a server, the relay between them, and everything that must not be seen."""

    folder: Path
    relay: RecordingRelay
    server: ServerProcess
    desk: SandboxDaemon
    laptop: SandboxDaemon
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    opted: dict[str, str] = dataclasses.field(default_factory=dict)
    ids: dict[str, str] = dataclasses.field(default_factory=dict)
    secrets: dict[str, str | bytes] = dataclasses.field(default_factory=dict)
    token: str = ""

    def text(self, name: str) -> str:
        return self.texts[name]

    def passphrase(self) -> dict[str, str]:
        return {"--passphrase-fd": PASSPHRASE}

    def machines(self) -> tuple[SandboxDaemon, SandboxDaemon]:
        return self.desk, self.laptop

    def same(self) -> None:
        """Both verified the same row and have nothing left to send."""

        def done() -> bool:
            one, two = (sync_status(daemon) for daemon in self.machines())
            return (
                one["verified"] == two["verified"]
                and one["outbox"] == two["outbox"] == 0
                and one["state"] == two["state"] == "ok"
            )

        wait_until(done, SECONDS, "both have the same log")

    def note(self, name: str, memory: dict[str, Any]) -> str:
        memory_id = str(memory["id"])
        self.ids[f"id of {name}"] = memory_id
        return memory_id

    def sought(self) -> dict[str, str | bytes]:
        """What nobody but the owner's machines may see: texts, ids in every form, secrets."""
        raw = {f"{name}, raw": uuid.UUID(text).bytes for name, text in self.ids.items()}
        return {**self.texts, **self.ids, **raw, **self.secrets}


def sync_status(daemon: SandboxDaemon) -> dict[str, Any]:
    with daemon.owner() as owner:
        answer = owner.get("/v1/sync/status")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found.get("sync", found)


def play(story: Story) -> None:
    """Everything that two machines of one owner do with their memories and with each other."""
    _start(story)
    labels_of_agent = {"agent": story.text("agent id"), "instance": story.text("instance id")}
    with story.desk.wire(story.token, **labels_of_agent) as agent:
        _write_every_kind(story, agent)
        _set_up(story)
        _join(story)
        _change_and_forget(story, agent)
    _conflict(story)
    _opt_in(story)
    _rotate_and_revoke(story)


def _start(story: Story) -> None:
    desk = story.desk
    story.secrets["words"] = desk.init_with_words(PASSPHRASE)
    story.laptop.init()
    for daemon in story.machines():
        daemon.start()
    story.token = desk.add_agent("agent")


def _write_every_kind(story: Story, agent: Wire) -> None:
    text = story.text
    whole = {
        "content": text("content"),
        "path": text("path"),
        "bucket": text("bucket"),
        "scope": text("scope"),
        "source": text("source"),
        "metadata": {
            text("metadata key"): {"deep": [text("metadata value")]},
            "tags": [text("tag")],
        },
        "provenance": {"from": text("provenance")},
        "semantic_key": text("semantic key"),
    }
    made = agent.post("/v1/remember", whole)
    assert made.status in (200, 201), made.body
    story.note("content", made.json)
    for kind in TYPES:
        story.note(kind, agent.remember(f"{text('content')} {kind}", memory_type=kind))
    for path, name, field in (
        ("/v1/update_state", "state", "content"),
        ("/v1/timeline/events", "event", "content"),
        ("/v1/restart/snapshot", "snapshot", "label"),
        ("/v1/reminders", "reminder", "content"),
        ("/v1/decisions", "decision", "context"),
    ):
        answer = agent.post(path, {field: text(name)})
        assert answer.status in (200, 201), (path, answer.body)
        story.note(name, answer.json)
    for length in (3, 700, 701, 5_000):
        words = f"{text('content')} {length} "
        story.note(f"{length} letters", agent.remember(words + "x" * length))


def _set_up(story: Story) -> None:
    token = story.server.registration_token()
    story.secrets["registration token"] = token
    words = story.secrets["words"]
    assert isinstance(words, str)
    story.desk.cli(
        *("sync", "setup", story.relay.url, "--name", "desk"),
        secrets={**story.passphrase(), "--token-fd": token, "--words-fd": words},
    )


def _join(story: Story) -> None:
    story.note("laptop", _owner(story.laptop, story.text("laptop before")))
    reader, writer = os.pipe()
    command = ("sync", "join", story.relay.url, "--name", "laptop")
    waiting = threading.Thread(
        target=story.laptop.cli,
        args=(*command, "--invitation-fd", str(writer)),
        kwargs={"pass_fds": [writer]},
    )
    waiting.start()
    with os.fdopen(reader) as stream:
        string = stream.readline().strip()
    os.close(writer)
    story.secrets["enrolment string"] = string
    story.secrets["enrolment secret"] = read_invitation(string).secret
    story.desk.cli("sync", "approve", "--yes", stdin=string, secrets=story.passphrase())
    waiting.join(SECONDS)
    story.same()


def _owner(daemon: SandboxDaemon, content: str) -> dict[str, Any]:
    with daemon.owner() as owner:
        return owner.remember(content)


def _change_and_forget(story: Story, agent: Wire) -> None:
    text = story.text
    address = f"/v1/memories/{story.ids['id of content']}"
    changed = {"content": text("edited"), "metadata": {"tags": ["plain", text("tag")]}}
    assert agent.send("PATCH", address, changed).status == 200
    bodies: dict[str, dict[str, str]] = {
        "deleted": {"reason": text("reason")},
        "forgotten": {"mode": "hard_delete", "reason": text("reason")},
        "redacted": {"mode": "redact", "replacement_content": text("replacement")},
    }
    with story.desk.owner() as owner:
        for name in bodies:
            story.note(name, agent.remember(text(name)))
        story.same()
        for name, body in bodies.items():
            answer = owner.post(f"/v1/memories/{story.ids[f'id of {name}']}/forget", body)
            assert answer.status == 200, answer.body
    story.same()


def _conflict(story: Story) -> None:
    memory_id = story.ids["id of laptop"]
    for daemon in story.machines():
        daemon.cli("sync", "pause")
    for daemon, name in zip(story.machines(), ("conflict one", "conflict two"), strict=True):
        with daemon.owner() as owner:
            change = {"content": story.text(name)}
            assert owner.send("PATCH", f"/v1/memories/{memory_id}", change).status == 200
    story.note("offline", _owner(story.laptop, story.text("offline")))
    for daemon in story.machines():
        daemon.cli("sync", "resume")
    for daemon in story.machines():
        wait_until(
            lambda d=daemon: sync_status(d)["conflicts"] == 1, SECONDS, "both see the conflict"
        )
    story.desk.cli("conflicts", "keep", memory_id, "1")
    story.same()


def _opt_in(story: Story) -> None:
    author = {"agent": story.opted["opted author"], "instance": story.text("instance id")}
    with story.desk.wire(story.token, **author) as agent:
        memory_id = story.note("opted in", agent.remember(story.opted["opted in"], "team"))
    story.desk.cli("opt-in", "approve", memory_id, secrets=story.passphrase())
    wait_until(lambda: _opt_in_counts(story)["sent"] == 1, SECONDS, "it is on the index")


def _opt_in_counts(story: Story) -> dict[str, int]:
    with story.desk.owner() as owner:
        found: dict[str, int] = owner.get("/v1/opt-in/status").json["opt_in"]
    return found


def opt_out(story: Story) -> None:
    story.desk.cli("opt-in", "out", story.ids["id of opted in"])

    def gone() -> bool:
        counts = _opt_in_counts(story)
        return counts["sent"] == counts["waiting"] == counts["leaving"] == 0

    wait_until(gone, SECONDS, "it left the index")


def _rotate_and_revoke(story: Story) -> None:
    story.desk.cli("sync", "rotate", secrets=story.passphrase())
    story.note("after rotation", _owner(story.desk, story.text("after rotation")))
    story.same()
    story.desk.cli("sync", "revoke", "laptop", "--yes", secrets=story.passphrase())
    story.note("after revocation", _owner(story.desk, story.text("after revocation")))
    wait_until(lambda: sync_status(story.laptop)["state"] == "stopped", SECONDS, "it is told")
    wait_until(lambda: sync_status(story.desk)["outbox"] == 0, SECONDS, "all is pushed")


def gather_secrets(story: Story) -> None:
    """Of both machines, stopped: keys of the vault, of the device, of every epoch, and tokens."""
    for daemon in story.machines():
        name = daemon.home.parent.name
        paths = vault_paths(daemon)
        slot_file = read_slot_file(paths.slots)
        assert slot_file is not None
        keys = keys_of(daemon)
        story.secrets |= {f"{kind} of {name}": key for kind, key in keys.items()}
        own = device_key.parse(
            paths.device_key.read_bytes(),
            slot_file.vault,
            slot_file.install,
            keys["device wrapping key"],
        )
        story.secrets[f"signing key of {name}"] = bytes(own.secrets[own.SIGNING_SEED])
        story.secrets[f"box key of {name}"] = bytes(own.secrets[own.BOX_SECRET])
        with opened(daemon) as connection:
            for epoch, vrk in connection.execute("SELECT epoch, vrk FROM keybag"):
                story.secrets[f"key of epoch {epoch} at {name}"] = bytes(vrk)
                for subkey, derive in _OF_AN_EPOCH.items():
                    story.secrets[f"{subkey} {epoch} at {name}"] = bytes(derive(vrk))
    slot_file = read_slot_file(vault_paths(story.desk).slots)
    assert slot_file is not None
    _, kek = Passphrase(PASSPHRASE).open_with_key(slot_file)
    gsk = slots.open_grant_key(slot_file, kek)
    assert gsk is not None
    story.secrets["grant key"] = bytes(gsk)
    story.secrets["passphrase"] = PASSPHRASE
    entropy = entropy_of(str(story.secrets["words"]))
    story.secrets["entropy of the words"] = bytes(entropy)
    story.secrets["paper signing key"] = bytes(kdf.paper_signing_seed(entropy))
    story.secrets["paper box key"] = bytes(kdf.paper_box_secret(entropy))
    story.secrets["agent token"] = story.token


def session_tokens(calls: list[RecordedCall]) -> dict[str, str]:
    held = {call.request.header("Authorization").removeprefix("Bearer ") for call in calls}
    return {f"session token {at}": token for at, token in enumerate(sorted(held - {""}))}
