#!/usr/bin/env python3
"""Tries faults on a check over workers and prints a row for each.

    units      pieces of work that the run asked for
    repeated   executions beyond one for each unit, as counted by the store that workers read requests from
    calls      calls of the generator, and in brackets those beyond the minimum
    lost       units without an answer at the end
    goes on    seconds from the fault until the next call of the generator, or until another replica leads
    report     whether it equals that of one process, except for the fields that the schema of reports lists
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import parts
import served
from fleet import Fleet, compared
from parts import Disk, Host


@dataclass
class Fault:
    """Fault during a check."""

    act: Callable
    workers: Callable = lambda fleet: [fleet.worker(str(number)) for number in range(2)]
    # Settings of the fleet, and of the process that leads the check.
    fleet: dict = field(default_factory=dict)
    leader: Callable = lambda fleet: {}
    # Calls of the generator that may be made again, beyond those in flight.
    repeats: int = 0
    # Check of the state afterwards.
    after: Callable = lambda fleet, report: None
    needs_root: bool = False


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


def cut_from(ports):
    return lambda fleet, workers: fleet.host.cut(ports(fleet), 30)


def on_hosts(fleet):
    fleet.host = Host()
    return [fleet.worker("cut", fleet.host.inside), fleet.worker("whole", Host().inside)]


def store_cut(fleet, workers):
    fleet.way_to_s3.is_cut = True
    time.sleep(30)
    fleet.way_to_s3.is_cut = False


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
    """Sweeps for as long as the check runs; entries that it relies on stay."""
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


# Disks that are full.


def worker_on_a_small_disk(fleet):
    fleet.full = fleet.disk("worker-small", 16)
    return [fleet.worker("small"), fleet.worker("whole")]


def disk_of_worker_full(fleet, workers):
    fleet.full.fill()


def store_on_a_small_disk(fleet):
    fleet.full = fleet.disk("small", 64)
    fleet.store = str(fleet.full.folder / "store")
    return [fleet.worker(str(number)) for number in range(2)]


def disk_of_store_full(fleet, workers):
    """The check ends with an error that names the store, or waits; with space it succeeds."""
    fleet.full.fill()
    began = time.monotonic()
    while fleet.leader.process.poll() is None and time.monotonic() - began < 60:
        time.sleep(0.1)
    code, said = fleet.leader.process.poll(), fleet.leader.log.read_text()
    fleet.full.free()
    if code is None:
        fleet.notes.append("the check waited")
        return
    if code in (0, 1) or "the store" not in said or "No space left on device" not in said:
        raise SystemExit(f"a check whose store is full ended with {code}: {said[-2000:]}")
    fleet.notes.append(f"the check ended after {time.monotonic() - began:.0f} s with an error that names the store")
    fleet.leader = fleet.check("again")


def disk_of_broker_full(fleet, workers):
    for disk in fleet.disks:
        disk.fill()
    time.sleep(15)
    for disk in fleet.disks:
        disk.free()
    stopped = [number for number, server in enumerate(fleet.nats.servers) if server.poll() is not None]
    log = "".join((fleet.folder / f"nats-{number}.log").read_text() for number in range(3))
    disabled = log.count("JetStream Shutdown") or log.count("JetStream disabled") or log.count("no space left")
    fleet.notes.append(f"servers that ended: {len(stopped)}; the servers log a full disk {disabled} times")
    # A server that ran out of space does not use JetStream again before it is restarted.
    fleet.nats.kill([number for number in range(3) if number not in stopped])
    fleet.nats.start(range(3))


# Clocks.


def clock(who, hours):
    skewed = parts.at_another_hour(hours)

    def workers(fleet):
        more = skewed if who == "worker" else others
        return [fleet.worker("skewed", more=more), fleet.worker("whole", more=others)]

    # NATS servers read the clock without libc. The broker is ahead if all others are behind.
    others = parts.at_another_hour(-hours) if who == "broker" else {}
    leader = skewed if who == "leader" else others
    return Fault(nothing, workers, {"s3": others}, lambda fleet: {"more": fleet.settings() | leader})


# Two versions.


def two_versions(fleet):
    fleet.other, fleet.version = parts.of_another_version(fleet.isomer, fleet.folder)
    # A generator of its own, so that its calls are counted apart.
    fleet.spec_of_other = parts.Generator(0.05, address=fleet.address).spec
    fleet.alone_of_other = fleet.report(fleet.check("alone-other", {}, isomer=fleet.other, spec=fleet.spec_of_other))
    return [fleet.worker("this"), fleet.worker("other", isomer=fleet.other)]


def check_of_another_version(fleet, workers):
    report = fleet.report(fleet.check("other", isomer=fleet.other, spec=fleet.spec_of_other))
    # Scores of the texts as they were are in the store, by whichever version was first.
    same, said = compared(fleet.alone_of_other, report, True)
    fleet.notes.append(f"its report beside that of one process of its version: {said}")
    if not same:
        raise SystemExit("the check of another version differs: " + said)
    # The worker of the other version alone is not enough for this one.
    workers[0].kill()
    begun = time.monotonic()
    parts.until("the check says that no worker is left", lambda: "no worker takes units" in fleet.leader.log.read_text(), 300)
    said = next(line for line in fleet.leader.log.read_text().splitlines() if "no worker takes units" in line)
    if fleet.version not in said:
        raise SystemExit(f"the check does not name the other version: {said}")
    fleet.notes.append(f"without a worker of its version the check said so after {time.monotonic() - begun:.0f} s")
    workers[0] = fleet.worker("this-again")


# Generators.


def of_varied_texts(fleet, report):
    """Each encoder again, from the kept texts alone: the same scores, and no call."""
    calls = fleet.generator.calls
    for number, encoders in enumerate((parts.ENCODERS, parts.ENCODERS[1:])):
        fleet.s3.remove("scores")
        fleet.s3.remove("vectors")
        more = {name: value for name, value in fleet.settings().items() if "STORE" in name}
        again = fleet.report(fleet.check(f"encoders-{number}", more, encoders=encoders, judge=False))
        if len(again["scores"]) < 4 * len(encoders) or [one for one in again["scores"] if one not in report["scores"]]:
            raise SystemExit("an encoder has seen other texts")
    if fleet.generator.calls != calls:
        raise SystemExit(f"{fleet.generator.calls - calls} texts were generated again")
    fleet.notes.append("each encoder alone, from the kept texts: the same scores, no call")


def local(count, act=nothing):
    """The generator in the processes themselves; the judge is the stub. Workers have other numbers of threads."""

    def workers(fleet):
        return [
            fleet.worker(str(n), threads=1 + n % 2, more={"ISOMER_TRANSFORM__LOCAL__THREADS": str(1 + n % 2)})
            for n in range(count)
        ]

    return Fault(act, workers, {"generator": "local:smollm2-135m-instruct", "pairs": 3})


FAULTS = {
    "none": Fault(nothing),
    "one-worker": Fault(nothing, lambda fleet: [fleet.worker("0")]),
    "five-workers": Fault(nothing, lambda fleet: [fleet.worker(str(number)) for number in range(5)]),
    "threads": Fault(nothing, lambda fleet: [fleet.worker(str(number), threads=number + 1) for number in range(2)]),
    "local-1": local(1),
    "local-2": local(2),
    "local-5": local(5),
    "local-killed": local(2, worker_killed),
    "varied": Fault(worker_killed, fleet={"varied": True}, after=of_varied_texts),
    "worker-killed": Fault(worker_killed),
    "all-workers-killed": Fault(all_workers_killed),
    "hang": Fault(hang, repeats=64),
    "broker-leader-killed": Fault(broker_leader_killed),
    "broker-wiped": Fault(broker_wiped, repeats=64),
    "store-cut": Fault(store_cut, repeats=64),
    "store-503": Fault(store_503),
    "leader-killed": Fault(leader_killed),
    "gc": Fault(gc),
    "versions": Fault(check_of_another_version, two_versions, repeats=64),
    "clock-worker-ahead": clock("worker", 1),
    "clock-worker-behind": clock("worker", -1),
    "clock-leader-ahead": clock("leader", 1),
    "clock-leader-behind": clock("leader", -1),
    "clock-broker-ahead": clock("broker", 1),
    "clock-broker-behind": clock("broker", -1),
    "disk-worker": Fault(disk_of_worker_full, worker_on_a_small_disk, needs_root=True),
    "disk-store": Fault(disk_of_store_full, store_on_a_small_disk, repeats=64, needs_root=True),
    "disk-broker": Fault(disk_of_broker_full, fleet={"broker_disks": 64}, repeats=64, needs_root=True),
    "cut-worker-broker": Fault(
        cut_from(lambda fleet: fleet.nats.ports), on_hosts, {"address": Host.SERVICES}, repeats=64, needs_root=True
    ),
    "cut-worker-store": Fault(
        cut_from(lambda fleet: [fleet.s3.port]), on_hosts, {"address": Host.SERVICES}, repeats=64, needs_root=True
    ),
}
UNDISTURBED = (nothing, gc)


def fleet_of(isomer, folder, settings):
    settings = dict(settings)
    folder.mkdir()
    brokers, disks = settings.pop("broker_disks", None), []
    if brokers:
        disks = [Disk(folder / "brokers" / f"js{number}", brokers) for number in range(3)]
        settings["broker_disks"] = folder / "brokers"
    if settings.get("address") == Host.SERVICES:
        Host.network()
    fleet = Fleet(isomer, folder, **settings)
    fleet.disks += disks
    return fleet


def tried(isomer, name, folder):
    """One row, and whether all of it is as it should be."""
    fault = FAULTS[name]
    fleet = fleet_of(isomer, folder, fault.fleet)
    try:
        alone, least = fleet.alone("check", lambda: fleet.report(fleet.check("alone", {})))
        workers = fault.workers(fleet)
        first, begun = fleet.generator.calls, time.monotonic()
        fleet.leader = fleet.check("fleet", **fault.leader(fleet))
        if fleet.spec == fleet.generator.spec:
            fleet.generator.wait(first + 24)
        else:
            parts.until("generated texts", lambda: fleet.s3.texts() >= 12, 900)
        in_flight, before = fleet.generator.in_flight, fleet.generator.calls
        # A call after all those that were in flight.
        fleet.generator.resumes(min(before + in_flight + 1, first + least))
        fault.act(fleet, workers)
        report = fleet.report(fleet.leader)
        goes_on = "-"
        if fault.act not in UNDISTURBED and fleet.spec == fleet.generator.spec:
            goes_on = f"{fleet.generator.resumed:.1f}"
        took, calls = time.monotonic() - begun, fleet.generator.calls - first
        # A leader that is started again tries the judge again.
        extra = calls - least - sum("check-again" in str(process.folder) for process in fleet.started)
        same, said = compared(alone, report, fault.act is not nothing)
        if "varied" in fault.fleet:
            same, said = True, "not compared: the generator answers differently"
        if fleet.store.startswith("s3:"):
            begun_units, lost = fleet.s3.units()
            units, repeated, lost = len(begun_units), sum(begun_units.values()) - len(begun_units), len(lost)
        else:
            units, lost = parts.units_in_folder(Path(fleet.store))
            repeated = "-"
        fault.after(fleet, report)
        row = f"{name:21} {units:5} {repeated:>8} {calls:5} ({extra:+3}) of {least:4}  in flight {in_flight:2} {lost:4}"
        row += f" {goes_on:>7} {took:6.1f}  {said}"
        row += "".join(f"\n{'':22}{note}" for note in fleet.notes)
        return row, same and lost == 0 and 0 <= extra <= in_flight + fault.repeats
    finally:
        fleet.stop()


def main():
    everything = [*FAULTS, *served.FAULTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the binary")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="of: " + ", ".join(everything))
    options = parser.parse_args()
    unknown = [name for name in options.faults if name not in everything]
    if unknown:
        parser.error(f"no fault {unknown[0]}; there are {', '.join(everything)}")
    bad, left = [], []
    print(f"{'fault':21} units repeated calls (beyond the minimum)        lost goes on   took  report")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in options.faults or everything:
            if name in FAULTS and FAULTS[name].needs_root and os.geteuid() != 0:
                left.append(name)
                continue
            of = tried if name in FAULTS else served.tried
            try:
                row, good = of(options.isomer, name, Path(folder) / name)
            except (SystemExit, Exception) as error:
                row, good = f"{name:21} FAILED: {type(error).__name__}: {error}", False
            load = " ".join(f"{one:.1f}" for one in os.getloadavg()[:1])
            print(f"{row}  [load {load}]", flush=True)
            bad += [] if good else [name]
    if bad:
        sys.exit(f"failed: {', '.join(bad)}")
    if left:
        sys.exit(f"not tried, since they need root: {', '.join(left)}")
    print("all checks pass")


if __name__ == "__main__":
    main()
