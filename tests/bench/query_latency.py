#!/usr/bin/env python3
"""Wait of a query: beside a saturating backfill, and in each mode of augmentation.

Starts `isomer serve` with a stub in place of the language model (it answers after --generator-ms) and sends one query after the other:

1. plain queries on an idle server; beside a backfill that keeps --backfill requests of --batch long texts in flight, with the priority BATCH;
   and, as a control with a tenth of the queries, beside the same backfill with the priority INTERACTIVE, which queries have no precedence over.
   The three are interleaved in --rounds rounds, so that other load on the machine meets all of them.
2. plain queries and the modes `cached` (variants that are there, and variants that are not) and `cascade` with evidence that augments --share of
   the queries, interleaved likewise, on an idle server and beside the backfill. `cascade` states the share that was augmented.

Prints p50 and p99 of each row in milliseconds, what it adds to the plain row, the texts/s of the backfill, and the time of one bulk batch on the
idle server. Exit code 0: `cached` adds at most --most-cached-ms to the median of plain queries, and the backfill with the priority BATCH adds less
to the p99 of queries than the control does; else 1.
"""

import argparse
import asyncio
import http.server
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import grpc  # noqa: E402
import isomer_stubs  # noqa: E402

WORDS = "the committee of engineers describes a small river near old stone bridges where children play music in warm rain".split()
BATCH, INTERACTIVE = 2, 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", type=pathlib.Path, required=True, help="the isomer binary (a release build)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="encoder id or folder (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=200, help="queries of each row and round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--backfill", type=int, default=4, help="requests of the backfill in flight (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="texts of one request of the backfill (default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.2, help="share of queries that a cascade augments (default: %(default)s)")
    parser.add_argument("--generator-ms", type=float, default=200, help="time of the stub generator (default: %(default)s)")
    parser.add_argument("--most-cached-ms", type=float, default=1.0, help="most that `cached` may add (default: %(default)s)")
    args = parser.parse_args()
    with isomer_stubs.generated_stubs() as stubs:
        return asyncio.run(measure(args, stubs))


class Generator:
    """A language model that turns the order of the words."""

    def __init__(self, seconds):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                time.sleep(seconds)
                words = body["messages"][-1]["content"].split()
                text = "Indeed " + " ".join(reversed(words[-12:]))
                usage = {"prompt_tokens": 20, "completion_tokens": 15, "total_tokens": 35}
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
                answer = json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


class Server:
    def __init__(self, args, generator, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        config = pathlib.Path(folder) / "isomer.toml"
        config.write_text(
            f'[embed]\nallow_paths = true\nwarm_up = ["{args.model}"]\nmax_queued_tokens = 1000000\n\n'
            f'[database]\nurl = "{folder}/gateway.sqlite"\n\n'
            f'[transform]\ndefault_generator = "stub"\ncache_dir = "{folder}/texts"\n\n'
            f'[transform.generators.stub]\nmodel = "stub"\nurl = "{generator.url}"\n'
        )
        command = [str(args.isomer), "serve", "--config", str(config), "--listen", self.address, "--log", "error"]
        self.process = subprocess.Popen(command, env=os.environ.copy(), stdout=subprocess.DEVNULL)


def text(chance, words):
    return f"{chance.randrange(10**9)}: " + " ".join(chance.choices(WORDS, k=words))


class Backfill:
    """Bulk requests, with a constant number in flight."""

    def __init__(self, encode, args, priority):
        self.encode, self.args, self.priority = encode, args, priority
        self.texts, self.tasks = 0, []

    async def __aenter__(self):
        self.began = time.monotonic()
        self.tasks = [asyncio.create_task(self.work(seed)) for seed in range(self.args.backfill)]
        await asyncio.sleep(0.5)
        return self

    async def work(self, seed):
        chance = random.Random(time.monotonic_ns() + seed)
        while True:
            await self.encode([text(chance, 120) for _ in range(self.args.batch)], self.priority)
            self.texts += self.args.batch

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.rate = self.texts / (time.monotonic() - self.began)


class Rows:
    """Latencies by row, in milliseconds."""

    def __init__(self):
        self.rows = {}

    async def time(self, name, call):
        began = time.monotonic()
        answer = await call
        self.rows.setdefault(name, []).append((time.monotonic() - began) * 1e3)
        return answer

    def quantile(self, name, share):
        ordered = sorted(self.rows[name])
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    def show(self, name, beside):
        p50, p99 = self.quantile(name, 0.5), self.quantile(name, 0.99)
        added = f"{p50 - self.quantile(beside, 0.5):+8.2f} {p99 - self.quantile(beside, 0.99):+8.2f}"
        print(f"{name:48} {len(self.rows[name]):6} {p50:8.2f} {p99:8.2f}   {added}")


async def measure(args, stubs):
    encoder, services = stubs.message("isomer/encoder/v1/encoder"), stubs.grpc("isomer/encoder/v1/encoder")
    transform, augmenting = stubs.message("isomer/transform/v1/transform"), stubs.grpc("isomer/transform/v1/transform")
    folder = tempfile.TemporaryDirectory(prefix="isomer-queries-")
    server = Server(args, Generator(args.generator_ms / 1e3), folder.name)
    try:
        options = [("grpc.max_receive_message_length", -1)]
        async with (
            grpc.aio.insecure_channel(server.address, options=options) as channel,
            grpc.aio.insecure_channel(server.address, options=[*options, ("grpc.use_local_subchannel_pool", 1)]) as bulk,
        ):
            await asyncio.wait_for(channel.channel_ready(), 120)
            queries, filling = services.EncoderServiceStub(channel), services.EncoderServiceStub(bulk)
            augmentation = augmenting.AugmentationServiceStub(channel)

            def encode(stub):
                def call(texts, priority):
                    inputs = [encoder.Input(text=one) for one in texts]
                    return stub.Encode(encoder.EncodeRequest(encoder_id=args.model, inputs=inputs, priority=priority))

                return call

            def augmented(query, mode, **more):
                source = transform.VariantSource(transformation=transform.Transformation(paraphrase=transform.Paraphrase()))
                rule = transform.CascadeRule(min_gap=0.1) if mode == "CASCADE" else None
                spec = transform.AugmentationSpec(
                    sources=[source], mode=f"AUGMENTATION_MODE_{mode}", cascade=rule, make_missing=False, priority=INTERACTIVE
                )
                item = transform.TextItem(text=query, language="en")
                return augmentation.EncodeAugmented(
                    transform.EncodeAugmentedRequest(spec=spec, items=[item], encoder_id=args.model, **more)
                )

            plain, fill = encode(queries), encode(filling)
            chance, rows, rates = random.Random(11), Rows(), {}
            alone = time.monotonic()
            await fill([text(chance, 120) for _ in range(args.batch)], BATCH)
            alone = (time.monotonic() - alone) * 1e3
            idle, beside, control = "plain, idle", "plain, beside a backfill (BATCH)", "plain, beside a backfill (INTERACTIVE)"

            async def ask(name, count):
                for _ in range(count):
                    await rows.time(name, plain([text(chance, 6)], INTERACTIVE))

            for _ in range(args.rounds):
                await ask(idle, args.queries)
                for name, priority, count in [(beside, BATCH, args.queries), (control, INTERACTIVE, args.queries // 10)]:
                    async with Backfill(fill, args, priority) as work:
                        await ask(name, count)
                    rates.setdefault(name, []).append(work.rate)
            warm = [text(chance, 6) for _ in range(args.queries)]
            await asyncio.gather(*(augmented(query, "ALWAYS") for query in warm))
            counted = {"cascade": [0, 0]}

            async def modes(where):
                for query in warm:
                    gap = 0.05 if chance.random() < args.share else 0.5
                    evidence = [transform.SearchEvidence(scores=[0.9, 0.9 - gap])]
                    await rows.time(f"plain, {where}", plain([text(chance, 6)], INTERACTIVE))
                    await rows.time(f"cached, there, {where}", augmented(query, "CACHED"))
                    await rows.time(f"cached, missing, {where}", augmented(text(chance, 6), "CACHED"))
                    answer = await rows.time(f"cascade, {where}", augmented(query, "CASCADE", evidence=evidence))
                    counted["cascade"][0] += bool(answer.used[0].variants)
                    counted["cascade"][1] += 1

            for _ in range(args.rounds):
                await modes("idle server")
                async with Backfill(fill, args, BATCH):
                    await modes("beside a backfill")
    finally:
        server.process.terminate()
        server.process.wait()
        folder.cleanup()

    print(f"{args.model}; one request of the backfill has {args.batch} texts of about 125 tokens: {alone:.0f} ms alone, {args.backfill} in flight")
    print(f"{'row':48} {'n':>6} {'p50 ms':>8} {'p99 ms':>8}   {'+p50':>8} {'+p99':>8}")
    for name in [idle, beside, control]:
        rows.show(name, idle)
    for name, found in rates.items():
        print(f"texts/s of the backfill, {name}: {', '.join(f'{rate:.0f}' for rate in found)}")
    for where in ["idle server", "beside a backfill"]:
        for name in ["plain", "cached, there", "cached, missing", "cascade"]:
            rows.show(f"{name}, {where}", f"plain, {where}")
    share = counted["cascade"][0] / counted["cascade"][1]
    print(f"cascade: {share:.1%} of {counted['cascade'][1]} queries augmented (asked for {args.share:.1%}), their variants from the cache")
    added = {
        name: rows.quantile(f"{name}, idle server", 0.5) - rows.quantile("plain, idle server", 0.5)
        for name in ["cached, there", "cached, missing"]
    }
    fine = max(added.values()) <= args.most_cached_ms
    fine &= rows.quantile(beside, 0.99) < rows.quantile(control, 0.99)
    print("as promised" if fine else "NOT as promised")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
