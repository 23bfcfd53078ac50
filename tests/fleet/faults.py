#!/usr/bin/env python3
"""Tries faults on a check over workers and prints a row for each.

    calls      calls of the generator, and in brackets those beyond the minimum
    lost       units without an answer at the end (a completed run has none)
    goes on    seconds from the fault until the next call of the generator
    report     whether it equals that of one process, except for the fields of tests/tests/fleet/varies.txt
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import parts
from parts import Generator, Nats, Process, S3, Way

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS, SETS = 6, ["fence", "harbour", "garden", "bridge", "market", "station"]
PAUSE = 0.3


def suite(folder):
    """Data sets of our own, a sequential gate, a judge."""
    text = 'name = "faults"\nseeds = [1337, 7]\ntransformations = ["paraphrase"]\nattempts = 2\n\n'
    text += '[gate]\nsequential = "obrien-fleming"\n\n[[gate.rule]]\nmax_drop = 60\nbasis = "signed-rank"\n'
    animals = ["cat", "dog", "horse", "sheep", "goose", "heron"]
    for place in SETS:
        (folder / place).mkdir()
        rows = [
            {
                "sentence1": f"The old {animals[i]} number {i} did not sleep beside the wooden {place}.",
                "sentence2": f"Beside the {place} a young {animals[i]} was resting near gate {i} all day.",
                "score": i * 7 % 11 / 2,
            }
            for i in range(PAIRS)
        ]
        (folder / place / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        text += f'\n[[dataset]]\ntask = "sts"\npath = "{place}"\nname = "{place}"\n'
    (folder / "suite.toml").write_text(text)
    return folder / "suite.toml"


def leaves(value, path=""):
    """Every value of a report by its path."""
    parts_of = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts_of is None:
        return {path: value}
    return {name: leaf for key, part in parts_of for name, leaf in leaves(part, f"{path}.{key}").items()}


def differing(one, other):
    """Paths at which two reports differ."""
    one, other = leaves(one), leaves(other)
    return sorted(path[1:] for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def without_what_varies(report, after_fault):
    for line in (ROOT / "tests/tests/fleet/varies.txt").read_text().splitlines():
        path = line.removeprefix("fault ")
        if line.startswith("#") or (path != line and not after_fault):
            continue
        *parents, last = path.split(".")
        at = report
        for name in parents:
            at = at[name]
        del at[last]
    return report


class Fleet:
    """The setting of a fault: a queue of three servers, a store, a generator."""

    def __init__(self, isomer, folder, varied=False, store=None):
        self.isomer, self.folder = isomer, folder
        folder.mkdir()
        self.suite = suite(folder)
        self.generator = Generator(PAUSE, varied)
        self.nats, self.s3 = Nats(folder), S3(folder)
        self.way_to_s3 = Way(self.s3.port)
        self.store = store or "s3://isomer/checks"
        self.started = []

    def settings(self, engine=None, endpoint=None):
        more = {
            "ISOMER_FLEET__ENGINE": engine or self.nats.url(),
            "ISOMER_FLEET__REPLICAS": "3",
            "ISOMER_FLEET__LEASE_SECONDS": "3",
            "ISOMER_FLEET__REPUBLISH_SECONDS": "1",
            "ISOMER_FLEET__WORKER_WAIT_SECONDS": "90",
            "ISOMER_STORE__URL": self.store,
        }
        if self.store.startswith("s3:"):
            more["ISOMER_STORE__ENDPOINT"] = f"http://127.0.0.1:{endpoint or self.way_to_s3.port}"
        return more

    def start(self, name, command, more, before=()):
        process = Process(name, [self.isomer, *command], self.folder, more, before)
        self.started.append(process)
        return process

    def check(self, name, more=None):
        spec = self.generator.spec
        command = ["check", "--suite", self.suite, "--generator", spec, "--judge", spec, "--undecided", "warn", "--format", "json"]
        command += ["--quiet", "--out", self.folder / f"report-{name}"]
        for encoder in parts.ENCODERS:
            command += ["--model", encoder]
        return self.start(f"check-{name}", command, self.settings() if more is None else more)

    def worker(self, name, before=(), threads=None, **ways):
        more = self.settings(**ways) | {"ISOMER_LOG": "info"}
        if threads:
            more["ISOMER_EMBED__THREADS"] = str(threads)
        worker = self.start(f"worker-{name}", ["worker", "--lanes", "transform=1,encode=1,judge=1"], more, before)
        parts.until("a worker", lambda: "taking units of work" in worker.log.read_text())
        return worker

    def report(self, check):
        code = check.wait()
        if code not in (0, 1):
            raise SystemExit(f"{check.folder.name} ended with {code}: {check.log.read_text()[-2000:]}")
        return json.loads(check.out.read_text())

    def stop(self):
        for process in self.started:
            if process.process.poll() is None:
                process.kill()
        self.nats.kill([n for n, server in enumerate(self.nats.servers) if server.poll() is None])
        self.s3.stop()


def nothing(fleet, workers):
    return None


def worker_killed(fleet, workers):
    workers[0].kill()


def hang(fleet, workers):
    workers[0].signal("SIGSTOP")
    time.sleep(6)
    workers[0].signal("SIGCONT")


def broker_leader_killed(fleet, workers):
    leader = fleet.nats.leader("isomer-work")
    fleet.nats.kill([leader])
    time.sleep(10)
    fleet.nats.start([leader])


def broker_wiped(fleet, workers):
    fleet.nats.wipe()


def cut(seconds, way):
    way.is_cut = True
    time.sleep(seconds)
    way.is_cut = False


def worker_cut_from_broker(fleet, workers):
    for way in fleet.ways:
        way.is_cut = True
    time.sleep(30)
    for way in fleet.ways:
        way.is_cut = False


def store_cut(fleet, workers):
    cut(30, fleet.way_to_s3)


def store_503(fleet, workers):
    fleet.way_to_s3.fails = True
    time.sleep(20)
    fleet.way_to_s3.fails = False


def leader_killed(fleet, workers):
    fleet.leader.kill()
    fleet.leader = fleet.check("again")


def all_workers_killed(fleet, workers):
    for worker in workers:
        worker.kill()
    time.sleep(2)
    workers[:] = [fleet.worker(f"new-{number}") for number in range(2)]


def gc(fleet, workers):
    """Sweeps for as long as the check goes on; what it relies on stays."""
    swept = 0
    while fleet.leader.process.poll() is None:
        command = ["store", "gc", "--delete", "--older-than", "0s", "--settle", "0s", "--quiet", "--format", "json"]
        sweep = fleet.start(f"gc-{swept}", command, fleet.settings())
        if sweep.wait() != 0:
            raise SystemExit(f"isomer store gc failed: {sweep.log.read_text()[-2000:]}")
        removed = json.loads(sweep.out.read_text())["removed"]
        if removed:
            raise SystemExit(f"isomer store gc removed what a run relies on: {removed}")
        swept += 1
    if swept < 3:
        raise SystemExit(f"only {swept} sweeps while the check went on")


FAULTS = {
    "none": nothing,
    "five-workers": nothing,
    "threads": nothing,
    "clocks": nothing,
    "worker-killed": worker_killed,
    "all-workers-killed": all_workers_killed,
    "hang": hang,
    "broker-leader-killed": broker_leader_killed,
    "broker-wiped": broker_wiped,
    "worker-cut": worker_cut_from_broker,
    "store-cut": store_cut,
    "store-503": store_503,
    "leader-killed": leader_killed,
    "gc": gc,
}


def workers_of(fleet, name):
    """The workers that a fault affects."""
    if name == "five-workers":
        return [fleet.worker(str(number)) for number in range(5)]
    if name == "threads":
        return [fleet.worker(str(number), threads=number + 1) for number in range(2)]
    if name == "clocks":
        if not shutil.which("faketime"):
            return None
        return [fleet.worker("late", ["faketime", "-f", "-1h"]), fleet.worker("early", ["faketime", "-f", "+1h"])]
    if name == "worker-cut":
        fleet.ways = [Way(port) for port in fleet.nats.ports]
        through = fleet.nats.url([way.port for way in fleet.ways])
        return [fleet.worker("cut", engine=through), fleet.worker("whole")]
    return [fleet.worker(str(number)) for number in range(2)]


def tried(isomer, name, folder):
    """One row: the fault's name, calls beyond the minimum, seconds until it goes on, whether the report is the same."""
    fleet = Fleet(isomer, folder)
    try:
        alone = fleet.report(fleet.check("alone", {}))
        least = fleet.generator.calls
        workers = workers_of(fleet, name)
        if workers is None:
            return f"{name:22} skipped: no faketime (apt-get install faketime)", True
        begun = time.monotonic()
        fleet.leader = fleet.check("fleet")
        fleet.generator.wait(least + 24)
        in_flight, before, fault = fleet.generator.in_flight, fleet.generator.calls, time.monotonic()
        FAULTS[name](fleet, workers)
        goes_on = "-"
        if FAULTS[name] not in (nothing, gc):
            fleet.generator.wait(before + in_flight + 1)
            goes_on = f"{time.monotonic() - fault:.1f}"
        report = fleet.report(fleet.leader)
        calls = fleet.generator.calls - least
        # A restarted leader tries the judge again, and also counts the answers to its predecessor.
        again = 1 if name == "leader-killed" else 0
        if again:
            same = report["profile"] == alone["profile"] and report["gate"] == alone["gate"]
        else:
            after_fault = FAULTS[name] is not nothing
            alone, report = (without_what_varies(one, after_fault) for one in (alone, report))
            same = report == alone
        extra = calls - least - again
        differs = [] if same else differing(alone, report)
        row = f"{name:22} {calls:5} ({extra:+3}) of {least:5}   in flight {in_flight:3}   lost 0   goes on {goes_on:>5} s"
        row += f"   {time.monotonic() - begun:5.1f} s   report {'the same' if same else 'DIFFERS: ' + ', '.join(differs[:8])}"
        return row, same and 0 <= extra <= max(in_flight, 0) + (64 if "wiped" in name or "cut" in name or name == "hang" else 0)
    finally:
        fleet.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the binary")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="of: " + ", ".join(FAULTS))
    options = parser.parse_args()
    unknown = [name for name in options.faults if name not in FAULTS]
    if unknown:
        parser.error(f"no fault {unknown[0]}; there are {', '.join(FAULTS)}")
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.faults or FAULTS:
            row, good = tried(options.isomer, name, Path(folder) / name)
            print(row, flush=True)
            bad += [] if good else [name]
    if bad:
        sys.exit(f"failed: {', '.join(bad)}")
    print("all checks pass")


main()
