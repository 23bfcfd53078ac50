#!/usr/bin/env python3
"""Faults under load: 64 clients call a gateway in front of two replicas while one of them hangs, is slow or returns errors, while the gateway
is restarted, and while a replica is killed.

    pip install -r tests/python/requirements.txt
    python tests/bench/gateway_faults.py --isomer target/release/isomer --seconds 60

Replica `one` is an `isomer serve`. Replica `two` is another one behind a proxy in this script that forwards calls, waits two
seconds first, or answers every fifth call with INTERNAL. For the restart a second gateway is started on the same port (`server.reuse_port`), and
then the first one is asked to stop. Every answer is compared bit for bit with the vectors of a server without a gateway.
Prints one line per fault: requests, failures by code, wrong vectors, requests per second, median and 99th percentile in milliseconds.
Exits with 1 if a vector was wrong, or if a client saw a failure in any case but that of errors.
"""

import argparse
import asyncio
import collections
import pathlib
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import grpc
from isomer_stubs import generated_stubs
from server import serve

MODEL = "paraphrase-MiniLM-L3-v2"
LIMIT = 256 << 20


class Proxy:
    """Forwards calls to a server, as `mode` says. Other rpcs are UNIMPLEMENTED, health included: a provider need not serve it."""

    def __init__(self, stubs, upstream):
        self.mode, self.calls = "pass", 0
        self.channel = grpc.aio.insecure_channel(upstream, options=[("grpc.max_receive_message_length", LIMIT)])
        self.stub = stubs.EncoderServiceStub(self.channel)

    async def _before(self, context):
        self.calls += 1
        if self.mode == "slow":
            await asyncio.sleep(2)
        if self.mode == "errors" and self.calls % 5 == 0:
            await context.abort(grpc.StatusCode.INTERNAL, "every fifth call fails")

    async def Encode(self, request, context):
        await self._before(context)
        return await self.stub.Encode(request)

    async def GetEncoder(self, request, context):
        return await self.stub.GetEncoder(request)

    async def ListEncoders(self, request, context):
        return await self.stub.ListEncoders(request)


async def load(stub, pb, texts, expected, clients, seconds):
    """Results that `clients` see within `seconds`."""
    failures, times, wrong = collections.Counter(), [], 0
    end = time.monotonic() + seconds

    async def one(seed):
        nonlocal wrong
        draw = random.Random(seed)
        while time.monotonic() < end:
            chosen = draw.sample(range(len(texts)), draw.randint(1, 4))
            request = pb.EncodeRequest(encoder_id="shared", inputs=[pb.Input(text=texts[k]) for k in chosen])
            begun = time.monotonic()
            try:
                answer = await stub.Encode(request, timeout=30)
            except grpc.aio.AioRpcError as error:
                failures[error.code().name] += 1
                continue
            times.append(time.monotonic() - begun)
            if answer.embeddings.data != b"".join(expected[k] for k in chosen):
                wrong += 1

    await asyncio.gather(*(one(seed) for seed in range(clients)))
    return failures, sorted(times), wrong


def shown(name, outcome, seconds):
    failures, times, wrong = outcome
    at = lambda share: times[min(len(times) - 1, int(share * len(times)))] * 1e3 if times else float("nan")
    failed = ", ".join(f"{code} {count}" for code, count in sorted(failures.items())) or "none"
    print(f"| {name} | {len(times) + sum(failures.values())} | {failed} | {wrong} | {len(times) / seconds:.0f} | {at(0.5):.1f} | {at(0.99):.1f} |", flush=True)


async def run(args):
    with generated_stubs() as made:
        name = "isomer/encoder/v1/encoder"
        return await measure(args, made.message(name), made.grpc(name))


async def measure(args, pb, stubs):
    home = pathlib.Path(tempfile.mkdtemp())
    (home / "models").symlink_to(pathlib.Path(args.models).expanduser())
    texts = [f"Sentence {k} says{' something again' * (k % 5)}." for k in range(400)]
    processes = []
    try:
        one, one_at = serve(args.isomer, home, ["--model", MODEL])
        processes.append(one)
        two, two_at = serve(args.isomer, home, ["--model", MODEL])
        processes.append(two)
        direct = stubs.EncoderServiceStub(grpc.aio.insecure_channel(two_at))
        answer = await direct.Encode(pb.EncodeRequest(encoder_id=MODEL, inputs=[pb.Input(text=t) for t in texts]))
        row = answer.embeddings.cols * 4
        expected = [answer.embeddings.data[k * row : (k + 1) * row] for k in range(len(texts))]

        proxy = type("Provider", (Proxy, stubs.EncoderServiceServicer), {})(stubs, two_at)
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", LIMIT)])
        stubs.add_EncoderServiceServicer_to_server(proxy, server)
        proxy_at = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()

        table = "".join(
            f'[[provider]]\nid = "{name}"\nkind = "isomer"\naddress = "grpc://{at}"\nencoders = {{ shared = "{MODEL}" }}\n'
            for name, at in [("one", one_at), ("two", proxy_at)]
        )
        (home / "providers.toml").write_text(table)
        (home / "gateway.toml").write_text(
            f'[server]\nreuse_port = true\n[addresses]\nallow = ["127.0.0.1"]\n[providers]\nfile = "{home}/providers.toml"\n[routing]\ncache_bytes = 0\n{args.routing}\n'
        )
        gateway, gateway_at = serve(args.isomer, home, ["--config", str(home / "gateway.toml")])
        processes.append(gateway)
        stub = stubs.EncoderServiceStub(grpc.aio.insecure_channel(gateway_at))
        bad = False
        print("| fault | requests | failures | wrong vectors | requests/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|")

        async def fault(name, begin, must_hold=True):
            nonlocal bad
            work = asyncio.create_task(load(stub, pb, texts, expected, args.clients, args.seconds))
            await asyncio.sleep(args.seconds / 4)
            begin()
            outcome = await work
            shown(name, outcome, args.seconds)
            bad |= outcome[2] > 0 or (must_hold and sum(outcome[0].values()) > 0)
            proxy.mode = "pass"
            one.send_signal(signal.SIGCONT)
            await asyncio.sleep(3)

        await fault("none", lambda: None)
        await fault("one hangs (SIGSTOP)", lambda: one.send_signal(signal.SIGSTOP))
        await fault("two answers two seconds late", lambda: setattr(proxy, "mode", "slow"))
        await fault("two errs in 20 %", lambda: setattr(proxy, "mode", "errors"), must_hold=False)

        async def restart():
            settings = ["--config", str(home / "gateway.toml")]
            after, _ = await asyncio.to_thread(serve, args.isomer, home, settings, gateway_at)
            processes.append(after)
            gateway.terminate()

        restarts = []
        await fault("the gateway is restarted", lambda: restarts.append(asyncio.create_task(restart())))
        await restarts[0]
        await fault("one is killed (SIGKILL)", lambda: one.kill())
        return 1 if bad else 0
    finally:
        for process in processes:
            process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", default="isomer")
    parser.add_argument("--models", default="~/.cache/isomer/models", help="folder with the model")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--routing", default="", help="lines for the section routing of the gateway's configuration")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
