#!/usr/bin/env python3
"""Runs `examples/compose` without a container engine: every service as a process of this machine, in the order and with the
commands, variables, configurations and probes of the file, on ports of its own in place of host names. A check is then done by
the two workers. `tests/compose/run --processes` starts PostgreSQL and NATS for it."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from check import FOLDER, configuration, mounts, program

PATIENCE = 300


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Machine:
    def __init__(self, isomer, postgres, nats, scratch):
        self.isomer, self.postgres, self.nats, self.scratch = isomer, postgres, nats, Path(scratch)
        self.services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
        self.ports = {name: free_port() for name in self.services}
        # A worker listens with --metrics-listen; each copy has a port of its own.
        self.running = []
        subprocess.run([FOLDER / "prepare", scratch], check=True, capture_output=True)
        self.secrets = dict(line.split("=", 1) for line in (self.scratch / ".env").read_text().splitlines())
        models = Path(os.environ.get("ISOMER_HOME") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "isomer")
        self.folders = {"/var/lib/isomer-store": self.scratch / "store", "/var/lib/isomer-state": self.scratch / "state", "/var/lib/isomer": self.scratch / "home"}
        for folder in self.folders.values():
            folder.mkdir()
        (self.scratch / "home/models").symlink_to(models / "models")

    def text(self, text, name, port):
        """A configuration, an argument or a variable with this machine's ports and folders."""
        text = text.replace("0.0.0.0:50051", f"127.0.0.1:{port}").replace("0.0.0.0:9464", f"127.0.0.1:{port}").replace("127.0.0.1:9464", f"127.0.0.1:{port}")
        for other, at in self.ports.items():
            text = text.replace(f"{other}:50051", f"127.0.0.1:{at}")
        text = text.replace("nats://nats:4222", self.nats)
        text = re.sub(r"postgres://isomer:[^@]*@postgres/isomer", lambda _: self.postgres, text)
        for inside, outside in self.folders.items():
            text = re.sub(rf"{inside}(?=[\"/]|$)", str(outside), text)
        return re.sub(r"\$\{([A-Z_]+)[^}]*\}", lambda found: self.secrets[found[1]], text)

    def command(self, name, port, arguments):
        """A command of a service on this machine, and its environment."""
        service = self.services[name]
        _, path = program(service)
        for target, source in mounts(service).items():
            if source.startswith("./keys/"):
                arguments = [argument.replace(target, str(self.scratch / source)) for argument in arguments]
        file = configuration(service, FOLDER)
        here = self.scratch / f"{name}-{port}.toml"
        here.write_text(self.text(file.read_text(), name, port))
        arguments = [re.sub(r"--config=\S+", f"--config={here}", self.text(argument, name, port)) for argument in arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.scratch)}
        environment |= {key: self.text(value, name, port) for key, value in service.get("environment", {}).items()}
        return [str(self.isomer.parent / path.rsplit("/", 1)[1]), *arguments], environment

    def start(self, name, port):
        service = self.services[name]
        command, environment = self.command(name, port, service["command"])
        log = (self.scratch / f"{name}-{port}.log").open("w")
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.running.append((f"{name}-{port}", process))
        probe = service["healthcheck"]["test"]
        # CMD, the program, its arguments.
        asked, environment = self.command(name, port, probe[2:])
        until = time.monotonic() + PATIENCE
        while subprocess.run(asked, env=environment, capture_output=True).returncode:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} is not healthy: {(self.scratch / f'{name}-{port}.log').read_text()[-2000:]}")
            time.sleep(0.5)
        print(f"{name}: healthy")

    def finish(self, name):
        command, environment = self.command(name, self.ports[name], self.services[name]["command"])
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name} ends with {done.returncode}: {done.stderr}")
        print(f"{name}: done")

    def order(self):
        """The services of our images, each after those that it waits for."""
        ours = [name for name, service in self.services.items() if program(service) and name != "models"]
        done = []
        while len(done) < len(ours):
            ready = [name for name in ours if name not in done and all(one in done or one not in ours for one in self.services[name].get("depends_on", {}))]
            done += ready
            if not ready:
                raise SystemExit("services wait for each other in a circle")
        return done

    def up(self):
        for name in self.order():
            service = self.services[name]
            if "healthcheck" not in service:
                self.finish(name)
                continue
            for copy in range(service.get("deploy", {}).get("replicas", 1)):
                self.start(name, self.ports[name] if copy == 0 else free_port())

    def ask(self, *arguments, key="admin"):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.scratch), "ISOMER_SERVER": f"127.0.0.1:{self.ports['gateway']}"}
        if key:
            environment["ISOMER_API_KEY"] = (self.scratch / "keys" / key).read_text().strip()
        return subprocess.run([self.isomer, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE)

    def down(self):
        codes = {}
        for name, process in reversed(self.running):
            if process.poll() is None:
                process.terminate()
            try:
                codes[name] = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = "killed after 60 s"
        return {name: code for name, code in codes.items() if code}


def main():
    isomer, postgres, nats = Path(os.environ["ISOMER"]).resolve(), sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:
        machine = Machine(isomer, postgres, nats, scratch)
        try:
            machine.up()
            check = ["check", "--suite", "quick", "--transformation", "stopword_removal", "--no-suite-rules", "--generator", "none", "--limit", "8",
                     "--model", "all-MiniLM-L6-v2", "--quiet", "--format", "json", "--out", f"{scratch}/report"]
            refused = machine.ask(*check, key=None)
            if refused.returncode == 0:
                raise SystemExit("a check without a key is done")
            done = machine.ask(*check)
            if done.returncode:
                raise SystemExit(f"the check ends with {done.returncode}: {done.stderr}")
            told = machine.ask("fleet", "--format", "json")
            fleet = json.loads(told.stdout)
            encoded = [lane for lane in fleet["lanes"] if lane["kind"] == "encode"]
            if len(fleet["workers"]) != 2 or not encoded or fleet["waits"]:
                raise SystemExit(f"the fleet is {told.stdout}")
        finally:
            ended = machine.down()
        if ended:
            raise SystemExit(f"ended at SIGTERM with {ended}")
    print("a check was done by two workers; it is refused without a key; all ended at SIGTERM with 0")


if __name__ == "__main__":
    main()
