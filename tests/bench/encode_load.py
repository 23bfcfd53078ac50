#!/usr/bin/env python3
"""Many concurrent clients of `isomer serve`: latency, memory, refusals, cancellations, and a server that is killed.

Phase 1, --seconds long: --clients clients send requests of mixed size (1 to 16 texts of mixed length) one after the other; one request
in twenty is cancelled half way. Every answer is compared bit for bit with the vectors that the same texts got alone beforehand.
After RESOURCE_EXHAUSTED the client waits as long as the server says; any other error counts as a failure.
Phase 2: the same clients, retrying, while the server is killed with SIGKILL and started again on its port; each request must end
with the right vectors.

Prints requests/s, texts/s, median and p99 latency, refusals, failures, wrong vectors, and the server's resident memory over the last
two thirds of phase 1. Exit code 0: no failure, no wrong vector, memory grew by less than 5 % over the last two thirds; else 1.
"""

import argparse
import asyncio
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import grpc  # noqa: E402
import isomer_stubs  # noqa: E402

WORDS = "the committee of engineers describes a small river near old stone bridges where children play music in warm rain".split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", type=pathlib.Path, required=True, help="the isomer binary (a release build)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="encoder id or folder (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=64, help="concurrent clients (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="length of phase 1 (default: %(default)s)")
    parser.add_argument("--queue-tokens", type=int, default=8192, help="the server's bound on waiting tokens (default: %(default)s)")
    args = parser.parse_args()
    with isomer_stubs.generated_stubs() as stubs:
        return asyncio.run(load(args, stubs))


class Server:
    """`isomer serve` on a fixed port."""

    def __init__(self, args):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.args = args
        self.start()

    def start(self):
        command = [str(self.args.isomer), "serve", "--listen", self.address, "--log", "error"]
        settings = {
            "ISOMER_EMBED__ALLOW_PATHS": "true",
            "ISOMER_EMBED__MAX_QUEUED_TOKENS": str(self.args.queue_tokens),
            "ISOMER_EMBED__WARM_UP": f'["{self.args.model}"]',
        }
        self.process = subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.DEVNULL)

    def resident_mib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Tally:
    def __init__(self):
        self.latencies, self.texts = [], 0
        self.refused = self.cancelled = self.wrong = self.retried = 0
        self.failures = {}


def make_texts(count):
    chance = random.Random(7)
    lengths = [3, 8, 12, 20, 60, 200]
    return [f"{number}: " + " ".join(chance.choices(WORDS, k=chance.choice(lengths))) for number in range(count)]


async def load(args, stubs):
    messages, services = stubs.message("isomer/encoder/v1/encoder"), stubs.grpc("isomer/encoder/v1/encoder")
    texts = make_texts(256)
    server = Server(args)
    try:
        options = [("grpc.max_receive_message_length", -1), ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
        async with grpc.aio.insecure_channel(server.address, options=options) as channel:
            await asyncio.wait_for(channel.channel_ready(), 120)
            stub = services.EncoderServiceStub(channel)

            def request(numbers):
                inputs = [messages.Input(text=texts[number]) for number in numbers]
                return messages.EncodeRequest(encoder_id=args.model, inputs=inputs)

            expected = []
            for number in range(len(texts)):
                answer = await stub.Encode(request([number]))
                expected.append(bytes(answer.embeddings.data))

            steady = Tally()
            memory = []
            ends = time.monotonic() + args.seconds
            clients = [client(stub, request, expected, steady, lambda: time.monotonic() < ends, seed, True) for seed in range(args.clients)]
            watching = asyncio.create_task(watch(server, memory))
            await asyncio.gather(*clients)
            watching.cancel()

            restarted = Tally()
            rounds = [10] * args.clients
            going = [iter(range(count)) for count in rounds]
            clients = [
                client(stub, request, expected, restarted, lambda own=own: next(own, None) is not None, 1000 + seed, False)
                for seed, own in enumerate(going)
            ]
            work = asyncio.gather(*clients)
            await asyncio.sleep(1)
            killed_while_working = not work.done()
            server.kill()
            await asyncio.sleep(1)
            server.start()
            await work
    finally:
        server.kill()

    tail = [value for at, value in memory if at > args.seconds / 3]
    growth = (max(tail[-5:]) / min(tail[:5]) - 1) if len(tail) >= 10 else float("nan")
    ordered = sorted(steady.latencies)
    print(f"{args.clients} clients, {args.seconds:g} s, {args.model}, bound {args.queue_tokens} waiting tokens")
    print(f"requests/s {len(ordered) / args.seconds:.1f}, texts/s {steady.texts / args.seconds:.1f}")
    print(f"latency: median {statistics.median(ordered) * 1e3:.0f} ms, p99 {ordered[int(len(ordered) * 0.99)] * 1e3:.0f} ms (refused attempts included)")
    print(f"refused with RESOURCE_EXHAUSTED and tried again {steady.refused}, cancelled by the client {steady.cancelled}")
    print(f"failures {steady.failures or 0}, wrong vectors {steady.wrong}")
    print(f"resident memory over the last two thirds: {min(tail):.0f} to {max(tail):.0f} MiB, growth {growth:+.1%}")
    print(f"killed and started again{'' if killed_while_working else ' (TOO LATE: the work was done)'}: {len(restarted.latencies)} requests answered, "
          f"{restarted.retried} attempts repeated, failures {restarted.failures or 0}, wrong vectors {restarted.wrong}")
    lost = sum(rounds) - len(restarted.latencies)
    fine = not (steady.failures or steady.wrong or restarted.failures or restarted.wrong or lost) and killed_while_working and growth < 0.05
    return 0 if fine else 1


async def watch(server, memory):
    started = time.monotonic()
    while True:
        memory.append((time.monotonic() - started, server.resident_mib()))
        await asyncio.sleep(0.5)


async def client(stub, request, expected, tally, more, seed, may_cancel):
    chance = random.Random(seed)
    while more():
        numbers = chance.sample(range(len(expected)), chance.choice([1, 1, 2, 4, 8, 16]))
        started = time.monotonic()
        tries = 0
        while True:
            call = stub.Encode(request(numbers), timeout=60)
            if may_cancel and chance.random() < 0.05:
                await asyncio.sleep(chance.uniform(0.001, 0.05))
                call.cancel()
                tally.cancelled += 1
                break
            try:
                answer = await call
            except grpc.aio.AioRpcError as error:
                tries += 1
                if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                    tally.refused += 1
                elif not may_cancel and error.code() == grpc.StatusCode.UNAVAILABLE and tries < 300:
                    tally.retried += 1
                else:
                    tally.failures[error.code().name] = tally.failures.get(error.code().name, 0) + 1
                    break
                await asyncio.sleep(chance.uniform(0.1, 0.4))
                continue
            width = len(expected[0])
            data = bytes(answer.embeddings.data)
            if [data[i * width : (i + 1) * width] for i in range(len(numbers))] != [expected[number] for number in numbers]:
                tally.wrong += 1
            tally.latencies.append(time.monotonic() - started)
            tally.texts += len(numbers)
            break


if __name__ == "__main__":
    sys.exit(main())
