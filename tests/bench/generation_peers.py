#!/usr/bin/env python3
"""Texts per second of a local generator beside llama.cpp's own server: the same GGUF, the same prompts, the same sampling.

    python3 tests/bench/generation_peers.py --isomer target/release/isomer --llama-server FILE

Starts `isomer serve`, whose generator `local` reads the GGUF itself and whose generators `llama-N` ask llama.cpp's server with N slots, and has
both transform the sentences of the built-in STS data set: greedily, one attempt, past all caches. 
In each case Isomer writes the prompt and cleans the answer, and at most N texts are in work at
once. Rounds are interleaved, each with sentences of its own: an engine that keeps whole prompts
would else be measured on prompts that it has read before. Before the first, each engine answers four texts that are not counted, so that models are
loaded and the beginnings of prompts are in memory where an engine keeps them.

Prints for each transformation and each engine the median texts/s of the rounds, tokens of prompts and answers as the engine counts them, answer tokens/s,
the ratio of ours to the best of llama.cpp (median of the rounds' ratios, with their range), and how many answers are the same text.
llama.cpp is built from source (the sources come with the Python package llama-cpp-python; CMake with -DGGML_NATIVE=ON, target llama-server).
Exit code 0: measured.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients/python/src"))
from isomer_client import Client, Sampling  # noqa: E402


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ready(url, process, seconds=300):
    begun = time.monotonic()
    while time.monotonic() - begun < seconds and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"{process.args[0]} did not get ready; it ended with {process.poll()}")


def llama(args, slots, log):
    """llama.cpp's server with a number of slots, and the flags that it got."""
    port = free_port()
    flags = ["--model", str(args.gguf), "--threads", str(args.threads), "--threads-batch", str(args.threads), "--parallel", str(slots),
             "--ctx-size", str(slots * args.context), "--cont-batching", "--no-webui", *args.llama_flag]
    process = subprocess.Popen([str(args.llama_server), "--host", "127.0.0.1", "--port", str(port), *flags], stdout=log, stderr=log)
    ready(f"http://127.0.0.1:{port}/health", process)
    return process, port, " ".join(flags[2:])


def once(client, engine, transformation, texts):
    begun = time.perf_counter()
    got = client.transform(texts, transformation, generator=engine, sampling=Sampling(temperature=0.0), max_attempts=1, guards="off",
                                     bypass_cache=True, on_failure="keep_original", timeout=3600)
    seconds = time.perf_counter() - begun
    usage = got.usage
    return {"seconds": seconds, "prompt": usage.tokens, "answer": usage.generated_tokens, "calls": usage.generator_calls,
            "texts": [result.text for result in got.results]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", type=pathlib.Path, required=True, help="the isomer binary (a release build)")
    parser.add_argument("--llama-server", type=pathlib.Path, required=True, help="llama.cpp's server")
    home = pathlib.Path(os.environ.get("ISOMER_HOME") or pathlib.Path.home() / ".cache/isomer")
    parser.add_argument("--gguf", type=pathlib.Path, help="the model (default: qwen2.5-coder-0.5b-instruct of the cache)",
                        default=home / "models/qwen2.5-coder-0.5b-instruct/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
    parser.add_argument("--transformations", default="paraphrase,style_change,summarisation", help="(default: %(default)s)")
    parser.add_argument("--texts", type=int, default=32, help="texts of each round, its own (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--slots", default="8,32", help="slots of llama.cpp's servers (default: %(default)s)")
    parser.add_argument("--context", type=int, default=2048, help="tokens of a slot (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--instructions", choices=["best", "avx2"], default="best", help="ours: embed.instructions (default: %(default)s)")
    parser.add_argument("--llama-flag", action="append", default=[], help="one more flag of llama.cpp's server, e.g. --llama-flag=--flash-attn=on")
    args = parser.parse_args()
    rows = [json.loads(line) for line in (ROOT / "crates/datasets/quick/sts/test.jsonl").read_text().splitlines()]
    sentences = list(dict.fromkeys(row[side] for row in rows for side in ("sentence1", "sentence2")))
    warm, rest = sentences[:4], sentences[4:]
    if len(rest) < args.texts * args.rounds:
        parser.error(f"there are {len(rest)} sentences for --texts x --rounds; give fewer")
    slots = [int(word) for word in args.slots.split(",")]
    processes = []
    with tempfile.TemporaryDirectory() as name, open(pathlib.Path(name) / "log", "w") as log:
        try:
            config = [f'[embed]\nthreads = {args.threads}\ninstructions = "{args.instructions}"\n[addresses]\nallow = ["127.0.0.1"]\n[transform]\n'
                      f'[transform.generators.local]\nkind = "local"\nmodel = "{args.gguf}"\nconcurrency = {max(slots)}\n']
            for count in slots:
                process, port, flags = llama(args, count, log)
                processes.append(process)
                print(f"llama-{count}: {flags}")
                config.append(f'[transform.generators.llama-{count}]\nmodel = "gguf"\nurl = "http://127.0.0.1:{port}/v1"\napi_key_env = ""\n'
                              f"concurrency = {count}\nmin_concurrency = {count}\ntimeout_seconds = 600.0\n")
            file, port = pathlib.Path(name) / "serve.toml", free_port()
            file.write_text("".join(config))
            process = subprocess.Popen([str(args.isomer), "serve", "--listen", f"127.0.0.1:{port}", "--config", str(file)], stdout=log, stderr=log)
            processes.append(process)
            ready(f"http://127.0.0.1:{port}/readyz", process)
            engines = ["local", *(f"llama-{count}" for count in slots)]
            with Client(f"127.0.0.1:{port}") as client:
                for transformation in args.transformations.split(","):
                    measured = {engine: [] for engine in engines}
                    for engine in engines:
                        once(client, engine, transformation, warm)
                    for number in range(args.rounds):
                        texts = rest[number * args.texts : (number + 1) * args.texts]
                        for engine in engines if number % 2 == 0 else reversed(engines):
                            measured[engine].append(once(client, engine, transformation, texts))
                    tell(transformation, measured, args.texts)
        except BaseException:
            log.flush()
            print((pathlib.Path(name) / "log").read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()
    return 0


def tell(transformation, measured, texts):
    ours = measured["local"]
    print(f"\n{transformation}, {texts} texts:")
    for engine, rounds in measured.items():
        seconds = statistics.median(one["seconds"] for one in rounds)
        prompt, answer, calls = (sum(one[what] for one in rounds) for what in ("prompt", "answer", "calls"))
        same = sum(a == b for one, own in zip(rounds, ours) for a, b in zip(one["texts"], own["texts"]))
        rate = statistics.median(one["answer"] / one["seconds"] for one in rounds)
        print(f"  {engine:10} {texts / seconds:6.2f} texts/s  {rate:7.1f} answer tokens/s  prompts {prompt}, answers {answer} tokens, {calls} calls, "
              f"{same} of {texts * len(rounds)} answers as ours")
    peers = [engine for engine in measured if engine != "local"]
    if not peers:
        return
    ratios = [min(measured[engine][number]["seconds"] for engine in peers) / ours[number]["seconds"] for number in range(len(ours))]
    print(f"  ours / best of llama.cpp: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
