"""Prints the rows of lease.sh, and tables of ncu, as Markdown: table.py ROWS.jsonl [NCU.csv]..."""

import csv
import json
import pathlib
import sys

from make import MINILM, SHAPES

PEAK = 790  # TFLOP/s of an H100's or H200's dense bf16 products


def operations(name, tokens):
    """Floating-point operations of one text: products of the layers, and scores of the attention."""
    shape = MINILM if name == "minilm" else SHAPES[name]
    heads, kv = shape.heads * shape.head, shape.kv_heads * shape.head
    decoder = shape.fixture == "qwen3"
    weights = shape.hidden * (2 * heads + 2 * kv + (3 if decoder else 2) * shape.inner)
    attention = 4 * heads * tokens**2 / (2 if decoder else 1)
    return shape.layers * (2 * weights * tokens + attention)


def table(title, columns, rows):
    if rows:
        print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        for row in rows:
            print(f"| {' | '.join('–' if cell is None else str(cell) for cell in row)} |")


def best(rows, what):
    """The fastest batch of each model, tokens and precision."""
    found = {}
    for row in rows:
        if row["what"] == what and "texts_s" in row and "note" not in row:
            key = row["model"], row["tokens"], row["precision"]
            found[key] = max(found.get(key, 0), row["texts_s"])
    return found


def speeds(rows, cosines):
    ours, peers = best(rows, "speed"), best(rows, "peer")
    for key in sorted(ours, key=lambda key: (key[2], list(key))):
        name, tokens, precision = key
        peer, known = peers.get(key), name == "minilm" or name in SHAPES
        tflops = ours[key] * operations(name, tokens) / 1e12 if known else None
        yield (
            name, tokens, precision, ours[key], peer, f"{ours[key] / peer:.2f}" if peer else None,
            f"{tflops:.0f}" if known else None, f"{tflops / PEAK:.0%}" if known else None, cosines.get((name, precision)),
        )  # fmt: skip


def parities(rows):
    for precision in ("f32", "f16", "bf16"):
        found = [row for row in rows if row["what"] == "parity" and row["precision"] == precision and row.get("cosine") is not None]
        if found:
            worst = min(found, key=lambda row: row["cosine"])
            equal = sum(row["repeat_equal"] for row in found)
            alone = min(found, key=lambda row: row["company_equal"])
            apart = max(row["difference"] for row in found)
            yield precision, len(found), f"{worst['cosine']} ({worst['model']})", f"{apart:.1e}", equal, f"{alone['company_equal']} ({alone['model']})"


def kernels(path):
    """Launches and microseconds of each kernel."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    found = {}
    for row in csv.DictReader(lines):
        launches, time = found.get(row["Kernel Name"], (0, 0.0))
        found[row["Kernel Name"]] = launches + 1, time + float(row["Metric Value"].replace(",", "")) / 1e3
    order = sorted(found.items(), key=lambda entry: -entry[1][1])
    return [[f"`{name[:90]}`", launches, f"{time:.1f}"] for name, (launches, time) in order]


def main():
    rows = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{") and line.endswith("}\n")]
    cosines = {(row["model"], row["precision"]): row.get("cosine") for row in rows if row["what"] == "parity"}
    columns = ["model", "tokens", "precision", "ours, texts/s", "peer, texts/s", "ratio", "TFLOP/s", f"MFU of {PEAK}", "least cosine"]
    table("Speed", columns, list(speeds(rows, cosines)))
    columns = ["precision", "models", "least cosine", "largest difference", "repeated bits equal", "least share of equal values alone and in a batch"]
    table("Parity with the CPU engine", columns, list(parities(rows)))
    arrangements = ["again", "pairs", "together", "shuffled", "filled"]
    bits = [[row["model"], row["precision"], *(row.get(name) for name in arrangements)] for row in rows if row["what"] == "bits"]
    table("Texts of 64 whose bits differ from those alone", ["model", "precision", *arrangements], bits)
    for path in map(pathlib.Path, sys.argv[2:]):
        table(path.stem, ["kernel", "launches", "µs"], kernels(path))
    shown = ("latency", "memory", "many", "poison", "cancel", "service", "ceiling", "made", "exit")
    print("\nOther rows, and all with an error or a note\n")
    for row in rows:
        if row["what"] in shown or "error" in row or "note" in row:
            print("    " + " ".join(f"{name}={value}" for name, value in row.items() if name not in ("device", "load_s"))[:300])


main()
