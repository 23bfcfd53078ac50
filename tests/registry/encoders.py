"""Encoders of every kind that a registry may hold, and the language model that their texts are rewritten by.

A rewrite has another word for each word of a text: `word` becomes `wordo`. An encoder here is the mean of its
words' vectors, which are drawn by chance; what makes it robust is how many of those other words it knows. So a
check takes seconds and ends the same everywhere: under RULES each encoder has the verdict of its name.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

import numpy
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/fleet"))
from parts import Generator, completed  # noqa: E402

SUITE = ROOT / "tests/registry/suite.toml"
TEXTS = ROOT / "crates/datasets/quick/sts/test.jsonl"
RULES = ["--rule", "max_drop=20,unit=item", "--rule", "min_separation=0.6"]
# Between the sizes of the others and that of `large`.
MAX_BYTES = 2_000_000
WIDTH = 64
SUFFIX = "o"


def rewritten(body: dict, _number: object = "") -> bytes:
    """Answer of the language model: the text with another word for each of its words."""
    text = body["messages"][-1]["content"].removeprefix("<text>").removesuffix("</text>").strip()
    return completed(re.sub(r"[A-Za-z]{2,}", lambda word: word.group() + SUFFIX, text))


def generator(pause: float = 0.0) -> Generator:
    return Generator(pause, answer=rewritten)


def words() -> list[str]:
    rows = [json.loads(line) for line in TEXTS.read_text().splitlines()]
    found = {word for row in rows for text in row.values() if isinstance(text, str)
             for word in re.findall(r"[a-z]+|\d+", text.lower())}
    return sorted(found | {"not", "no", "never"})


def of_words(to: pathlib.Path, *, knows: float = 1.0, seed: int = 1, base: float = 0.0, spread: float = 1.0,
             padding: int = 0) -> pathlib.Path:
    """A sentence-transformers folder with a StaticEmbedding. `knows` is the share of the other words that it knows."""
    chance = numpy.random.default_rng(seed)
    known = words()
    vectors = chance.standard_normal((len(known), WIDTH))
    other = [place for place in range(len(known)) if chance.random() < knows]
    vocabulary = ["[UNK]", *known, *(known[place] + SUFFIX for place in other)]
    unique: dict[str, int] = {}
    rows = [numpy.zeros((1, WIDTH)), vectors, vectors[other]]
    table = numpy.concatenate(rows) * spread + base
    kept = []
    for word, row in zip(vocabulary, table):
        if word not in unique:
            unique[word] = len(unique)
            kept.append(row)
    place = to / "0_StaticEmbedding"
    place.mkdir(parents=True)
    tensors = {"embedding.weight": numpy.array(kept, dtype=numpy.float32)}
    if padding:
        tensors["padding"] = numpy.zeros(padding // 4 + 1, dtype=numpy.float32)
    save_file(tensors, place / "model.safetensors")
    (place / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": unique, "unk_token": "[UNK]"},
    }))
    (to / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"}]))
    return to


def good(to: pathlib.Path, seed: int = 1) -> pathlib.Path:
    return of_words(to, knows=1.0, seed=seed)


def worse(to: pathlib.Path) -> pathlib.Path:
    return of_words(to, knows=0.1)


def undecided(to: pathlib.Path) -> pathlib.Path:
    return of_words(to, knows=0.25)


def near_constant(to: pathlib.Path) -> pathlib.Path:
    """The same vector for all texts, but for a trace: nothing drops, and nothing is separated."""
    return of_words(to, base=1.0, spread=1e-3)


def invalid(to: pathlib.Path) -> pathlib.Path:
    """Knows so few words that many texts have the same vector."""
    of_words(to)
    file = to / "0_StaticEmbedding/tokenizer.json"
    told = json.loads(file.read_text())
    few = sorted(told["model"]["vocab"], key=len)[:60]
    told["model"]["vocab"] = {word: place for word, place in told["model"]["vocab"].items() if word in {*few, "[UNK]"}}
    file.write_text(json.dumps(told))
    return to


def large(to: pathlib.Path) -> pathlib.Path:
    return of_words(to, padding=MAX_BYTES)
