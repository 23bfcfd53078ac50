"""The parts of a fleet as processes and threads: a generator that counts its calls, NATS servers,
an S3 server, connections between them that can be cut, workers and checks."""

import http.server
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

ENCODERS = ["all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, holds, seconds=60):
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > seconds:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
        return True
    except OSError:
        return False


class Generator:
    """A stub of a language model with OpenAI's API: returns the words of a text in another order, after a pause."""

    def __init__(self, pause, varied=False):
        self.calls, self.in_flight, self.lock = 0, 0, threading.Lock()
        self.port = free_port()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer.lock:
                    outer.calls += 1
                    outer.in_flight += 1
                    number = outer.calls
                time.sleep(pause)
                words = [word for word in body["messages"][-1]["content"].split() if word.isalpha()][-14:]
                text = " ".join(reversed(words)) + (f" {number}" if varied else "") + "."
                if "scale from 0 to 5" in json.dumps(body["messages"]):
                    text = "4"
                message = {"role": "assistant", "content": text}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}
                content = json.dumps(answer).encode()
                try:
                    self.send_response(200)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass  # The caller has disconnected.
                with outer.lock:
                    outer.in_flight -= 1

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 512
            daemon_threads = True

            def handle_error(self, *_):
                pass  # A killed worker breaks its connections.

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def spec(self):
        return f"openai:stub@http://127.0.0.1:{self.port}/v1"

    def wait(self, calls):
        until(f"{calls} calls of the generator", lambda: self.calls >= calls, 120)


class Way:
    """A proxy to a port that can be cut (data is lost, connections stay open) and, for HTTP, fail (503)."""

    def __init__(self, target):
        self.target, self.is_cut, self.fails = target, False, False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        if self.fails:
            try:
                near.settimeout(2)
                near.recv(65536)
                near.sendall(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            except OSError:
                pass
            near.close()
            return
        while self.is_cut:
            time.sleep(0.1)
        try:
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        try:
            while data := one.recv(65536):
                while self.is_cut:
                    time.sleep(0.05)
                if self.fails:
                    break
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Nats:
    """Three replicating servers, each of which syncs every write to disk."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = [free_port() for _ in range(3)]
        routes = [free_port() for _ in range(3)]
        self.files = []
        for number, (port, route) in enumerate(zip(self.ports, routes)):
            file = folder / f"nats-{number}.conf"
            others = ", ".join(f"nats://127.0.0.1:{other}" for other in routes)
            file.write_text(
                f"server_name: n{number}\nlisten: 127.0.0.1:{port}\n"
                f"jetstream {{ store_dir: {folder}/js{number}, max_mem: 128M, max_file: 1G, sync_interval: always }}\n"
                f"cluster {{ name: c, listen: 127.0.0.1:{route}, routes: [{others}] }}\n"
            )
            self.files.append(file)
        self.servers = [None] * 3
        self.start(range(3))

    def start(self, which):
        for number in which:
            log = open(self.folder / f"nats-{number}.log", "a")
            self.servers[number] = subprocess.Popen(["nats-server", "-c", str(self.files[number])], stdout=log, stderr=log)
        for number in which:
            until("a NATS server", lambda: answers(self.ports[number]))

    def kill(self, which):
        for number in which:
            self.servers[number].kill()
            self.servers[number].wait()

    def leader(self, stream):
        """Which server leads a stream, by its own log."""
        for number in range(3):
            for line in reversed((self.folder / f"nats-{number}.log").read_text().splitlines()):
                if "JetStream cluster new stream leader" in line and stream in line:
                    return number
        return 0

    def wipe(self):
        self.kill(range(3))
        for number in range(3):
            shutil.rmtree(self.folder / f"js{number}", ignore_errors=True)
        time.sleep(1)
        self.start(range(3))

    def url(self, ports=None):
        return ",".join(f"nats://127.0.0.1:{port}" for port in ports or self.ports)


class S3:
    """moto's server: it honours create-only puts."""

    def __init__(self, folder):
        self.port = free_port()
        log = open(folder / "s3.log", "a")
        self.server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)], stdout=log, stderr=log)
        until("the S3 server", lambda: answers(self.port))
        put = urllib.request.Request(f"http://127.0.0.1:{self.port}/isomer", method="PUT")
        urllib.request.urlopen(put).read()

    def stop(self):
        self.server.kill()


def environment(home, more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ISOMER_")}
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
    return kept | keys | {"ISOMER_HOME": str(home), "ISOMER_OFFLINE": "1"} | more


def home(folder):
    folder.mkdir(parents=True)
    machine = Path(os.environ.get("ISOMER_HOME", Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "isomer"))
    (folder / "models").symlink_to(machine / "models")
    return folder


class Process:
    """An isomer command."""

    def __init__(self, name, command, folder, more, before=()):
        self.folder = home(folder / name)
        self.log = self.folder / "log"
        self.out = self.folder / "out"
        self.process = subprocess.Popen(
            [*before, *map(str, command)], stdout=open(self.out, "w"), stderr=open(self.log, "w"), env=environment(self.folder, more)
        )

    def signal(self, name):
        self.process.send_signal(getattr(signal, name))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait(self, seconds=300):
        return self.process.wait(seconds)
