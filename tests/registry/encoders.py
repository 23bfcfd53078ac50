"""Encoders of every kind that a registry may hold, made of the tiny ones of embed-svc's tests.

Their weights are drawn by chance, so a check takes seconds and ends the same everywhere. Under RULES
each has the verdict of its name.
"""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "embed-svc/tests/fixtures"
SUITE = ROOT / "tests/registry/suite.toml"
RULES = [
    "--rule", "max_drop=5,of=stopword_removal,unit=item,max_shared=1",
    "--rule", "min_separation=0.6",
]
# Between the sizes of the others and that of `large`.
MAX_BYTES = 1_000_000


def copied(name: str, to: pathlib.Path) -> pathlib.Path:
    shutil.copytree(FIXTURES / name, to, ignore=shutil.ignore_patterns("golden.*"))
    return to


def good(to: pathlib.Path) -> pathlib.Path:
    return copied("mpnet", to)


def other(to: pathlib.Path) -> pathlib.Path:
    """As good, with other weights."""
    copied("mpnet", to)
    file = to / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in sorted(weights) if name.endswith("word_embeddings.weight"))
    weights[name] = weights[name] * numpy.float32(1.001)
    save_file(weights, file)
    return to


def worse(to: pathlib.Path) -> pathlib.Path:
    """Knows few words, so that what is left of a text says little."""
    return copied("word_embeddings", to)


def undecided(to: pathlib.Path) -> pathlib.Path:
    return copied("xlm_roberta", to)


def invalid(to: pathlib.Path) -> pathlib.Path:
    """Reads two tokens of each text: it cuts all of them."""
    copied("mpnet", to)
    settings = to / "sentence_bert_config.json"
    told = json.loads(settings.read_text())
    settings.write_text(json.dumps({**told, "max_seq_length": 4}))
    return to


def near_constant(to: pathlib.Path) -> pathlib.Path:
    """The same vector for all texts, but for a trace: nothing drops, and nothing is told apart."""
    copied("mpnet", to)
    width = json.loads((to / "config.json").read_text())["hidden_size"]
    dense = to / "2_Dense"
    dense.mkdir()
    (dense / "config.json").write_text(json.dumps({
        "in_features": width, "out_features": width, "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }))
    save_file({
        "linear.weight": numpy.eye(width, dtype=numpy.float32) * numpy.float32(1e-6),
        "linear.bias": numpy.ones(width, dtype=numpy.float32),
    }, dense / "model.safetensors")
    modules = json.loads((to / "modules.json").read_text())
    modules[2] = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (to / "modules.json").write_text(json.dumps(modules))
    return to


def large(to: pathlib.Path) -> pathlib.Path:
    copied("mpnet", to)
    file = to / "model.safetensors"
    save_file({**load_file(file), "padding": numpy.zeros(MAX_BYTES // 4 + 1, dtype=numpy.float32)}, file)
    return to


def plain_bert(to: pathlib.Path) -> pathlib.Path:
    """A Hugging Face folder as the flavour `transformers` logs it: the tokenizer lies beside the model."""
    whole = copied("mpnet", to / "whole")
    model, tokenizer = to / "model", to / "components/tokenizer"
    for folder in (model, tokenizer):
        folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        shutil.move(whole / name, model / name)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.move(whole / name, tokenizer / name)
    shutil.rmtree(whole)
    return to
