#!/usr/bin/env python3
"""Measures a fleet on one machine. Times are of this machine with whatever else it does: the load is printed beside
each, and ratios come from interleaved pairs.

    generator   workers beside a stub generator that takes a fixed time for each call
    schedule    units without work: planned, published, answered and reconciled
    overhead    the quick suite by one worker beside one process
"""

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import parts
from parts import Process


def load():
    return f"[load {os.getloadavg()[0]:.1f}]"


def seconds_of(pid):
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class SlowGenerator:
    """A stub generator in a process of its own; it answers each call after a pause."""

    def __init__(self, pause):
        self.port = parts.free_port()
        self.pid = os.fork()
        if not self.pid:
            try:
                asyncio.run(self.serve(pause))
            finally:
                os._exit(1)
        parts.until("the generator", lambda: parts.answers(self.port))
        self.spec = f"openai:stub@http://127.0.0.1:{self.port}/v1"

    async def serve(self, pause):
        told = {"calls": 0, "first": None, "last": None, "in_flight": 0, "most": 0}

        async def connection(reader, writer):
            try:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                    if head.startswith("get"):
                        content = json.dumps(told).encode()
                    else:
                        length = int(head.split("content-length:")[1].split("\r\n")[0])
                        body = json.loads(await reader.readexactly(length))
                        told["calls"] += 1
                        told["in_flight"] += 1
                        told["most"] = max(told["most"], told["in_flight"])
                        told["first"] = told["first"] or time.monotonic()
                        await asyncio.sleep(pause)
                        content = parts.completion(body)
                        told["in_flight"] -= 1
                        told["last"] = time.monotonic()
                    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
                    writer.write(head.encode() + content)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        async with await asyncio.start_server(connection, "127.0.0.1", self.port, backlog=1024) as server:
            await server.serve_forever()

    def told(self):
        return json.load(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats"))

    def stop(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Nats:
    """One server."""

    def __init__(self, folder):
        self.port, self.store = parts.free_port(), folder / "nats"
        command = ["nats-server", "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.store)]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        parts.until("the NATS server", lambda: parts.answers(self.port))
        self.url = f"nats://127.0.0.1:{self.port}"

    def size(self):
        """Bytes on disk."""
        return sum(file.stat().st_blocks * 512 for file in self.store.rglob("*") if file.is_file())

    def stop(self):
        self.server.kill()
        self.server.wait()


def pairs_suite(folder, texts):
    folder.mkdir()
    rows = "".join(
        json.dumps(
            {
                "sentence1": f"The old heron number {i} did not sleep beside the wooden fence near the river.",
                "sentence2": f"Beside the harbour a young goose was resting near gate {i} all day long.",
                "score": i * 7 % 11 / 2,
            }
        )
        + "\n"
        for i in range(texts // 2)
    )
    (folder / "pairs.jsonl").write_text(rows)
    suite = folder / "suite.toml"
    suite.write_text(
        'name = "speed"\nseeds = [1337]\ntransformations = ["paraphrase"]\n\n'
        '[separation]\noff = true\n\n[[dataset]]\ntask = "sts"\npath = "pairs.jsonl"\n'
    )
    return suite


def generator(options, folder, pause, texts, workers, in_flight):
    """Calls per second of workers with a number of calls in flight each, and processor time per call."""
    suite = pairs_suite(folder, texts)
    nats, stub = Nats(folder), SlowGenerator(pause)
    started = []

    def start(name, command, more=None):
        settings = {
            "ISOMER_FLEET__ENGINE": nats.url,
            "ISOMER_STORE__URL": str(folder / "store"),
            "ISOMER_TRANSFORM__SPEC_DEFAULTS__CONCURRENCY": str(in_flight),
            "ISOMER_TRANSFORM__SPEC_DEFAULTS__MIN_CONCURRENCY": str(in_flight),
            "ISOMER_LOG": "info",
        }
        started.append(Process(name, [options.isomer, *command], folder, settings | (more or {})))
        return started[-1]

    try:
        # Twice as many texts as calls, so that a call begins when another ends.
        lanes = f"transform={max(1, 2 * in_flight // 32)}"
        team = [start(f"worker-{n}", ["worker", "--lanes", lanes]) for n in range(workers)]
        for worker in team:
            parts.until("a worker", lambda: "taking units of work" in worker.log.read_text(), 120)
        before = [seconds_of(worker.process.pid) for worker in team]
        check = ["check", "--suite", suite, "--model", "all-MiniLM-L6-v2", "--generator", stub.spec, "--quiet", "--out", folder / "report"]
        leader = start("check", check)

        def done():
            time.sleep(0.2)
            if leader.process.poll() is not None:
                raise SystemExit(f"the check ended: {leader.log.read_text()[-2000:]}")
            told = stub.told()
            return told["calls"] >= texts and not told["in_flight"]

        parts.until("every text", done, 1800)
        told, led = stub.told(), seconds_of(leader.process.pid)
        worked = sum(seconds_of(worker.process.pid) - at for worker, at in zip(team, before))
        queue, made = seconds_of(nats.server.pid), seconds_of(stub.pid)
        took, calls = told["last"] - told["first"], told["calls"]
        ideal = calls * pause / (workers * in_flight)
        kept = [file.stat().st_size for file in (folder / "store/texts").rglob("*") if file.is_file()]
        peak = Path(f"/proc/{leader.process.pid}/status").read_text().split("VmHWM:")[1].split()[0]
        print(
            f"generator of {pause} s: {workers} workers x {in_flight} in flight: {calls} calls for {texts} texts in {took:.1f} s "
            f"({calls / took:.0f}/s), ideal {ideal:.1f} s: {ideal / took:.3f}; most in flight {told['most']}; processor time a "
            f"call: workers {1000 * worked / calls:.2f} ms, leader {1000 * led / calls:.2f} ms, NATS {1000 * queue / calls:.2f} ms, "
            f"the stub {1000 * made / calls:.2f} ms; leader's peak memory {int(peak) // 1024} MiB; texts in the store: "
            f"{len(kept)} of {sum(kept) / len(kept):.0f} bytes {load()}",
            flush=True,
        )
    finally:
        for process in started:
            if process.process.poll() is None:
                process.kill()
        nats.stop()
        stub.stop()


def schedule(options, folder, units, workers, in_flight):
    """Units a second without work; memory of the leader and disk of the broker meanwhile."""
    folder.mkdir()
    nats, store = Nats(folder), folder / "store"
    store.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ISOMER_")}

    def start(*command):
        whole = [options.schedule, *map(str, command)]
        return subprocess.Popen(whole, stdout=subprocess.PIPE, text=True, env=environment)

    at_once = max(1, in_flight // workers)
    team = [start("work", nats.url, store, at_once) for _ in range(workers)]
    leader = start("lead", nats.url, store, units, in_flight)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    most, began, led_before = 0, time.monotonic(), before.ru_utime + before.ru_stime
    try:
        for line in leader.stdout:
            what, count, seconds, now, peak = line.split()
            most = max(most, nats.size())
            print(
                f"schedule: {what} {count} units in {seconds} s ({int(count) / max(float(seconds), 0.001):.0f}/s); leader's memory "
                f"{now} MiB, peak {peak}; broker's disk {nats.size() / 2**20:.1f} MiB, peak {most / 2**20:.1f} {load()}",
                flush=True,
            )
            if time.monotonic() - began > options.minutes * 60:
                print(f"schedule: ended after {options.minutes} minutes", flush=True)
                return
        if leader.wait():
            raise SystemExit("units were lost")
        spent = sum(seconds_of(worker.pid) for worker in team)
        led = resource.getrusage(resource.RUSAGE_CHILDREN)
        led = led.ru_utime + led.ru_stime - led_before
        print(
            f"schedule: processor time a unit, reconciled too: leader {1000 * led / units:.2f} ms, workers {1000 * spent / units:.2f} ms, "
            f"NATS {1000 * seconds_of(nats.server.pid) / units:.2f} ms {load()}"
        )
    finally:
        for process in [leader, *team]:
            process.kill()
        nats.stop()


def overhead(options, folder, pairs, suite, limit):
    """Seconds of the quick suite by one worker and in one process, in pairs, each from nothing."""
    folder.mkdir()
    ratios = []
    for pair in range(pairs):
        took = {}
        for engine in ("local", "nats") if pair % 2 else ("nats", "local"):
            place = folder / f"{engine}-{pair}"
            place.mkdir()
            nats, worker = None, None
            more = {"ISOMER_LOG": "info"}
            try:
                if engine == "nats":
                    nats = Nats(place)
                    more |= {"ISOMER_FLEET__ENGINE": nats.url, "ISOMER_STORE__URL": str(place / "store")}
                    worker = Process("worker", [options.isomer, "worker"], place, more)
                    parts.until("a worker", lambda: "taking units of work" in worker.log.read_text(), 120)
                command = ["check", "--suite", suite, "--generator", "local:smollm2-135m-instruct", "--quiet", "--undecided", "warn"]
                command += ["--format", "json", "--out", place / "report"] + (["--limit", limit] if limit else [])
                began = time.monotonic()
                check = Process("check", [options.isomer, *command], place, more)
                code = check.wait(3600)
                took[engine] = time.monotonic() - began
                if code not in (0, 1, 4):
                    raise SystemExit(f"{engine}: {check.log.read_text()[-2000:]}")
            finally:
                if worker:
                    worker.kill()
                if nats:
                    nats.stop()
        ratios.append(took["nats"] / took["local"])
        print(f"overhead: nats {took['nats']:.1f} s, local {took['local']:.1f} s: {ratios[-1]:.3f} {load()}", flush=True)
    print(f"overhead: median of {pairs} pairs {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the binary")
    parser.add_argument("--schedule", required=True, help="the example `schedule` of extras/fleet")
    parser.add_argument("--only", nargs="*", choices=["slow", "fast", "schedule", "overhead"], help="these measurements [default: all]")
    parser.add_argument("--units", type=int, default=1_000_000, help="units of `schedule`")
    parser.add_argument("--minutes", type=float, default=15, help="at most so many for `schedule`")
    parser.add_argument("--texts", type=int, default=10_240, help="texts of `slow` and `fast`")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of `overhead`")
    parser.add_argument("--suite", default="quick", help="suite of `overhead`")
    parser.add_argument("--limit", type=int, help="rows of each of its data sets")
    options = parser.parse_args()
    only = options.only or ["slow", "fast", "schedule", "overhead"]
    print(f"{os.cpu_count()} cores, {os.uname().machine}, {options.isomer}", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        if "slow" in only:
            generator(options, folder / "slow", 1.0, options.texts, 8, 64)
        if "fast" in only:
            generator(options, folder / "fast", 0.05, options.texts, 8, 64)
        if "schedule" in only:
            schedule(options, folder / "schedule", options.units, 2, 128)
        if "overhead" in only:
            overhead(options, folder / "overhead", options.pairs, options.suite, options.limit)


main()
