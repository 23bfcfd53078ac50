"""A check over workers: its suite, the processes that do it, its reports."""

import json
from pathlib import Path

import parts
from parts import Generator, Nats, Process, S3, Way

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS, SETS = 6, ["fence", "harbour", "garden", "bridge", "market", "station"]
PAUSE = 0.3


def suite(folder, pairs):
    """Data sets of our own and a sequential gate."""
    folder.mkdir()
    text = 'name = "faults"\nseeds = [1337, 7]\ntransformations = ["paraphrase"]\nattempts = 2\n\n'
    text += '[gate]\nmax_at_chance = 1.0\nmin_items = 1\nmax_guarded = 1.0\nmax_same_rewrites = 1.0\nsequential = "obrien-fleming"\n\n[[gate.rule]]\nmax_drop = 60\nbasis = "signed-rank"\n'
    animals = ["cat", "dog", "horse", "sheep", "goose", "heron"]
    for place in SETS:
        (folder / place).mkdir()
        rows = [
            {
                "sentence1": f"The old {animals[i % 6]} number {i} did not sleep beside the wooden {place}.",
                "sentence2": f"Beside the {place} a young {animals[i % 6]} was resting near gate {i} all day.",
                "score": i * 7 % 11 / 2,
            }
            for i in range(pairs)
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


def written(report, after_fault):
    """A report as bytes, without the fields that the schema of reports lists as varying."""
    report = json.loads(json.dumps(report))
    schema = json.loads((ROOT / "eval-svc/schema/report-1.json").read_text())
    for path in schema["x-varies"] + (schema["x-varies-after-a-fault"] if after_fault else []):
        *parents, last = path.split(".")
        places = [report]
        for name in parents:
            places = [one for place in places for one in (place if name == "*" else [place[name]])]
        for place in places:
            del place[last]
    return json.dumps(report, indent=1).encode()


def compared(alone, report, after_fault):
    """Whether a report is that of one process, in words."""
    one, other = (written(each, after_fault) for each in (alone, report))
    if one == other:
        return True, "the same"
    return False, "DIFFERS: " + ", ".join(differing(json.loads(one), json.loads(other))[:8])


# State that all faults share: generators, suites, and the reports of one process.
GENERATORS, SUITES, ALONE = {}, {}, {}


class Fleet:
    """The setting of a fault: a queue of three servers, a store, a generator."""

    def __init__(
        self, isomer, folder, varied=False, generator=None, pairs=PAIRS, address="127.0.0.1", broker_disks=None, s3=None
    ):
        self.isomer, self.folder, self.address = isomer, folder, address
        if pairs not in SUITES:
            SUITES[pairs] = suite(folder.parent / f"suite-{pairs}", pairs)
        self.suite = SUITES[pairs]
        if (varied, address) not in GENERATORS:
            GENERATORS[varied, address] = Generator(PAUSE, varied, address)
        self.generator = GENERATORS[varied, address]
        parts.until("the end of earlier calls", lambda: not self.generator.in_flight)
        self.spec, self.judge = generator or self.generator.spec, self.generator.spec
        self.nats, self.s3 = Nats(folder, address, broker_disks), S3(folder, address, s3)
        self.way_to_s3 = Way(self.s3.port, address) if address == "127.0.0.1" else None
        self.store = "s3://isomer/checks"
        self.started, self.disks, self.notes = [], [], []

    def settings(self, engine=None):
        more = {
            "ISOMER_FLEET__ENGINE": engine or self.nats.url(),
            "ISOMER_FLEET__REPLICAS": "3",
            "ISOMER_FLEET__LEASE_SECONDS": "3",
            "ISOMER_FLEET__REPUBLISH_SECONDS": "1",
            "ISOMER_FLEET__WORKER_WAIT_SECONDS": "90",
            "ISOMER_STORE__URL": self.store,
        }
        if self.store.startswith("s3:"):
            more["ISOMER_STORE__ENDPOINT"] = f"http://{self.address}:{(self.way_to_s3 or self.s3).port}"
        return more

    def start(self, name, command, more, before=(), isomer=None):
        process = Process(name, [isomer or self.isomer, *command], self.folder, more, before)
        self.started.append(process)
        return process

    def check(self, name, more=None, before=(), isomer=None, spec=None, encoders=parts.ENCODERS, judge=True):
        command = ["check", "--suite", self.suite, "--generator", spec or self.spec, "--undecided", "warn", "--format", "json"]
        if judge:
            command += ["--judge", spec or self.judge]
        command += ["--quiet", "--out", self.folder / f"report-{name}"]
        for encoder in encoders:
            command += ["--model", encoder]
        return self.start(f"check-{name}", command, self.settings() if more is None else more, before, isomer)

    def worker(self, name, before=(), threads=None, more=None, isomer=None, lanes="transform=1,encode=1,judge=1", **ways):
        settings = self.settings(**ways) | {"ISOMER_LOG": "info"} | (more or {})
        if threads:
            settings["ISOMER_EMBED__THREADS"] = str(threads)
        worker = self.start(f"worker-{name}", ["worker", "--lanes", lanes], settings, before, isomer)

        def works():
            if worker.process.poll() is not None:
                raise SystemExit(f"a worker ended: {worker.log.read_text()[-1000:]}")
            return "taking units of work" in worker.log.read_text()

        parts.until("a worker", works, 300)
        return worker

    def disk(self, name, mebibytes):
        disk = parts.Disk(self.folder / name, mebibytes)
        self.disks.append(disk)
        return disk

    def alone(self, kind, report):
        """The report of one process, and the calls of the generator that it takes."""
        key = kind, self.spec, self.suite
        if key not in ALONE:
            before = self.generator.calls
            ALONE[key] = report(), self.generator.calls - before
        return ALONE[key]

    def report(self, check):
        code = check.wait()
        # 4: the gate's verdict is that its rules say nothing, e.g. as a small model copies too many
        # texts.
        if code not in (0, 1, 4):
            raise SystemExit(f"{check.folder.name} ended with {code}: {check.log.read_text()[-2000:]}")
        return json.loads(check.out.read_text())

    def stop(self):
        for process in self.started:
            if process.process.poll() is None:
                process.kill()
        self.nats.kill([n for n, server in enumerate(self.nats.servers) if server.poll() is None])
        self.s3.stop()
        for disk in self.disks:
            disk.stop()
