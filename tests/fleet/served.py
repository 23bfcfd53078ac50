"""Runs that replicas of `isomer serve` lead, with a ledger in PostgreSQL: the leader is killed, stopped or cut off."""

import base64
import json
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Callable

import pg8000.native

import parts
from fleet import Fleet, compared
from parts import Host, Way

LEASE = 3
TAKES_OVER = "this replica leads a run now"
STOPPED = "another replica leads this run now; it is stopped here"


class Ledger:
    """An empty schema of the PostgreSQL server that ISOMER_TEST_POSTGRES names."""

    def __init__(self, name):
        self.url = urllib.parse.urlsplit(os.environ["ISOMER_TEST_POSTGRES"])
        self.name = "faults_" + name.replace("-", "_")
        login = {"password": self.url.password} if self.url.password else {}
        self.connection = pg8000.native.Connection(
            self.url.username, host="127.0.0.1", port=self.url.port, database=self.url.path[1:], **login
        )
        self.connection.run(f"DROP SCHEMA IF EXISTS {self.name} CASCADE")
        self.connection.run(f"CREATE SCHEMA {self.name}")

    def address(self, host="127.0.0.1", port=None):
        login = self.url.username + (f":{self.url.password}" if self.url.password else "")
        return f"postgres://{login}@{host}:{port or self.url.port}{self.url.path}?options[search_path]={self.name}"

    def row(self, run):
        """Leader and fencing token of a run."""
        return self.connection.run(f"SELECT leader, fence FROM {self.name}.eval_runs WHERE id = :run", run=run)[0]

    def looks(self):
        return self.connection.run(f"SELECT count(*) FROM {self.name}.eval_run_looks")[0][0]


class Replica:
    """An `isomer serve`."""

    def __init__(self, fleet, name, ledger, address="127.0.0.1", engine=True, before=()):
        self.address = f"{address}:{parts.free_port()}"
        config = fleet.folder / f"{name}.toml"
        roots, allowed = json.dumps([str(fleet.suite.parent)]), json.dumps(["127.0.0.1", Host.SERVICES])
        config.write_text(
            f'[eval]\ndata_roots = {roots}\n\n[eval.ledger]\nurl = "{ledger}"\nlease_seconds = {LEASE}\n\n'
            f'[access]\nmode = "open"\n\n[transform]\nallow_specs = true\n\n[addresses]\nallow = {allowed}\n'
        )
        more = fleet.settings() if engine else {}
        command = ["serve", "--listen", self.address, "--config", config]
        self.process = fleet.start(name, command, more | {"ISOMER_LOG": "info"}, before)
        parts.until("a replica", self.serves, 300)

    def serves(self):
        if self.process.process.poll() is not None:
            raise SystemExit(f"a replica ended: {self.said()[-1000:]}")
        return "isomer serves" in self.process.out.read_text()

    def said(self):
        return self.process.log.read_text()

    def call(self, method, **message):
        """A call of the run service, by the Connect protocol."""
        request = urllib.request.Request(
            f"http://{self.address}/isomer.eval.v1.RunService/{method}",
            json.dumps(message).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method}: {error.read().decode()}") from None

    def create(self, fleet):
        suite = {"toml": fleet.suite.read_text(), "baseDir": str(fleet.suite.parent), "fileName": "suite.toml"}
        spec = {"suite": suite, "encoderIds": parts.ENCODERS, "generatorId": fleet.spec, "judge": {"generatorId": fleet.judge}}
        return self.call("CreateRun", spec=spec)["run"]["id"]

    def report(self, run, seconds=900):
        """The report of a run, when it has ended."""
        found = {}

        def ended():
            found.update(self.call("GetRun", id=run)["run"])
            time.sleep(0.2)
            return found["state"] not in ("RUN_STATE_PENDING", "RUN_STATE_RUNNING")

        parts.until("the end of a run", ended, seconds)
        if found["state"] != "RUN_STATE_SUCCEEDED":
            raise SystemExit(f"the run ended with {found['state']}: {found.get('error')}")
        content = self.call("GetReport", id=run, format="REPORT_FORMAT_JSON")["content"]
        return json.loads(base64.b64decode(content))


@dataclass
class Fault:
    """Fault of the leader during a run."""

    act: Callable
    # Replicas; the first leads.
    replicas: int = 2
    fleet: dict = field(default_factory=dict)
    needs_root: bool = False


def taken_over(at):
    """Waits until the second replica leads the run."""
    parts.until("another replica leads the run", lambda: at.ledger.row(at.run)[1] > 1, 300)


def stopped_and_continued(at):
    """The leader stands still for longer than its lease; what it writes afterwards is refused."""
    at.leader.process.signal("SIGSTOP")
    taken_over(at)
    at.goes_on = time.monotonic() - at.since
    time.sleep(2)
    at.leader.process.signal("SIGCONT")
    parts.until("the earlier leader says that it is superseded", lambda: STOPPED in at.leader.said(), 300)
    at.notes.append(f"the earlier leader says: {STOPPED}")


def killed_after_a_look(at):
    """The look is in the ledger, and the leader is killed before it hears of that."""
    at.way.holds_answer_after = b"INSERT INTO eval_run_looks"
    parts.until("a look in the ledger", lambda: at.ledger.looks() == 1, 600)
    units = len(at.fleet.s3.units()[0])
    at.since = time.monotonic()
    time.sleep(0.5)
    if len(at.fleet.s3.units()[0]) != units or at.fleet.generator.in_flight:
        raise SystemExit("the next round had begun before its look was known to be recorded")
    at.leader.process.kill()
    taken_over(at)
    at.goes_on = time.monotonic() - at.since
    at.notes.append(f"killed with 1 look recorded and {units} units done, none of the next round")


