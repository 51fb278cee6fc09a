"""Preparing models: offline, interruptible, refused when a source is not what was pinned."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from network_guard import NetworkGuard
from sandbox_daemon import COMMAND

from memory_manager.recall.models import e5_rebuild
from memory_manager.recall.models.checks import MIN_COSINE, MIN_MEAN_COSINE
from memory_manager.recall.models.errors import ModelDamaged, PreparationFailed
from memory_manager.recall.models.installed import (
    InstalledModels,
    PreparedModel,
    damaged_files,
    list_models,
    read_model,
)
from memory_manager.recall.models.manifest import Backend
from memory_manager.recall.models.prepare import PrepareStep, prepare
from memory_manager.recall.models.settings import BackendChoice, EmbeddingSettings
from memory_manager.recall.models.sources import E5, FALLBACK_MODEL, source_folder

pytestmark = [pytest.mark.embed, pytest.mark.slow, pytest.mark.timeout(900)]


def test_preparing_is_offline_and_passes_its_own_check(
    tmp_path: Path, network_guard: NetworkGuard
) -> None:
    steps: list[PrepareStep] = []
    model = prepare(FALLBACK_MODEL, tmp_path / "models", steps.append)
    assert network_guard.was_in_place()
    assert [step.name for step in steps][:2] == ["verify", "load"]
    assert steps[-1].name == "install"
    assert damaged_files(model) == []
    check = model.manifest.self_check
    assert float(str(check["mean_cos"])) >= MIN_MEAN_COSINE
    assert float(str(check["min_cos"])) >= MIN_COSINE
    assert check["equal_ids"] is True
    assert sorted(path.name for path in model.folder.parent.iterdir()) == [
        FALLBACK_MODEL,
        "prepare.lock",
    ]
    modes = {path.stat().st_mode & 0o077 for path in model.folder.rglob("*")}
    assert modes == {0}


def test_the_default_model_passes_its_check_and_is_centred(e5: PreparedModel) -> None:
    manifest = e5.manifest
    assert manifest.model_key.startswith("multilingual-e5-small/1571fc9827503943/")
    assert manifest.centring is not None
    assert manifest.centring.id.startswith("neutral-1")
    assert (manifest.query_prompt, manifest.document_prompt) == ("query: ", "passage: ")
    assert float(str(manifest.self_check["mean_cos"])) >= MIN_MEAN_COSINE


@pytest.mark.parametrize("moment", ["load", "quantise", "check"])
def test_a_killed_preparation_leaves_the_old_model_alone(
    tmp_path: Path, minilm: PreparedModel, moment: str
) -> None:
    models = tmp_path / "models"
    models.mkdir(mode=0o700)
    shutil.copytree(minilm.folder, models / FALLBACK_MODEL)
    before = read_model(models / FALLBACK_MODEL)
    kill = threading.Event()

    def step(done: PrepareStep) -> None:
        if done.name == moment:
            kill.set()

    with pytest.raises(PreparationFailed):
        prepare(FALLBACK_MODEL, models, step, cancelled=kill)
    assert [model.manifest for model in list_models(models)] == [before.manifest]
    assert damaged_files(before) == []
    assert not list(models.glob("*.tmp"))


def test_two_preparations_at_once_exclude_each_other(tmp_path: Path) -> None:
    models = tmp_path / "models"
    refused: list[str] = []
    kill = threading.Event()

    def step(done: PrepareStep) -> None:
        if done.name == "load":
            with pytest.raises(PreparationFailed) as caught:
                prepare(FALLBACK_MODEL, models)
            refused.append(caught.value.message)
            kill.set()

    with pytest.raises(PreparationFailed):
        prepare(FALLBACK_MODEL, models, step, cancelled=kill)
    assert refused == ["Another process is preparing a model."]


def test_rebuilding_twice_gives_the_pinned_weights(tmp_path: Path) -> None:
    source = source_folder(E5) / E5.weights
    for name in ("one", "two"):
        e5_rebuild.rebuild(source, tmp_path / name)  # raises for any other hash
        weights = tmp_path / name / "model.safetensors"
        assert weights.stat().st_size == 470_045_872
        shutil.rmtree(tmp_path / name)


def test_a_source_with_one_other_byte_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / E5.weights
    shutil.copyfile(source_folder(E5) / E5.weights, copy)
    with copy.open("r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)
        file.seek(50_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(ModelDamaged):
        e5_rebuild.read_source(copy)
    os.truncate(copy, 1000)
    with pytest.raises(ModelDamaged):
        e5_rebuild.read_source(copy)


def test_the_rebuilt_tokeniser_gives_pinned_ids(e5: PreparedModel, repository: Path) -> None:
    tokenizers = importlib.import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(e5.folder / "tokenizer.json"))
    pinned = json.loads((repository / "tests" / "data" / "e5_token_ids.json").read_text("utf-8"))
    assert len(pinned) >= 20
    for text, ids in pinned.items():
        assert tokenizer.encode(text).ids == ids, text


_TINY = """
import sys, json
from pathlib import Path
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
from sentence_transformers import SentenceTransformer, models as st
torch.manual_seed(1)
folder = Path(sys.argv[1])
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [chr(c) for c in range(32, 0x3000)]
vocabulary = {w: i for i, w in enumerate(dict.fromkeys(words))}
tok = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
tok.pre_tokenizer = pre_tokenizers.Split("", "isolated")
tok.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
hf = folder / "hf"
PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]",
    cls_token="[CLS]", sep_token="[SEP]", model_max_length=128).save_pretrained(hf)
