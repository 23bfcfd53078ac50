"""How long `isomer index run` takes to fill stores, and how long their indexes take. See tests/search/pipelines --documents."""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import random
import time
from typing import Any

import judged


class Told:
    """Rows of the table."""

    def __init__(self, failed: list[str]):
        self.failed = failed
        print(f"{'':5}{'vectors':24} {'store':12} {'what':36} {'rows':>7} {'seconds':>9} {'rows/s':>8}", flush=True)

    def row(self, vectors: str, store: str, what: str, rows: int, seconds: float, holds: bool = True, note: str = "") -> None:
        print(f"{'ok  ' if holds else 'FAIL'} {vectors:24} {store:12} {what:36} {rows:>7} {seconds:>9.1f} {rows / seconds:>8.0f}  {note}", flush=True)
        if not holds:
            self.failed.append(f"{vectors} {store} {what}")


def vectors_of(folder: pathlib.Path) -> Any:
    """The rows of a folder of Parquet, as one table: key and embedding."""
    import pyarrow
    import pyarrow.parquet

    files = sorted(folder.glob("*.parquet"))
    return pyarrow.concat_tables([pyarrow.parquet.read_table(file, columns=["key", "embedding"]) for file in files])


def near(stored: list[float], due: list[float]) -> bool:
    return math.dist(stored, due) <= 1e-5 * math.hypot(*due)


def sample(table: Any, count: int = 200) -> dict[str, list[float]]:
    """Some of the vectors, by key, drawn from the whole."""
    rows = random.Random(1).sample(range(table.num_rows), min(count, table.num_rows))
    keys, vectors = table["key"], table["embedding"]
    return {keys[row].as_py(): vectors[row].as_py() for row in rows}