def cut_in_a_transaction(at):
    """The leader is cut off while it holds the row of the run locked."""
    at.way.cuts_before = b"COMMIT"
    parts.until("the leader is in a transaction", lambda: at.way.is_cut, 300)
    at.since = time.monotonic()
    taken_over(at)
    at.goes_on = time.monotonic() - at.since
    at.way.is_cut = False
    parts.until("the earlier leader says that it is superseded", lambda: STOPPED in at.leader.said(), 300)
    at.notes.append(f"the earlier leader says: {STOPPED}")


def cut_at_a_look(at):
    """The only replica is cut off when it records a look, for 30 s."""
    at.way.cuts_before = b"INSERT INTO eval_run_looks"
    parts.until("the leader records a look", lambda: at.way.is_cut, 600)
    began = time.monotonic()
    time.sleep(30)
    at.way.is_cut = False
    parts.until("a look in the ledger", lambda: at.ledger.looks() == 1, 120)
    at.goes_on = time.monotonic() - began


def database_away_at_a_look(at):
    """The database closes all connections when the only replica records a look, and takes none for 20 s."""
    at.way.drops = True
    at.way.cuts_before = b"INSERT INTO eval_run_looks"
    parts.until("the leader records a look", lambda: at.way.is_cut, 600)
    began = time.monotonic()
    time.sleep(20)
    at.way.is_cut = False
    parts.until("a look in the ledger", lambda: at.ledger.looks() == 1, 120)
    at.goes_on = time.monotonic() - began


def cut_from_database(at):
    """The leader's machine reaches everything but the database, for 30 s."""
    began = time.monotonic()
    cut = threading.Thread(target=at.host.cut, args=([at.way.port], 30))
    cut.start()
    taken_over(at)
    at.goes_on = time.monotonic() - began
    cut.join()
    parts.until("the earlier leader says that it is superseded", lambda: STOPPED in at.leader.said(), 300)
    at.notes.append(f"the earlier leader says: {STOPPED}")


def alone_cut_from_database(at):
    """The same with one replica: the run waits and resumes."""
    at.host.cut([at.way.port], 30)


def leader_killed(at):
    at.leader.process.kill()
    taken_over(at)
    at.goes_on = time.monotonic() - at.since


HOSTS = {"address": Host.SERVICES}
FAULTS = {
    "replica-killed": Fault(leader_killed),
    "stale-leader": Fault(stopped_and_continued),
    "killed-after-a-look": Fault(killed_after_a_look),
    "cut-in-a-transaction": Fault(cut_in_a_transaction),
    "cut-at-a-look": Fault(cut_at_a_look, replicas=1),
    "database-away": Fault(database_away_at_a_look, replicas=1),
    "cut-leader-database": Fault(cut_from_database, fleet=HOSTS, needs_root=True),
    "cut-only-leader": Fault(alone_cut_from_database, replicas=1, fleet=HOSTS, needs_root=True),
}


@dataclass
class Setting:
    """Target of a fault."""

    fleet: Fleet
    ledger: Ledger
    way: Way
    leader: Replica
    others: list
    run: str
    host: Host | None
    since: float
    goes_on: float | None = None
    notes: list = field(default_factory=list)


def report_of_one(fleet, name):
    """The report of one replica without workers."""
    replica = Replica(fleet, "serve-alone", Ledger(name + "-alone").address(), engine=False)
    report = replica.report(replica.create(fleet))
    replica.process.kill()
    return report


def tried(isomer, name, folder):
    """One row, and whether all of it is as it should be."""
    fault = FAULTS[name]
    folder.mkdir()
    host = None
    if fault.fleet:
        host = Host()
    fleet = Fleet(isomer, folder, **fault.fleet)
    try:
        alone, least = fleet.alone("served", lambda: report_of_one(fleet, name))
        first = fleet.generator.calls
        ledger = Ledger(name)
        way = Way(ledger.url.port, fleet.address)
        workers = [fleet.worker(str(number)) for number in range(2)]
        leader = Replica(
            fleet, "serve-leader", ledger.address(fleet.address, way.port), host.address if host else "127.0.0.1", True,
            host.inside if host else (),
        )
        others = [Replica(fleet, f"serve-{number}", ledger.address()) for number in range(1, fault.replicas)]
        begun = time.monotonic()
        at = Setting(fleet, ledger, way, leader, others, leader.create(fleet), host, begun)
        fleet.generator.wait(first + 12)
        at.since, in_flight, before = time.monotonic(), fleet.generator.in_flight, fleet.generator.calls
        fleet.generator.resumes(min(before + in_flight + 1, first + least))
        fault.act(at)
        report = (others or [leader])[0].report(at.run)
        if at.goes_on is None:
            at.goes_on = fleet.generator.resumed
        took, calls = time.monotonic() - begun, fleet.generator.calls - first
        fence = ledger.row(at.run)[1]
        if fence != fault.replicas:
            raise SystemExit(f"the fencing token is {fence} at the end, after {fault.replicas - 1} changes of the leader")
        same, said = compared(alone, report, True)
        # A replica that takes over a run asks the judge again.
        extra = calls - least - (fault.replicas - 1)
        begun_units, lost = fleet.s3.units()
        units, repeated = len(begun_units), sum(begun_units.values()) - len(begun_units)
        row = f"{name:21} {units:5} {repeated:>8} {calls:5} ({extra:+3}) of {least:4}  in flight {in_flight:2} {len(lost):4}"
        row += f" {at.goes_on:7.1f} {took:6.1f}  {said}"
        row += "".join(f"\n{'':22}{note}" for note in at.notes)
        return row, same and not lost and 0 <= extra <= in_flight
    finally:
        fleet.stop()
