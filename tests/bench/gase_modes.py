#!/usr/bin/env python3
"""Latency and cost of GASE queries in each mode, on a running gateway, with your own queries. Needs nothing but Python.

    isomer serve --listen 127.0.0.1:50051 &
    python3 tests/bench/gase_modes.py --queries queries.txt --price 0.15 0.60

Sends one query after the other. Every mode that generates has queries of its own, so that no cache answers for it:

    plain             no variants
    always            waits for every variant
    budget            waits for --budget seconds
    cached, missing   no variant is cached, and none is made: the plain vector
    cached, there     the queries of `always` again
    cascade           the queries of `always` again; --share of them need their variants, the others keep their plain vectors

Prints p50 and p95 in milliseconds, calls, prompt tokens and generated tokens per query, and what a million queries cost. --price takes dollars per million prompt tokens and per
million generated tokens. --machine takes dollars per hour of a machine that answers one query at a time. Set ISOMER_API_KEY if the gateway wants keys.
"""

import argparse
import http.client
import json
import os
import random
import sys
import time

METHOD = "/isomer.transform.v1.AugmentationService/EncodeAugmented"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="127.0.0.1:50051", help="gateway (default: %(default)s)")
    parser.add_argument("--queries", required=True, help="one query a line, or JSON lines with `text`; at least 8")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="encoder (default: %(default)s)")
    parser.add_argument("--transformation", default="paraphrase", help="names, separated by commas (default: %(default)s)")
    parser.add_argument("--generator", default="", help="default: the gateway's")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds of the mode `budget` (default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.28, help="share of queries that `cascade` augments (default: %(default)s)")
    parser.add_argument("--price", type=float, nargs=2, metavar=("PROMPT", "GENERATED"), help="dollars per million tokens")
    parser.add_argument("--machine", type=float, help="dollars per hour of the machine")
    args = parser.parse_args()
    queries = read(args.queries)
    random.Random(7).shuffle(queries)
    part = len(queries) // 4
    if part < 2:
        sys.exit(f"{args.queries} has {len(queries)} queries; give at least 8")
    warm, hurried, cold, plain = (queries[i * part : (i + 1) * part] for i in range(4))
    gateway = Gateway(args)
    # Loads the models.
    gateway.ask("a first query", "ALWAYS")
    needed = round(args.share * len(warm))
    rows = [
        ("plain", [gateway.ask(query, "ALWAYS", k=0) for query in plain]),
        ("always", [gateway.ask(query, "ALWAYS") for query in warm]),
        (f"budget {args.budget} s", [gateway.ask(query, "BUDGET", generationBudget=f"{args.budget}s") for query in hurried]),
        ("cached, missing", [gateway.ask(query, "CACHED") for query in cold]),
        ("cached, there", [gateway.ask(query, "CACHED") for query in warm]),
        ("cascade", [gateway.cascade(query, place < needed) for place, query in enumerate(warm)]),
    ]
    print(f"{args.model}, {args.transformation}, {part} queries each")
    print(f"{'mode':18} {'p50 ms':>8} {'p95 ms':>8} {'with variants':>14} {'calls':>6} {'prompt':>7} {'made':>6}  $ per million queries")
    encoded = sum(int(usage.get("tokens", 0)) for _, _, usage in rows[0][1]) / part
    for name, answers in rows:
        show(args, name, answers, encoded)


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    return list(dict.fromkeys(json.loads(line)["text"] if line.startswith("{") else line for line in lines))


class Gateway:
    def __init__(self, args):
        self.args = args
        self.connection = http.client.HTTPConnection(args.server, timeout=600)
        self.headers = {"content-type": "application/json"}
        if "ISOMER_API_KEY" in os.environ:
            self.headers["authorization"] = f"Bearer {os.environ['ISOMER_API_KEY']}"

    def cascade(self, query, needs_help):
        scores = [0.9, 0.88 if needs_help else 0.5]
        return self.ask(query, "CASCADE", cascade={"minGap": 0.05}, evidence=[{"scores": scores}])

    def ask(self, query, mode, evidence=None, **spec):
        """Seconds, whether variants were pooled, and the usage of a query."""
        source = {"generatorId": self.args.generator}
        names = self.args.transformation.split(",")
        sources = [source | {"transformation": {"name": name}} for name in names]
        body = {
            "spec": {"sources": sources, "mode": f"AUGMENTATION_MODE_{mode}", "makeMissing": False, "priority": "PRIORITY_INTERACTIVE"} | spec,
            "items": [{"text": query}],
            "encoderId": self.args.model,
            "evidence": evidence or [],
        }
        began = time.monotonic()
        self.connection.request("POST", METHOD, json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        content = json.loads(answer.read())
        seconds = time.monotonic() - began
        if answer.status != 200:
            sys.exit(f"{mode}: {content.get('message', content)}")
        return seconds, bool(content["used"][0].get("variants")), content.get("usage", {})


def show(args, name, answers, encoded):
    """Prints a row. `encoded`: tokens of a query that only the encoder reads, which are not paid to a generator."""
    seconds = sorted(seconds for seconds, _, _ in answers)
    at = lambda share: seconds[min(int(len(seconds) * share), len(seconds) - 1)] * 1e3
    count = lambda usage, key: int(usage.get(key, 0))
    mean = lambda values: sum(values) / len(answers)
    usages = [usage for _, _, usage in answers]
    calls = mean(count(usage, "generatorCalls") for usage in usages)
    made = mean(count(usage, "generatedTokens") for usage in usages)
    prompt = mean(max(count(usage, "tokens") - encoded, 0) for usage in usages if count(usage, "generatorCalls"))
    cost = []
    if args.price:
        cost.append(f"{prompt * args.price[0] + made * args.price[1]:.2f} for tokens")
    if args.machine is not None:
        cost.append(f"{mean(seconds) / 3600 * args.machine * 1e6:.2f} for the machine")
    pooled = f"{sum(variants for _, variants, _ in answers)} of {len(answers)}"
    print(f"{name:18} {at(0.5):8.1f} {at(0.95):8.1f} {pooled:>14} {calls:6.2f} {prompt:7.1f} {made:6.1f}  {', '.join(cost)}")


if __name__ == "__main__":
    main()