class Loaded:
    """One set of vectors in all stores: Parquet first, which encodes; the others find the vectors in the encoder's cache."""

    def __init__(self, given: argparse.Namespace, folder: pathlib.Path, gateway: Any, told: Told, chroma: int, milvus: int):
        self.given, self.folder, self.gateway, self.told, self.chroma, self.milvus = given, folder, gateway, told, chroma, milvus

    def index(self, source: pathlib.Path, sink: str, more: list[str]) -> dict:
        common = ["index", "run", "--source", str(source), "--sink", sink, "--payload", "n", "--model", self.gateway.model]
        return self.gateway.json(*common, "--batch", "512", *more)

    def all(self, name: str, label: str, source: pathlib.Path, count: int, augment: list[str]) -> None:
        parquet = self.folder / f"{name}.parquet"
        found = self.index(source, str(parquet), augment)
        calls = f"{found['tokens']} tokens" + (f", {found['generator_calls']} calls of the generator, {found['partial']} without all variants" if augment else "")
        self.told.row(label, "Parquet", "encode and write", count, found["seconds"], found["written"] == count, calls)
        table = vectors_of(parquet)
        due = sample(table)
        self.pgvector(name, label, source, count, augment, due)
        self.to_chroma(name, label, source, count, augment, due)
        self.lance(name, label, table, due)
        self.to_milvus(name, label, source, count, augment, due)

    def pgvector(self, name: str, label: str, source: pathlib.Path, count: int, augment: list[str], due: dict) -> None:
        import psycopg

        sink = f"{self.given.postgres}#{name}"
        found = self.index(source, sink, augment)
        with psycopg.connect(self.given.postgres) as connection:
            (rows,) = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
            query = f"SELECT key, embedding::text FROM {name} WHERE key = ANY(%s)"
            stored = {key: json.loads(vector) for key, vector in connection.execute(query, (list(due),))}
        holds = rows == count and all(near(stored[key], vector) for key, vector in due.items())
        self.told.row(label, "pgvector", "write, vectors from the cache", count, found["seconds"], holds)
        # Rows that lack a variant are made again, and nothing else is.
        lacking = found["partial"]
        found = self.index(source, sink, [*augment, "--build-index"])
        holds = (found["written"], found["unchanged"]) == (lacking, count - lacking) and found["index_seconds"] is not None
        self.told.row(label, "pgvector", "build the index (hnsw)", count, found["index_seconds"], holds)
        self.told.row(label, "pgvector", "a second run, nothing changed", count, found["seconds"], holds, f"{lacking} made again" if lacking else "")

    def to_chroma(self, name: str, label: str, source: pathlib.Path, count: int, augment: list[str], due: dict) -> None:
        import chromadb

        found = self.index(source, f"chroma+http://127.0.0.1:{self.chroma}#{name}", augment)
        collection = chromadb.HttpClient("127.0.0.1", self.chroma).get_collection(name, embedding_function=None)
        told = collection.get(ids=list(due), include=["embeddings"])
        stored = dict(zip(told["ids"], (list(map(float, row)) for row in told["embeddings"]), strict=True))
        holds = collection.count() == count and all(near(stored[key], vector) for key, vector in due.items())
        self.told.row(label, "Chroma", "write, index; vectors from the cache", count, found["seconds"], holds)

    def lance(self, name: str, label: str, table: Any, due: dict) -> None:
        import lancedb
        import pyarrow

        # LanceDB wants lists of one length.
        columns = len(next(iter(due.values())))
        vectors = table["embedding"].cast(pyarrow.list_(pyarrow.float32(), columns))
        began = time.monotonic()
        made = lancedb.connect(str(self.folder / "lance")).create_table(name, pyarrow.table({"key": table["key"], "vector": vectors}))
        seconds = time.monotonic() - began
        keys = ", ".join(f"'{key}'" for key in due)
        stored = {row["key"]: row["vector"] for row in made.search().where(f"key IN ({keys})").limit(len(due)).to_list()}
        holds = made.count_rows() == table.num_rows and all(near(stored[key], vector) for key, vector in due.items())
        self.told.row(label, "LanceDB", "from Parquet", table.num_rows, seconds, holds)
        began = time.monotonic()
        made.create_index("vector", config=lancedb.index.IvfHnswSq(distance_type="cosine"))
        made.wait_for_index(["vector_idx"])
        self.told.row(label, "LanceDB", "build the index (IVF_HNSW_SQ)", table.num_rows, time.monotonic() - began)

    def to_milvus(self, name: str, label: str, source: pathlib.Path, count: int, augment: list[str], due: dict) -> None:
        from pymilvus import MilvusClient

        address = f"http://127.0.0.1:{self.milvus}"
        sink = f"milvus+{address}#{name}"
        found = self.index(source, sink, augment)
        client = MilvusClient(address)
        client.load_collection(name)
        stored = {row["key"]: [float(x) for x in row["embedding"]] for row in client.get(name, list(due), output_fields=["key", "embedding"])}
        rows = client.query(name, output_fields=["count(*)"])[0]["count(*)"]
        client.close()
        holds = rows == count and all(near(stored[key], vector) for key, vector in due.items())
        self.told.row(label, "Milvus Lite", "write, index; vectors from the cache", count, found["seconds"], holds)
        # Rows that lack a variant are made again, and nothing else is.
        lacking = found["partial"]
        found = self.index(source, sink, augment)
        holds = (found["written"], found["unchanged"]) == (lacking, count - lacking)
        self.told.row(label, "Milvus Lite", "a second run, nothing changed", count, found["seconds"], holds)


def measure(given: argparse.Namespace, folder: pathlib.Path, gateway: Any, failed: list[str]) -> None:
    from pipelines import chroma
    from stores import milvus_lite

    server, port = chroma(folder)
    lite, milvus = milvus_lite(folder)
    try:
        print(f"encoder {gateway.model} ({given.precision}), variants: {given.augment}\n")
        told = Told(failed)
        loaded = Loaded(given, folder, gateway, told, port, milvus)
        everything = judged.plenty(folder / "documents.jsonl", given.documents)
        some = judged.plenty(folder / "some.jsonl", given.real_documents)
        loaded.all("plain", "plain", everything, given.documents, [])
        loaded.all("stub", "GASE, stub", everything, given.documents, ["--augment", given.augment, "--generator", "stub"])
        if given.real_documents:
            label = f"GASE, {given.local}"[:24]
            loaded.all("real", label, some, given.real_documents, ["--augment", given.augment, "--generator", "real"])
    finally:
        server.kill()
        lite.kill()
