"""Texts in a vector set of Redis 8, encoded by Isomer's gateway.

    pip install "redis>=6.2"
    python3 vectors.py load docs.jsonl --isomer https://isomer.example --model all-MiniLM-L6-v2
    python3 vectors.py find "somebody makes music" --isomer https://isomer.example --model all-MiniLM-L6-v2
    python3 vectors.py load docs.jsonl --set docs-gase --augment paraphrase …      augmented (GASE)
    python3 vectors.py find "somebody makes music" --set docs-gase --augment paraphrase …

docs.jsonl has a row with `id` and `text` for each document. The gateway's key is read from ISOMER_API_KEY, Redis' address from
REDIS_URL. Documents wait for their variants; queries use those that are cached. The digest of the vector space is kept beside
the set (`SET:space`): vectors of another encoder, or augmented in another way, are refused.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import urllib.error
import urllib.request
from typing import Iterator

import redis

BATCH = 64


def encoded(given: argparse.Namespace, texts: list[str], purpose: str, *, wait: bool) -> tuple[list[list[float]], str]:
    """A vector for each text, and the digest of their space. With `wait` every variant is waited for."""
    body: dict = {"model": given.model, "input": texts}
    if given.augment:
        prompt = given.document_prompt if purpose == "document" else given.query_prompt
        body |= {"prompt_name": prompt, "augment": {"transformations": given.augment.split(","), "mode": "always" if wait else "cached"}}
    else:
        body["input_type"] = purpose
    headers = {"content-type": "application/json"}
    if key := os.environ.get("ISOMER_API_KEY"):
        headers["authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{given.isomer.rstrip('/')}/v1/embeddings", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return [row["embedding"] for row in json.load(answer)["data"]], answer.headers["isomer-vector-space"]
    except urllib.error.HTTPError as error:
        sys.exit(f"the gateway answered {error.code}: {error.read().decode(errors='replace')[:800]}")


def blob(vector: list[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


def batches(file: str) -> Iterator[list[dict]]:
    batch: list[dict] = []
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            batch.append(json.loads(line))
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def load(given: argparse.Namespace, store: redis.Redis) -> int:
    count = 0
    for batch in batches(given.file):
        vectors, space = encoded(given, [row["text"] for row in batch], "document", wait=True)
        held(store, given.set, space)
        pipeline = store.pipeline(transaction=False)
        for row, vector in zip(batch, vectors, strict=True):
            # 32-bit floats as they are: the default, 8 bits, changes the order of near neighbours.
            pipeline.execute_command("VADD", given.set, "FP32", blob(vector), str(row["id"]), "NOQUANT", "SETATTR", json.dumps({"text": row["text"]}))
        pipeline.execute()
        count += len(batch)
    return count


def space_of(store: redis.Redis, name: str) -> str | None:
    known = store.get(f"{name}:space")
    return known.decode() if isinstance(known, bytes) else known


def held(store: redis.Redis, name: str, space: str) -> None:
    """The set's space, which its first vectors decide."""
    store.set(f"{name}:space", space, nx=True)
    known = space_of(store, name)
    if known != space:
        sys.exit(f"the set `{name}` holds vectors of the space {known}, these are of {space}: fill another set, with --set")


def find(given: argparse.Namespace, store: redis.Redis) -> list[tuple[str, float, str]]:
    vectors, space = encoded(given, [given.text], "query", wait=False)
    if space != space_of(store, given.set):
        # With a prompt of their own queries have a space of another digest: that of documents
        # counts.
        space = encoded(given, [given.text], "document", wait=False)[1]
    held(store, given.set, space)
    found = store.execute_command("VSIM", given.set, "FP32", blob(vectors[0]), "WITHSCORES", "COUNT", given.count)
    pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
    rows = []
    for element, score in pairs:
        kept = store.execute_command("VGETATTR", given.set, element)
        rows.append((element.decode() if isinstance(element, bytes) else element, float(score), json.loads(kept)["text"]))
    return sorted(rows, key=lambda row: -row[1])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = arguments.add_subparsers(required=True)
    for name, what, function in (("load", "file", load), ("find", "text", find)):
        command = commands.add_parser(name)
        command.add_argument(what)
        command.add_argument("--isomer", required=True, help="address of the gateway")
        command.add_argument("--model", required=True)
        command.add_argument("--set", default="docs")
        command.add_argument("--augment", default="", metavar="NAME,…", help="transformations that make the variants")
        command.add_argument("--document-prompt", help="name of the encoder's prompt, with --augment")
        command.add_argument("--query-prompt", help="the same for queries")
        command.add_argument("--count", type=int, default=10)
        command.set_defaults(function=function)
    given = arguments.parse_args()
    store = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))
    result = given.function(given, store)
    if isinstance(result, int):
        print(f"{result} documents in `{given.set}`")
    else:
        for element, score, text in result:
            print(f"{score:.4f}  {element}  {text}")


if __name__ == "__main__":
    main()
