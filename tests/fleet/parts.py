"""The parts of a fleet as processes and threads: a generator that counts its calls, NATS servers,
an S3 server, connections between them that can be cut, workers and checks."""

import collections
import errno
import glob
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import boto3

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


def answers(port, address="127.0.0.1"):
    try:
        socket.create_connection((address, port), 0.2).close()
        return True
    except OSError:
        return False


def completion(body, number=""):
    """The words of a text in another order, and a number."""
    words = [word for word in body["messages"][-1]["content"].split() if word.isalpha()][-14:]
    text = " ".join([*reversed(words), str(number)]).strip() + "."
    if "scale from 0 to 5" in json.dumps(body["messages"]):
        text = "4"
    return completed(text)


def completed(text):
    """A text as the answer of a language model."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}
    return json.dumps(answer).encode()


class Generator:
    """A stub of a language model with OpenAI's API: answers after a pause, with the words of a text in another
    order, or as `answer` says."""

    def __init__(self, pause, varied=False, address="127.0.0.1", answer=completion):
        self.calls, self.in_flight, self.lock = 0, 0, threading.Lock()
        self.port, self.address = free_port(), address
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
                content = answer(body, number if varied else "")
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

        self.server = Server((address, self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def spec(self):
        return f"openai:stub@http://{self.address}:{self.port}/v1"

    def resumes(self, calls):
        """Watches, from now on, for a number of calls; the seconds until then are `resumed`."""
        begun, self.resumed = time.monotonic(), None

        def watch():
            while self.calls < calls:
                time.sleep(0.01)
            self.resumed = time.monotonic() - begun

        threading.Thread(target=watch, daemon=True).start()

    def wait(self, calls):
        until(f"{calls} calls of the generator", lambda: self.calls >= calls, 300)


class Way:
    """A proxy to a port that can be cut (data is lost, connections stay open) and, for HTTP, fail (503).

    With `cuts_before`, it cuts itself before it passes on data with these bytes to the target. With
    `drops`, what is cut is closed, and new connections too, as by a server that restarts. With
    `holds_answer_after`, it passes on these bytes and what follows up to COMMIT, but no answer to that."""

    def __init__(self, target, address="127.0.0.1"):
        self.target, self.is_cut, self.fails = target, False, False
        self.cuts_before, self.holds_answer_after, self.holds, self.drops = None, None, False, False
        self.listener = socket.create_server((address, 0), backlog=256)
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
        while self.is_cut and not self.drops:
            time.sleep(0.1)
        if self.is_cut:
            near.close()
            return
        try:
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            near.close()
            return
        for one, other, to_target in ((near, far, True), (far, near, False)):
            threading.Thread(target=self.pass_on, args=(one, other, to_target), daemon=True).start()

    def pass_on(self, one, other, to_target):
        try:
            while data := one.recv(65536):
                if to_target and self.cuts_before and self.cuts_before in data:
                    self.is_cut, self.cuts_before = True, None
                if to_target and self.holds_answer_after and self.holds_answer_after in data:
                    self.holds, self.holds_answer_after = True, None
                if to_target and self.holds and b"COMMIT" in data and not self.is_cut:
                    self.is_cut, self.holds = True, False
                    other.sendall(data)
                    continue
                while self.is_cut and not self.drops:
                    time.sleep(0.05)
                if self.fails or self.is_cut:
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

    def __init__(self, folder, address="127.0.0.1", stores=None):
        self.folder, self.address = folder, address
        self.stores = stores or folder
        self.ports = [free_port() for _ in range(3)]
        routes = [free_port() for _ in range(3)]
        self.files = []
        for number, (port, route) in enumerate(zip(self.ports, routes)):
            file = folder / f"nats-{number}.conf"
            others = ", ".join(f"nats://127.0.0.1:{other}" for other in routes)
            file.write_text(
                f"server_name: n{number}\nlisten: {address}:{port}\n"
                f"jetstream {{ store_dir: {self.stores}/js{number}, max_mem: 128M, max_file: 1G, sync_interval: always }}\n"
                f"cluster {{ name: c, listen: 127.0.0.1:{route}, routes: [{others}] }}\n"
            )
            self.files.append(file)
        self.servers = [None] * 3
        self.start(range(3))
        # Before that, requests are not answered.
        log = "JetStream cluster new metadata leader"
        logs = [folder / f"nats-{number}.log" for number in range(3)]
        until("a leader of the NATS servers", lambda: any(log in file.read_text() for file in logs), 300)

    def start(self, which):
        for number in which:
            log = open(self.folder / f"nats-{number}.log", "a")
            self.servers[number] = subprocess.Popen(["nats-server", "-c", str(self.files[number])], stdout=log, stderr=log)
        for number in which:
            until("a NATS server", lambda: answers(self.ports[number], self.address))

    def kill(self, which):
        for number in which:
            self.servers[number].kill()
            self.servers[number].wait()

    def leader(self, stream):
        """Name of the server that leads a stream, by its own log."""
        for number in range(3):
            for line in reversed((self.folder / f"nats-{number}.log").read_text().splitlines()):
                if "JetStream cluster new stream leader" in line and stream in line:
                    return number
        return 0

    def wipe(self):
        self.kill(range(3))
        for number in range(3):
            shutil.rmtree(self.stores / f"js{number}", ignore_errors=True)
        time.sleep(1)
        self.start(range(3))

    def url(self, ports=None):
        return ",".join(f"nats://{self.address}:{port}" for port in ports or self.ports)


class S3:
    """moto's server: it honours create-only puts. Its log of requests counts the units of a check."""

    def __init__(self, folder, address="127.0.0.1", more=None):
        self.port, self.address, self.log = free_port(), address, folder / "s3.log"
        log = open(self.log, "a")
        command = [sys.executable, "-m", "moto.server", "-H", address, "-p", str(self.port)]
        self.server = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | (more or {}))
        until("the S3 server", lambda: answers(self.port, address))
        put = urllib.request.Request(f"http://{address}:{self.port}/isomer", method="PUT")
        urllib.request.urlopen(put).read()

    def units(self):
        """Units that were requested, how often each was begun, and those without an answer."""
        begun, answered = collections.Counter(), set()
        request = re.compile(r'"(GET|PUT) /isomer/\S*?/(units|answers|partial)/\S*?([0-9a-f]{64})\S* HTTP/1.1" (\d+)')
        for verb, kind, address, status in request.findall(self.log.read_text()):
            if kind == "units":
                # A worker reads the request of each unit that it begins.
                begun[address] += verb == "GET" and status == "200"
            elif verb == "PUT" and status in ("200", "412"):
                answered.add(address)
        return begun, begun.keys() - answered

    def texts(self):
        """Generated texts that the store has."""
        return len(re.findall(r'"PUT /isomer/\S*?/texts/\S* HTTP/1.1" 200', self.log.read_text()))

    def remove(self, part):
        """Removes everything below a folder of the store."""
        store = boto3.client(
            "s3", endpoint_url=f"http://{self.address}:{self.port}", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
        )
        pages = store.get_paginator("list_objects_v2").paginate(Bucket="isomer")
        names = [entry["Key"] for page in pages for entry in page.get("Contents", []) if f"/{part}/" in entry["Key"]]
        for name in names:
            store.delete_object(Bucket="isomer", Key=name)
        return len(names)

    def stop(self):
        self.server.kill()


