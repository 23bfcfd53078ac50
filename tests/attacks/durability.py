#!/usr/bin/env python3
"""Writes that a server acknowledged are there after a restart, whatever happened to its disk.

Each operation that changes state goes on while a small ext4 file system is full, read-only, slow or cut off, or while the processes are killed. Then the fault is over,
the servers are killed and started again, and everything that was answered with OK must be there: a revoked key is refused, a created key is accepted, tokens are charged, the audit
log is whole, runs are listed. An operation that failed must have answered with an error that says why, within 20 s, and must succeed within 20 s once the fault is over.

    tests/attacks/run durability
    tests/attacks/run durability --fault full --fault kill

Prints a table of operations and faults, and exits with 1 if a cell is broken. Tokens of calls in the last 2 s before a kill may be lost (docs/reference/access.md), as may those
of calls while the database cannot be written, if the processes are killed then. Needs root.
"""

import argparse
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import subject

import grpc
from disk import FAULTS, Disk, Full, FullAndKilled, Kill, NearlyFull, ReadOnly
from isomer_stubs import generated_stubs
from operations import KEYS, RUNS, AuditEvents, Refused
from server import environment

PATIENCE, HEALTHY, COUNTS_IN_MEMORY = 20, 4.0, 2.0
CLEAR = [
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DATA_LOSS,
]


class Worker:
    """One operation in a thread: acts, and what was wrong with their answers."""

    def __init__(self, operation, label):
        self.operation, self.label = operation, label
        self.refused, self.problems, self.longest, self.last_good, self.last_error = 0, [], 0.0, 0.0, ""
        self.stop, self.away = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self):
        while not self.stop.is_set():
            begun, away = time.monotonic(), self.away.is_set()
            try:
                self.operation.step()
                self.last_good = time.monotonic()
            except Refused as error:
                self.refuse(str(error), away)
            except AssertionError as error:
                self.problems.append(str(error))
            except grpc.RpcError as error:
                self.judge(error, away or self.away.is_set())
            except (OSError, ValueError) as error:
                self.problems.append(repr(error))
            self.longest = max(self.longest, time.monotonic() - begun)
            self.stop.wait(0.25)

    def refuse(self, message, away):
        self.refused += 1
        self.last_error = message
        if not message and not away:
            self.problems.append("an error without a message")

    def judge(self, error, away):
        """A killed server answers nothing; all other errors must be clear."""
        self.refused += 1
        self.last_error = error.details()
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            self.problems.append(f"no answer within {PATIENCE} s")
        elif not away and (error.code() not in CLEAR or not error.details()):
            self.problems.append(f"{error.code().name}: {error.details()}")


