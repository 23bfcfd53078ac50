"""Backfills into real stores, killed at random moments. See tests/search/run."""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

import psycopg

from augmented import Augmented
from lance_import import LanceImport
from migrate import NEW, Aliases, Migration
from stores import Chroma, Milvus, Pgvector, Process, Qdrant, free_port
from workers import Fleet

MODEL = "paraphrase-MiniLM-L3-v2"
WORDS = "music guitar stock market bread python code river stone cloud night train ticket garden engine doctor planet".split()


class Source:
    """A file of documents."""

    def __init__(self, path: pathlib.Path, count: int):
        self.path = path
        draw = random.Random(4711)
        self.rows = {f"d{n}": (" ".join(draw.choices(WORDS, k=8)) + f" {n}.", n) for n in range(count)}
        self.write()

    def write(self) -> None:
        lines = (json.dumps({"id": key, "text": text, "n": n}) for key, (text, n) in self.rows.items())
        # At once: a run may be reading.
        beside = self.path.with_suffix(".new")
        beside.write_text("\n".join(lines) + "\n")
        beside.replace(self.path)


class Gateway(Process):
    """Isomer's services, whose vectors are also asked for without `isomer index`."""

    def __init__(self, isomer: str, folder: pathlib.Path):
        self.port = free_port()
        super().__init__([isomer, "serve", "--listen", f"127.0.0.1:{self.port}", "--model", f"{MODEL},{NEW}"],
                         f"http://127.0.0.1:{self.port}/readyz", folder / "serve.log")

    def vectors(self, texts: list[str], model: str = MODEL) -> list[list[float]]:
        body = json.dumps({"model": model, "input": texts}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/embeddings", body,
                                         {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return [row["embedding"] for row in json.load(answer)["data"]]


def difference(stored: list[float], computed: list[float], lengths: bool) -> float:
    """The length of the difference over the length of the second vector."""
    if not lengths:
        stored, computed = ([x / math.hypot(*row) for x in row] for row in (stored, computed))
    return math.dist(stored, computed) / math.hypot(*computed)


def held(store, source: Source, gateway: Gateway, share: float, at_least: int = 20) -> dict[str, int]:
    """The store against the source, and a sample of its vectors computed again."""
    rows = store.rows()
    keys = [key for key, _, _ in rows]
    found = {"lost": len(source.rows.keys() - set(keys)), "twice": len(keys) - len(set(keys)),
             "not of the source": len(set(keys) - source.rows.keys()),
             "payload of another": sum(source.rows.get(key, (None, None))[1] != n for key, n, _ in rows)}
    sample = random.Random(1).sample(rows, min(len(rows), max(at_least, round(len(rows) * share))))
    sample = [row for row in sample if row[0] in source.rows]
    computed = gateway.vectors([source.rows[key][0] for key, _, _ in sample])
    far = sum(not difference(stored, again, store.lengths) < 1e-3 for (_, _, stored), again in zip(sample, computed, strict=True))
    return {**found, "of another vector": far, "computed again": len(sample)}


class Index:
    """`isomer index` with a gateway, or with the workers of a fleet."""

    def __init__(self, isomer: str, gateway: Gateway, source: Source, store, fleet: Fleet | None = None):
        self.common = ["--source", str(source.path), "--sink", store.sink, "--payload", "n", "--model", MODEL]
        told = ["--format", "json", "--quiet"]
        self.command, self.server = [isomer, "index"], ["--server", f"127.0.0.1:{gateway.port}", *told]
        self.encoding = [*fleet.flags, *told] if fleet else self.server
        self.environment = {**os.environ, **(fleet.environment if fleet else {})}

    def start(self, *more: str) -> subprocess.Popen:
        command = [*self.command, "run", *self.common, *self.encoding, "--batch", "32", *more]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env=self.environment)

    def run(self, *more: str) -> dict:
        started = self.start(*more)
        out, err = started.communicate(timeout=1800)
        if started.returncode != 0:
            raise AssertionError(f"isomer index run ended with {started.returncode}: {err}")
        return json.loads(out)

    def verify(self, share: float) -> tuple[int, dict]:
        command = [*self.command, "verify", *self.common, *self.server, "--share", str(share)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if done.returncode not in (0, 1):
            raise AssertionError(f"isomer index verify ended with {done.returncode}: {done.stderr}")
        return done.returncode, json.loads(done.stdout)


FAILED = []


def row(store, what: str, holds: bool, numbers: object) -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {store.name:27} {what:52} {numbers}", flush=True)
    if not holds:
        FAILED.append(what)


def fault(started: subprocess.Popen, faults: dict, draw: random.Random) -> str:
    """One thing goes wrong while a run works: what it was, or nothing where the run had ended."""
    try:
        started.wait(draw.uniform(0.2, 2.0))
        return ""
    except subprocess.TimeoutExpired:
        pass
    kind = draw.choice(["run killed", "run killed", *faults])
    if kind == "run killed":
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    else:
        faults[kind]()
    return kind


def backfill(store, source: Source, gateway: Gateway, index: Index, faults: dict, draw: random.Random, what: str = "backfill") -> None:
    """Fills a collection while the run is killed and other things go wrong: by name, what makes each happen."""
    happened: dict[str, int] = {}
    # Slow enough for faults to happen, on any machine.
    slow = ["--rows-per-second", "150"]
    started = index.start(*slow)
    for _ in range(12):
        kind = fault(started, faults, draw)
        if not kind:
            break
        happened[kind] = happened.get(kind, 0) + 1
        if started.poll() is not None:
            started = index.start(*slow)
    started.communicate(timeout=1800)
    index.run()
    found = held(store, source, gateway, 0.01)
    fine = found.pop("computed again") >= 20 and not any(found.values())
    row(store, f"{what} with faults {happened}", fine and sum(happened.values()) >= 3, found)


def follow(store, source: Source, gateway: Gateway, index: Index) -> None:
    again = index.run()
    row(store, "a second run writes nothing", (again["written"], again["unchanged"]) == (0, len(source.rows)), again["written"])
    keys = list(source.rows)
    for key in keys[:50]:
        source.rows[key] = (source.rows[key][0] + " changed", source.rows[key][1])
    for key in keys[50:70]:
        del source.rows[key]
    source.rows["new"] = ("a new document", -1)
    source.write()
    changed = index.run("--delete")
    row(store, "changed, new and deleted documents alone are written", (changed["written"], changed["deleted"]) == (51, 20),
        (changed["written"], changed["deleted"]))
    found = held(store, source, gateway, 0.05)
    del found["computed again"]
    row(store, "the store is the source", not any(found.values()), found)
    code, verified = index.verify(0.05)
    row(store, "isomer index verify finds it sound", code == 0 and verified["sampled"] > 0, verified["sampled"])


def twins(store, source: Source, gateway: Gateway, index: Index) -> None:
    """Both checks find what is wrong: their zeros say something."""
    lost, exchanged = list(source.rows)[100:102]
    store.remove(lost)
    store.set_vector(exchanged, gateway.vectors(["something else"])[0])
    found = held(store, source, gateway, 1.0)
    row(store, "a row removed and a vector exchanged are seen", (found["lost"], found["of another vector"]) == (1, 1), found)
    code, verified = index.verify(1)
    told = (code, verified["source"]["missing"]["keys"], verified["differing"]["keys"])
    row(store, "and by isomer index verify", told == (1, [lost], [exchanged]), told)
    before = store.rows()
    refused = subprocess.run([*index.command, "run", *index.common, *index.server, "--prompt", "passage: "], capture_output=True,
                             text=True)
    row(store, "a run of another space writes nothing", refused.returncode == 3 and "prompt" in refused.stderr
        and sorted(before) == sorted(store.rows()), refused.returncode)


def by_workers(isomer: str, gateway: Gateway, source: Source, store, folder: pathlib.Path, draw: random.Random) -> None:
    """A backfill whose texts are encoded by the workers of a fleet, killed at random moments like the queue and the run."""
    fleet = Fleet(isomer, folder)
    fleet.start()
    try:
        index = Index(isomer, gateway, source, store, fleet)
        backfill(store, source, gateway, index, fleet.faults(draw), draw, "backfill by workers")
        again = index.run()
        row(store, "a second run by workers writes nothing", (again["written"], again["unchanged"]) == (0, len(source.rows)), again["written"])
        for key in list(source.rows)[:64]:
            source.rows[key] = (source.rows[key][0] + " by workers", source.rows[key][1])
        source.write()
        before = fleet.left()
        changed = index.run()
        row(store, "changed documents leave nothing in the workers' store", (changed["written"], fleet.left() - before) == (64, 0),
            (changed["written"], fleet.left() - before))
    finally:
        done = fleet.stop()
    row(store, "it was the workers that encoded", done > 0, f"{done} units since the last kill")


def own_database(url: str) -> str:
    """An empty database of this test; it does not matter that the extension is in another one."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS isomer_search WITH (FORCE)")
        connection.execute("CREATE DATABASE isomer_search")
    return urllib.parse.urlsplit(url)._replace(path="/isomer_search").geturl()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--store", choices=["pgvector", "chroma", "milvus", "qdrant"], action="append")
    args = parser.parse_args()
    args.postgres = own_database(args.postgres)
    print(f"seed {args.seed}")
    kinds = {"pgvector": Pgvector, "chroma": Chroma, "milvus": Milvus, "qdrant": Qdrant}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gateway = Gateway(args.isomer, folder)
        gateway.start()
        try:
            # Qdrant's engine in Python takes minutes for what the others take seconds for: only if
            # asked for.
            if not args.store or "pgvector" in args.store:
                source = Source(folder / "migrated.jsonl", max(args.rows // 2, 500))
                draw = random.Random(f"{args.seed} migration")
                Migration(args.isomer, gateway, source, args.postgres, folder, row, draw).run(difference)
                LanceImport(args.isomer, gateway, Source(folder / "lance.jsonl", 300), folder, row).run(difference)
                Augmented(args.isomer, gateway, args.postgres, folder, row, draw).run(difference)
            for kind in args.store or ["pgvector", "chroma", "milvus"]:
                store = kinds[kind](args.postgres, folder)
                try:
                    source = Source(folder / f"{kind}.jsonl", args.rows)
                    index = Index(args.isomer, gateway, source, store)
                    faults = {"gateway killed": gateway.again, **({"store failed": store.fail} if store.fail else {})}
                    backfill(store, source, gateway, index, faults, random.Random(f"{args.seed} {kind}"))
                    follow(store, source, gateway, index)
                    twins(store, source, gateway, index)
                    if kind == "pgvector":
                        filled = Pgvector(args.postgres, folder)
                        by_workers(args.isomer, gateway, Source(folder / "fleet.jsonl", args.rows), filled, folder,
                                   random.Random(f"{args.seed} fleet"))
                        filled.stop()
                    if kind in ("milvus", "qdrant"):
                        Aliases(args.isomer, gateway, Source(folder / "alias.jsonl", 200), store, row).run(difference)
                finally:
                    store.stop()
        finally:
            gateway.kill()
    print(f"{len(FAILED)} failed" if FAILED else "all hold")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
