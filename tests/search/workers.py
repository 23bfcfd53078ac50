"""A fleet that encodes for `isomer index run`: a NATS server and two workers, killed at random moments. See tests/search/run."""

from __future__ import annotations

import pathlib
import random
import re
import signal

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

    def faults(self, draw: random.Random) -> dict:
        """Faults by name: one part is killed and started again."""
        return {"worker killed": lambda: draw.choice(self.workers).again(), "queue killed": self.nats.again}

    def stop(self) -> int:
        """Ends all processes, and returns how many units the two workers have answered since they were last started."""
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