class Trial:
    """All operations under one fault."""

    def __init__(self, arguments, modules, fault, folder):
        self.modules, self.folder, self.fault = modules, folder, None
        self.disk = Disk(folder, arguments.mebibytes, fault.block_bytes)
        self.fault = fault(self.disk, arguments.seed)
        self.draw, self.starts, self.failed_starts, self.problems = random.Random(arguments.seed), 0, 0, []
        self.models = subject.Models()
        ledger = f'[eval]\nmax_active_runs = 30\n[eval.ledger]\nurl = "{self.disk.folder}/ledger/runs.sqlite"\nlease_seconds = 2\n'
        self.gateways = [
            subject.Gateway(arguments.isomer, self.disk.folder / "folder", folder, self.models, "[eval]\nmax_active_runs = 30\n"),
            subject.Gateway(arguments.isomer, self.disk.folder / "ledger", folder, self.models, ledger),
        ]
        self.secrets = [gateway.admin() for gateway in self.gateways]

    def start(self):
        for gateway in self.gateways:
            gateway.start()
            self.starts += 1
        self.apis = [subject.Api(gateway, self.modules, secret) for gateway, secret in zip(self.gateways, self.secrets)]

    def start_early(self):
        """A server on a full disk serves, or ends and says why."""
        for gateway in self.gateways:
            words = [gateway.isomer, "serve", "--listen", gateway.address, "--config", str(gateway.config)]
            try:
                done = subprocess.run(words, env=environment(gateway.home), capture_output=True, text=True, timeout=12)
                self.failed_starts += 1
                said = done.stderr.strip().splitlines()
                if done.returncode not in (2, 3) or not said:
                    self.problems.append(f"a start on a full disk ended with {done.returncode}: {said[-1:]}")
            except subprocess.TimeoutExpired as error:
                # It was killed.
                self.starts += 1
                if b"isomer serves" not in (error.stdout or b""):
                    self.problems.append("a start on a full disk neither serves nor ends")

    def kill(self):
        cut = time.monotonic()
        for gateway in self.gateways:
            if gateway.process.poll() is not None:
                self.problems.append(f"it ended by itself with {gateway.process.returncode}")
            gateway.kill()
        for gateway in self.gateways:
            gateway.process.wait(30)
        return cut

    def prepare(self):
        folder, ledger = zip(self.gateways, self.apis)
        operations = [kind(*folder) for kind in KEYS]
        operations.append(AuditEvents(*folder, list(operations)))
        self.workers = [Worker(operation, operation.name) for operation in operations]
        self.workers += [Worker(kind(*folder), kind.name) for kind in RUNS]
        self.workers += [Worker(kind(*ledger), f"{kind.name} (ledger)") for kind in RUNS]
        for worker in self.workers:
            worker.operation.prepare()

    def restart(self):
        self.start()
        for worker in self.workers:
            worker.operation.api = self.apis[worker.operation.gateway is self.gateways[1]]

    def kills(self):
        """Kills at random moments; returns the times before which counts were surely written."""
        cuts = []
        for _ in range(Kill.kills):
            time.sleep(self.draw.uniform(0.5, 2.5))
            self.away(True)
            cuts.append(self.kill())
            self.restart()
            time.sleep(0.3)
            self.away(False)
        return cuts

    def away(self, are):
        for worker in self.workers:
            (worker.away.set if are else worker.away.clear)()

    def lost_windows(self):
        """Runs the fault. Returns the times in which counts may be lost."""
        for worker in self.workers:
            worker.thread.start()
        time.sleep(HEALTHY)
        if isinstance(self.fault, Kill):
            windows = [(cut - COUNTS_IN_MEMORY, cut + 1) for cut in self.kills()]
            self.recover()
            return windows
        begun = time.monotonic()
        self.fault.begin()
        try:
            time.sleep(self.fault.seconds)
        finally:
            if not self.fault.ends_processes:
                self.fault.end()
        if self.fault.ends_processes:
            self.away(True)
            self.stop()
            cut = self.kill()
            if isinstance(self.fault, FullAndKilled):
                self.start_early()
            self.fault.end()
            return [(begun - COUNTS_IN_MEMORY, cut + 1)]
        self.recover()
        # A server that ended by itself has lost what it counted.
        lived = all(gateway.process.poll() is None for gateway in self.gateways)
        return [] if lived else [(begun - COUNTS_IN_MEMORY, float("inf"))]

    def recover(self):
        """Every operation succeeds again."""
        over = time.monotonic()
        lives = lambda worker: worker.operation.gateway.process.poll() is None  # noqa: E731
        missing = lambda: [worker for worker in self.workers if worker.last_good < over and lives(worker)]  # noqa: E731
        while missing() and time.monotonic() < over + PATIENCE:
            time.sleep(0.2)
        for worker in missing():
            worker.problems.append(f"does not succeed within {PATIENCE} s after the fault: {worker.last_error}")
        self.stop()

    def stop(self):
        for worker in self.workers:
            worker.stop.set()
        if not self.fault.ends_processes:
            for worker in self.workers:
                worker.thread.join(PATIENCE + 10)

    def outcome(self):
        """Cells of the table by operation: acts that were acknowledged and refused, and problems."""
        self.start()
        self.prepare()
        windows = self.lost_windows()
        time.sleep(COUNTS_IN_MEMORY)
        if not self.fault.ends_processes:
            self.kill()
        for worker in self.workers:
            worker.thread.join(PATIENCE + 10)
        try:
            self.restart()
        except SystemExit as error:
            return self.unjudged(error)
        if isinstance(self.fault, (Full, NearlyFull, ReadOnly)) and not any(worker.refused for worker in self.workers):
            self.problems.append("no act was refused: the fault did nothing")
        cells = {"server": (self.starts, self.failed_starts, 0.0, self.problems)}
        for worker in self.workers:
            try:
                worker.problems += worker.operation.lost(windows)
            except grpc.RpcError as error:
                worker.problems.append(f"{error.code().name} after the restart: {error.details()}")
            if not worker.operation.acknowledged:
                worker.problems.append("nothing was acknowledged")
            cells[worker.label] = (len(worker.operation.acknowledged), worker.refused, worker.longest, list(dict.fromkeys(worker.problems)))
        self.problems += [f"it panicked at {place}" for place in self.panics()]
        return cells

    def unjudged(self, error):
        """No server answers after the fault."""
        told = [line for gateway in self.gateways for line in gateway.log.read_text(errors="replace").splitlines()[-1:]]
        cells = {"server": (self.starts, self.failed_starts + 1, 0.0, [f"{error}: {told}"])}
        return cells | {worker.label: (0, worker.refused, worker.longest, ["no server to ask"]) for worker in self.workers}

    def panics(self):
        logs = "".join(gateway.log.read_text(errors="replace") for gateway in self.gateways)
        return sorted(set(re.findall(r"panicked at (\S+)", logs)))

    def remove(self):
        self.models.released.set()
        for gateway in self.gateways:
            if gateway.process and gateway.process.poll() is None:
                gateway.kill()
        self.disk.remove()