def units_in_folder(store):
    """Units that were requested, and how many of them have no answer."""
    named = lambda kind: {re.search("[0-9a-f]{64}", path.name)[0] for path in (store / kind).rglob("*") if path.is_file()}
    units = named("units")
    return len(units), len(units - named("answers") - named("partial"))


class Disk:
    """A small file system of its own, which can be filled."""

    def __init__(self, folder, mebibytes):
        self.folder, self.filler = folder, folder / "filler"
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "isomer-test", folder], check=True)

    def fill(self):
        with open(self.filler, "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self):
        self.filler.unlink()

    def stop(self):
        subprocess.run(["umount", "--lazy", self.folder], check=True)


class Host:
    """A network namespace on a bridge, as a machine of its own. Programs in it reach the services
    of the harness at `SERVICES`, unless it is cut off from one of their ports."""

    SERVICES, made, bridged = "10.77.0.1", 0, False

    @classmethod
    def network(cls):
        """The bridge. The harness has a network namespace of its own (`unshare`), so that nothing stays behind."""
        if not cls.bridged:
            cls.bridged = True
            ip("link", "add", "br0", "type", "bridge")
            ip("address", "add", f"{cls.SERVICES}/24", "dev", "br0")
            ip("link", "set", "br0", "up")

    def __init__(self):
        self.network()
        Host.made += 1
        self.name, end = f"isomer-{Host.made}", f"v{Host.made}"
        ip("netns", "add", self.name)
        ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", end, "master", "br0", "up")
        ip("-n", self.name, "address", "add", f"10.77.0.{Host.made + 1}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        self.address = f"10.77.0.{Host.made + 1}"
        self.inside = ["ip", "netns", "exec", self.name]

    def cut(self, ports, seconds):
        """Loses every packet from and to these ports for a time, as a broken cable does: nothing is refused."""
        rules = [
            [chain, "-p", "tcp", end, str(port), "-j", "DROP"]
            for port in ports
            for chain, end in (("OUTPUT", "--dport"), ("INPUT", "--sport"))
        ]
        for rule in rules:
            subprocess.run([*self.inside, "iptables", "-w", "-A", *rule], check=True)
        time.sleep(seconds)
        for rule in rules:
            subprocess.run([*self.inside, "iptables", "-w", "-D", *rule], check=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def at_another_hour(hours):
    """Settings of a process whose clock is off (Debian's faketime)."""
    libraries = [Path(found) for found in glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")]
    if not libraries:
        raise SystemExit("no libfaketime; apt-get install faketime")
    return {"LD_PRELOAD": str(libraries[0]), "FAKETIME": f"{hours:+}h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def of_another_version(isomer, folder):
    """A copy of the program that says that it is of another version, and its name for that version."""
    program = bytearray(Path(isomer).read_bytes())
    said = subprocess.run([isomer, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    other = said[:-1] + ("9" if said[-1] != "9" else "8")
    sections = subprocess.run(["readelf", "-SW", isomer], capture_output=True, text=True, check=True).stdout
    offset, size = (int(text, 16) for text in re.search(r"\.rodata +PROGBITS +\w+ +(\w+) +(\w+)", sections).groups())
    whole = re.compile(rb"(?<![0-9.])" + re.escape(said.encode()) + rb"(?![0-9])")
    places = [found.start() for found in whole.finditer(bytes(program[offset : offset + size]))]
    for place in places:
        program[offset + place : offset + place + len(said)] = other.encode()
    copy = folder / "isomer-of-another-version"
    copy.write_bytes(program)
    copy.chmod(0o755)
    return copy, other


def environment(home, more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ISOMER_")}
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
    return kept | keys | {"ISOMER_HOME": str(home), "ISOMER_OFFLINE": "1"} | more


def home(folder):
    folder.mkdir(parents=True, exist_ok=True)
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

    def wait(self, seconds=900):
        return self.process.wait(seconds)
