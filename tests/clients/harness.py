"""The processes of the check: services, the provider in Python, the stub servers, gateways; and the command line beside them."""

import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATIENCE_SECONDS = 120


class Failed(Exception):
    """A process failed or did not start."""


class Process:
    """A child that prints its address in the first line that begins with `mark`; its output is kept for error messages."""

    def __init__(self, name, command, environment, mark):
        self.name, self.lines, self._told = name, [], queue.Queue()
        self.child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, args=(mark,), daemon=True).start()

    def _read(self, mark):
        for line in self.child.stdout:
            self.lines.append(line)
            if line.startswith(mark):
                self._told.put(line.split())
        self._told.put(None)

    def words(self):
        """The words of the line."""
        try:
            told = self._told.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            told = None
        if told is None:
            raise Failed(f"{self.name} did not start:\n{self.tail()}")
        return told

    def tail(self):
        return "".join(self.lines[-30:])

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


class Harness:
    """Starts and stops all processes. Each has a separate home folder; the models are the machine's."""

    def __init__(self, isomer):
        self.isomer = str(pathlib.Path(isomer).resolve())
        machine = os.environ.get("ISOMER_HOME") or pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "isomer"
        self.models = pathlib.Path(machine) / "models"
        self._folder = tempfile.TemporaryDirectory(prefix="isomer-clients-")
        self.folder = pathlib.Path(self._folder.name)
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        for process in reversed(self.processes):
            process.stop()
        if kind is not None and not issubclass(kind, KeyboardInterrupt):
            for process in self.processes:
                if process.lines:
                    print(f"--- {process.name}\n{process.tail()}", file=sys.stderr)
        self._folder.cleanup()

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def environment(self, home, **more):
        """The environment: none of the caller's settings, offline, a separate home."""
        folder = self.folder / home
        if not folder.exists():
            folder.mkdir()
            (folder / "models").symlink_to(self.models)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ISOMER_")}
        return {**kept, "ISOMER_HOME": str(folder), "ISOMER_OFFLINE": "1", **more}

    def _start(self, name, command, environment, mark):
        process = Process(name, command, environment, mark)
        self.processes.append(process)
        return process

    def serve(self, home, *arguments, **environment):
        """Starts `isomer serve` on a free port; returns its address."""
        command = [self.isomer, "serve", "--listen", "127.0.0.1:0", *arguments]
        return self._start(home, command, self.environment(home, **environment), "isomer serves ").words()[-1]

    def stubs(self):
        """Starts the stub servers; returns their addresses over HTTP and over gRPC."""
        process = self._start("stubs", [sys.executable, str(HERE / "stubs.py")], dict(os.environ), "listening on ")
        return process.words()[-2:]

    def python_provider(self, gateway):
        """The provider in Python, which registers itself."""
        script = HERE.parent / "python/provider/provider.py"
        command = [sys.executable, str(script), "--register", gateway]
        self._start("provider", command, dict(os.environ), "registered as ").words()

    def run(self, home, *arguments, **environment):
        """Runs a command of `isomer` to its end; returns its output."""
        done = subprocess.run(
            [self.isomer, *arguments],
            env=self.environment(home, **environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        if done.returncode != 0:
            raise Failed(f"isomer {' '.join(arguments[:3])} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout
