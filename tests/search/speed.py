#!/usr/bin/env python3
"""Rows a second into pgvector, end to end: `isomer index run`, beside its encoder alone and beside a plain loop
of sentence-transformers and psycopg, with the same model folder, texts and cores.

Per round, one after the other: `isomer embed` over all texts and over one (the difference is the encoder
without its start), `isomer index run` into an empty table, the loop into an empty table. The index is built
after loading in both, and its time is a row of its own. Medians over the rounds are compared.

    speed.py --isomer BINARY --model FOLDER --postgres URL [--python PYTHON] [--rows N] [--rounds N]

PYTHON has sentence-transformers and psycopg; the binary should be a release build.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

WORDS = ("music guitar stock market bread python code river stone cloud night train ticket garden engine doctor planet history of the "
         "and in a to is was for on with as by at from").split()

LOOP = """
import json, sys, time
import psycopg
from sentence_transformers import SentenceTransformer
model, url, source = sys.argv[1:]
rows = [json.loads(line) for line in open(source)]
model = SentenceTransformer(model, device="cpu")
model.encode(["warm up"] * 32)
with psycopg.connect(url) as connection:
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    connection.execute("DROP TABLE IF EXISTS plain")
    connection.execute(f"CREATE TABLE plain (key text PRIMARY KEY, embedding vector({model.get_sentence_embedding_dimension()}))")
    connection.commit()
    begun = time.perf_counter()
    for at in range(0, len(rows), 256):
        batch = rows[at:at + 256]
        vectors = model.encode([row["text"] for row in batch], batch_size=32)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO plain VALUES (%s, %s)",
                               [(row["id"], json.dumps(vector.tolist())) for row, vector in zip(batch, vectors)])
        connection.commit()
    loaded = time.perf_counter()
    connection.execute("CREATE INDEX ON plain USING hnsw (embedding vector_cosine_ops)")
    connection.commit()
    print(json.dumps({"load": loaded - begun, "index": time.perf_counter() - loaded}))
"""


def timed(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ["--isomer", "--model", "--postgres"]:
        parser.add_argument(flag, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    draw = random.Random(7)
    texts = [" ".join(draw.choices(WORDS, k=draw.randrange(10, 40))) + f" {n}." for n in range(args.rows)]
    found: dict[str, list[float]] = {name: [] for name in ["encoder", "index run", "index run: hnsw", "loop", "loop: hnsw"]}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines, one, source, loop = (folder / file for file in ["texts.txt", "one.txt", "docs.jsonl", "loop.py"])
        lines.write_text("\n".join(texts) + "\n")
        one.write_text(texts[0] + "\n")
        source.write_text("".join(json.dumps({"id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(texts)))
        loop.write_text(LOOP)
        embed = [args.isomer, "embed", "--model", args.model, "--quiet", "--output", str(folder / "out.npy"), "--input"]
        sink = f"{args.postgres}#fast"
        run = [args.isomer, "index", "run", "--source", str(source), "--sink", sink, "--model", args.model, "--build-index",
               "--format", "json", "--quiet"]
        drop = [args.python, "-c", f"import psycopg; psycopg.connect({args.postgres!r}, autocommit=True).execute('DROP TABLE IF EXISTS fast')"]
        for round_ in range(args.rounds):
            start = timed([*embed, str(one)])
            found["encoder"].append((args.rows - 1) / (timed([*embed, str(lines)]) - start))
            subprocess.run(drop, check=True)
            outcome = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
            assert outcome["written"] == args.rows, outcome
            found["index run"].append(args.rows / outcome["seconds"])
            found["index run: hnsw"].append(outcome["index_seconds"])
            told = json.loads(subprocess.run([args.python, str(loop), args.model, args.postgres, str(source)], check=True,
                                             capture_output=True, text=True).stdout.splitlines()[-1])
            found["loop"].append(args.rows / told["load"])
            found["loop: hnsw"].append(told["index"])
            print(f"round {round_ + 1}, load {os.getloadavg()[0]:.1f}: "
                  + ", ".join(f"{name} {values[-1]:.1f}" for name, values in found.items()), flush=True)
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, median in medians.items():
        print(f"{name:18} {median:8.1f} {'s' if 'hnsw' in name else 'rows/s'}")
    print(f"index run / encoder alone {medians['index run'] / medians['encoder']:.2f}, "
          f"index run / loop {medians['index run'] / medians['loop']:.2f}")


if __name__ == "__main__":
    main()
