"""A fleet that encodes for `isomer index run`: a NATS server and two workers, killed at random moments. See tests/search/run."""

from __future__ import annotations

import pathlib
import random
import re
import signal
import subprocess

from stores import Listening, Process, free_port


class Fleet:
    """Two workers, a queue, and the store that they share."""

    def __init__(self, isomer: str, folder: pathlib.Path):
        self.store = folder / "fleet-store"
        port = free_port()
        self.nats = Listening(["nats-server", "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(folder / "jetstream")], str(port),
                              folder / "nats.log")
        self.flags = ["--engine", f"nats://127.0.0.1:{port}", "--store", str(self.store)]
        # A worker that is gone is noticed within seconds.
        self.environment = {"ISOMER_FLEET__LEASE_SECONDS": "3", "ISOMER_FLEET__REPUBLISH_SECONDS": "1", "ISOMER_LOG": "info"}
        self.workers = []
        for number in range(2):
            health = free_port()
            command = [isomer, "worker", *self.flags, "--lanes", "transform=2,encode=1", "--metrics-listen", f"127.0.0.1:{health}"]
            self.workers.append(Process(command, f"http://127.0.0.1:{health}/readyz", folder / f"worker-{number}.log", self.environment))

    def start(self) -> None:
        self.nats.start()
        for worker in self.workers:
            worker.start()

    def fail(self, draw: random.Random) -> str:
        """One part is killed and started again."""
        what = draw.choice(["worker", "worker", "queue"])
        part = self.nats if what == "queue" else draw.choice(self.workers)
        part.kill()
        part.start()
        return f"{what} killed"

    def stop(self) -> int:
        """Ends all, and tells how many units the two workers say that they have answered since they were last started."""
        done = 0
        for worker in self.workers:
            if worker.process is None:
                continue
            worker.process.send_signal(signal.SIGTERM)
            worker.process.wait(60)
            told = re.findall(r"drained and stopped.*?done\W+(\d+)", re.sub(r"\x1b\[[0-9;]*m", "", worker.log.read_text()))
            done += int(told[-1]) if told else 0
            worker.process = None
        self.nats.kill()
        return done

    def left(self) -> int:
        """Requests and answers of units in the store, whose texts somebody could read."""
        return sum(path.is_file() for kind in ("units", "answers", "claims", "partial") for path in (self.store / kind).rglob("*"))


def backfill(fleet: Fleet, index, draw: random.Random) -> dict[str, int]:
    """Fills a collection while parts are killed, and says what happened."""
    happened: dict[str, int] = {}
    slow = ["--rows-per-second", "150"]
    started = index.start(*slow)
    for _ in range(8):
        try:
            started.wait(draw.uniform(0.5, 3.0))
            break
        except subprocess.TimeoutExpired:
            pass
        if draw.random() < 0.3:
            kind = "run killed"
            started.kill()
            started.wait()
            started = index.start(*slow)
        else:
            kind = fleet.fail(draw)
        happened[kind] = happened.get(kind, 0) + 1
    started.communicate(timeout=1800)
    index.run()
    return happened