def tried(arguments, modules, fault):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="isomer-durability-"))
    trial = Trial(arguments, modules, fault, folder)
    try:
        return trial.outcome()
    finally:
        trial.remove()
        if arguments.keep:
            print(f"the logs of `{fault.name}` are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)


def print_table(table):
    names = list(dict.fromkeys(label for cells in table.values() for label in cells))
    width = max(map(len, names), default=10) + 2
    print("whether what was acknowledged is there after a restart, and how many acts were acknowledged/refused\n")
    print("operation".ljust(width) + "".join(fault.ljust(17) for fault in table))
    for name in names:
        row = []
        for cells in table.values():
            good, refused, _, problems = cells[name]
            row.append(f"{'broken' if problems else 'held'} {good}/{refused}".ljust(17))
        print(name.ljust(width) + "".join(row))
    longest = [f"{fault} {max(cell[2] for cell in cells.values()):.1f} s" for fault, cells in table.items()]
    print(f"\nlongest answer: {', '.join(longest)}")
    broken = 0
    for fault, cells in table.items():
        for name, (_, _, _, problems) in cells.items():
            if problems:
                broken += 1
                print(f"broken: {name}, {fault}: {'; '.join(problems)[:400]}")
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the isomer command; tests/attacks/run gives it")
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS], help="only this one; repeat for several")
    parser.add_argument("--mebibytes", type=int, default=64, help="size of the disk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the logs of the servers")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    table = {}
    with generated_stubs() as modules:
        for fault in FAULTS:
            if arguments.fault and fault.name not in arguments.fault:
                continue
            begun = time.monotonic()
            try:
                table[fault.name] = tried(arguments, modules, fault)
            except subprocess.CalledProcessError as error:
                sys.exit(f"{fault.name}: {error}: {error.stderr}")
            print(f"{fault.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    sys.exit(1 if print_table(table) else 0)


if __name__ == "__main__":
    main()
