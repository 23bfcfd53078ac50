"""A name of pgvector that moves to another encoder while it is searched and written to, with kills in
and between the steps. Called by accept.py."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import psycopg

OLD, NEW = "paraphrase-MiniLM-L3-v2", "all-MiniLM-L6-v2"
# Documents that are searched for, and that no writer changes.
SEARCHED = 100
# How often a search may find that the name has moved on before it counts as failed.
TRIES = 20


class Mixed(Exception):
    """A search whose rows are not all of the space of its vector."""


def search(connection, gateway, key: str, text: str) -> int:
    """One search, as docs/how-to/search.md advises applications to make it. Returns how often the name
    had moved on. The space of the rows is not only read from their marks: the nearest row must be
    that of the text itself."""
    for tries in range(TRIES):
        model, space = connection.execute("SELECT model, space FROM isomer_index_names WHERE name = 'docs'").fetchone()
        vector = json.dumps(gateway.vectors([text], model)[0])
        found = connection.execute(
            "SELECT key, space, embedding <=> %(vector)s::vector FROM docs WHERE space = %(space)s "
            "ORDER BY embedding <=> %(vector)s::vector LIMIT 10", {"vector": vector, "space": space}).fetchall()
        if found:
            if {one for _, one, _ in found} != {space} or len(found) != 10 or not found[0][2] < 1e-3 or found[0][0] != key:
                raise Mixed(f"{key} with {model}: {found[:2]}")
            return tries
    raise RuntimeError("nothing found")


class Readers:
    """Threads that search all the time."""

    def __init__(self, url: str, gateway, source, count: int = 3):
        self.over, self.done, self.again = threading.Event(), collections.Counter(), 0
        self.wrong: list[str] = []
        texts = [(key, text) for key, (text, _) in source.rows.items()][:SEARCHED]
        self.threads = [threading.Thread(target=self.read, args=(url, gateway, texts, seed)) for seed in range(count)]
        for thread in self.threads:
            thread.start()

    def read(self, url: str, gateway, texts: list[tuple[str, str]], seed: int) -> None:
        draw = random.Random(seed)
        with psycopg.connect(url, autocommit=True) as connection:
            while not self.over.is_set():
                try:
                    self.again += search(connection, gateway, *draw.choice(texts)) > 0
                    self.done["right"] += 1
                except Mixed as error:
                    self.done["mixed"] += 1
                    self.wrong.append(str(error))
                except Exception as error:  # noqa: BLE001: whatever it is, the search failed
                    self.done["failed"] += 1
                    self.wrong.append(f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


class Writer:
    """Changes, adds and deletes documents and runs `isomer index run` all the time, as a job by the clock
    does."""

    def __init__(self, source, run, seed: int):
        self.source, self.run, self.draw = source, run, random.Random(seed)
        self.over, self.runs, self.wrong = threading.Event(), 0, []
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self) -> None:
        while not self.over.is_set():
            keys = list(self.source.rows)[SEARCHED:]
            for key in self.draw.sample(keys, 3):
                text, n = self.source.rows[key]
                self.source.rows[key] = (f"{text} changed {self.runs}", n)
            del self.source.rows[keys[0]]
            self.source.rows[f"new{self.runs}"] = (f"a new document of run {self.runs}", -1)
            self.source.write()
            done = self.run("--delete")
            self.runs += 1
            if done.returncode != 0:
                self.wrong.append(done.stderr)
            self.over.wait(0.2)

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


class Aliases:
    """An alias of a store through all steps, without anything that goes wrong: its changes are the store's."""

    def __init__(self, isomer: str, gateway, source, store, row):
        self.store, self.source, self.gateway, self.isomer = store, source, gateway, isomer
        self.row = lambda what, holds, numbers: row(store, what, holds, numbers)
        self.server = store.sink.removesuffix("#accepted")
        self.engine = ["--server", f"127.0.0.1:{gateway.port}"]

    def call(self, *arguments: str) -> dict:
        done = subprocess.run([self.isomer, "index", *arguments, "--format", "json", "--quiet"], capture_output=True, text=True, timeout=1800)
        if done.returncode != 0:
            raise AssertionError(f"{arguments[:2]} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def run(self, difference) -> None:
        name, columns = f"{self.server}#search", ["--source", str(self.source.path), "--payload", "n"]
        self.call("run", "--sink", f"{self.server}#first", *columns, "--model", OLD, *self.engine)
        self.call("migrate", "start", name, "--from", "first", "--model", NEW, *self.engine)
        self.call("migrate", "backfill", name, *columns, *self.engine)
        self.call("migrate", "switch", name, "--uncompared")
        served = {}
        for step, model in [("roll-back", OLD), ("switch", NEW)]:
            self.call("migrate", step, name, *(["--uncompared"] if step == "switch" else []))
            stored = self.store.vectors_of("search")
            computed = self.gateway.vectors([text for text, _ in self.source.rows.values()], model)
            served[step] = sum(difference(stored[key], again, False) < 1e-3 for key, again in zip(self.source.rows, computed, strict=True))
        count = len(self.source.rows)
        self.row("an alias leads to the old vectors, then to the new ones", served == {"roll-back": count, "switch": count}, served)
        self.call("migrate", "finish", name)
        again = self.call("run", "--sink", name, *columns, *self.engine)["serving"]
        self.row("after finish a run under the alias writes nothing", (again["written"], again["unchanged"]) == (0, count), again["written"])


class Migration:
    def __init__(self, isomer: str, gateway, source, url: str, folder: pathlib.Path, row, draw: random.Random):
        self.isomer, self.gateway, self.source, self.url, self.draw = isomer, gateway, source, url, draw
        self.row = lambda what, holds, numbers: row(self, what, holds, numbers)
        self.name = "pgvector"
        self.address = f"{url}#docs"
        self.server = ["--server", f"127.0.0.1:{gateway.port}"]
        self.columns = ["--source", str(source.path), "--payload", "n"]
        self.queries = folder / "queries.jsonl"
        texts = [text for text, _ in source.rows.values()][:SEARCHED]
        self.queries.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts)))
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("DROP VIEW IF EXISTS docs; DROP TABLE IF EXISTS docs, docs_1, docs_2, docs_3, isomer_index_names")
        self.kills: collections.Counter[str] = collections.Counter()
        # Switches that were refused since a document was missing.
        self.refusals = 0

    def call(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [self.isomer, "index", *arguments, "--format", "json", "--quiet"]
        return subprocess.run(command, capture_output=True, text=True, timeout=1800)

    def fill(self, *more: str) -> subprocess.CompletedProcess:
        return self.call("run", "--sink", self.address, *self.columns, *self.server, "--batch", "32", *more)

    def step(self, *arguments: str, faults: int = 3, longest: float = 0.25) -> dict:
        """A step that is killed, or loses its connections, at random moments, then made to its end."""
        command = [self.isomer, "index", "migrate", *arguments, "--format", "json", "--quiet"]
        for _ in range(faults):
            started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(self.draw.uniform(0.0, longest))
            if started.poll() is None:
                kind = self.draw.choice(["killed", "killed", "connections ended"])
                self.kills[kind] += 1
                if kind == "killed":
                    os.killpg(started.pid, signal.SIGKILL)
                else:
                    self.connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'isomer index'")
            started.wait()
        done = self.call("migrate", *arguments)
        for _ in range(5):
            if "cannot serve in the place" not in done.stderr:
                break
            # Two runs at once, over two states of the source, left a document in one of both: the
            # next run that deletes brings it right.
            self.refusals += 1
            self.fill("--delete")
            done = self.call("migrate", *arguments)
        if done.returncode != 0:
            raise AssertionError(f"{arguments[0]} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def refused(self, step: str, remedy: str) -> None:
        done = self.call("migrate", step, self.address)
        self.row(f"{step} before its turn is refused with the remedy", done.returncode == 3 and remedy in done.stderr, remedy)

    def serving(self) -> tuple[str, str]:
        return self.connection.execute("SELECT collection, model FROM isomer_index_names WHERE name = 'docs'").fetchone()

    def held(self, table: str, model: str, difference, share: float) -> dict[str, int]:
        found = self.connection.execute(f"SELECT key, payload, embedding::text FROM {table}").fetchall()
        rows = self.source.rows
        keys = [key for key, _, _ in found]
        wrong = {"lost": len(rows.keys() - set(keys)), "twice": len(keys) - len(set(keys)), "not of the source": len(set(keys) - rows.keys()),
                 "payload of another": sum(rows.get(key, (None, None))[1] != payload["n"] for key, payload, _ in found)}
        sample = [row for row in found if row[0] in rows]
        sample = self.draw.sample(sample, max(50, round(len(sample) * share)))
        computed = self.gateway.vectors([rows[key][0] for key, _, _ in sample], model)
        far = [not difference(json.loads(stored), again, True) < 1e-3 for (_, _, stored), again in zip(sample, computed, strict=True)]
        return {**wrong, "of another vector": sum(far)}

    def run(self, difference) -> None:
        first = self.fill("--model", OLD, "--build-index")
        if first.returncode != 0:
            raise AssertionError(first.stderr)
        self.step("start", self.address, "--model", NEW, *self.server)
        readers = Readers(self.url, self.gateway, self.source)
        writer = Writer(self.source, self.fill, self.draw.randrange(10**6))
        try:
            self.refused("switch", "migrate backfill")
            self.refused("finish", "migrate switch")
            backfill = ("backfill", self.address, *self.columns, *self.server, "--batch", "32")
            self.step(*backfill, "--rows-per-second", "150", faults=4, longest=2.0)
            self.step(*backfill, "--build-index", faults=1)
            self.refused("switch", "migrate compare")
            self.step("compare", self.address, "--queries", str(self.queries), *self.server, "--in-flight", "2", faults=2)
            for _ in range(3):
                self.step("switch", self.address)
                switched = self.serving()
                self.step("roll-back", self.address)
                back = self.serving()
            self.row("readers get the new collection, and the old one after a roll-back",
                     (switched, back) == (("docs_2", NEW), ("docs_1", OLD)), (switched[0], back[0]))
            self.step("switch", self.address)
            writer.stop()
            # A run without faults completes, in both, the work that the last run was cut off from.
            self.fill("--delete")
            for table, model in [("docs_1", OLD), ("docs_2", NEW)]:
                found = self.held(table, model, difference, 0.05)
                self.row(f"{table} is the source, by vectors of {model}", not any(found.values()), found)
            self.step("finish", self.address)
            time.sleep(1)
        finally:
            writer.stop()
            readers.stop()
        tables = self.connection.execute("SELECT to_regclass('docs_1') IS NULL, to_regclass('docs_2') IS NOT NULL").fetchone()
        self.row("finish drops the old collection alone", tables == (True, True), tables)
        self.row(f"steps with faults {dict(self.kills)}", sum(self.kills.values()) >= 8, f"{self.refusals} switches refused as incomplete")
        done = readers.done
        self.row(f"{done['right']} searches meanwhile, {readers.again} of which read the name again",
                 done["right"] >= 100 and not done["failed"] and not done["mixed"],
                 {"failed": done["failed"], "mixed": done["mixed"], **({"e.g.": readers.wrong[0]} if readers.wrong else {})})
        self.row(f"{writer.runs} runs wrote to both meanwhile", writer.runs >= 3 and not writer.wrong,
                 {"failed": len(writer.wrong), **({"e.g.": writer.wrong[0]} if writer.wrong else {})})
        found = self.held("docs", NEW, difference, 1.0)
        self.row("at the end the name has the source, by vectors of the new encoder", not any(found.values()), found)
        self.twin()

    def twin(self) -> None:
        """A vector of the old space in the new collection is seen: the zeros say something."""
        key, (text, _) = next(iter(self.source.rows.items()))
        old = json.dumps(self.gateway.vectors([text], OLD)[0])
        self.connection.execute("UPDATE docs_2 SET embedding = %s::vector WHERE key = %s", (old, key))
        try:
            search(self.connection, self.gateway, key, text)
            seen = False
        except Mixed:
            seen = True
        self.row("a vector of the old space in the new collection is seen", seen, seen)
        self.connection.close()