BertModel(BertConfig(vocab_size=tok.get_vocab_size(), hidden_size=48, num_hidden_layers=2,
    num_attention_heads=4, intermediate_size=96, max_position_embeddings=128)).save_pretrained(hf)
word = st.Transformer(str(hf), max_seq_length=128)
SentenceTransformer(modules=[word, st.Pooling(48, pooling_mode="cls")], device="cpu").save(
    str(folder / "tiny"))
"""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's sentence-transformers folder: 48 dimensions, first-token pooling, no prompts."""
    folder = tmp_path_factory.mktemp("user")
    subprocess.run(
        [sys.executable, "-c", _TINY, str(folder)], check=True, timeout=300, capture_output=True
    )
    return folder / "tiny"


def test_a_users_own_model_is_prepared_and_answers(tmp_path: Path, tiny_folder: Path) -> None:
    model = prepare(tiny_folder, tmp_path / "models")
    manifest = model.manifest
    assert (manifest.dim, manifest.max_tokens, manifest.query_prompt) == (48, 128, "")
    assert manifest.pooling == ("cls" if manifest.backend is Backend.ORT else "own")
    assert damaged_files(model) == []


def test_a_folder_is_prepared_and_used_by_one_command(tmp_path: Path, tiny_folder: Path) -> None:
    def prepared(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "model", "prepare", *arguments],
            env={**os.environ, "MEMLOCKET_HOME": str(tmp_path / "home")},
            cwd=tiny_folder.parent,
            capture_output=True,
            text=True,
            timeout=300,
        )

    missing = prepared("./absent")
    assert (missing.returncode, "no folder ./absent" in missing.stderr) == (4, True)
    empty = prepared("..")
    assert (empty.returncode, "no folder of a sentence-transformers" in empty.stderr) == (4, True)
    done = prepared("tiny", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    used = InstalledModels(tmp_path / "home" / "models", EmbeddingSettings()).find()
    assert used is not None
    assert (used.model_key, used.manifest.dim) == (made["model_key"], 48)
    again = prepared("--if-missing", "--json")
    assert json.loads(again.stdout)["model_key"] == made["model_key"]


def test_sentence_transformers_itself_can_be_asked_for(tmp_path: Path, tiny_folder: Path) -> None:
    model = prepare(tiny_folder, tmp_path / "models", backend=BackendChoice.ST)
    assert model.folder.name.endswith("-st")
    assert model.manifest.backend is Backend.ST
    assert model.manifest.quant in ("st-fp32", "st-bf16")
