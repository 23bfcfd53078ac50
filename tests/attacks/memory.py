#!/usr/bin/env python3
"""The largest legal request to each rpc and route, 32 at once from two callers, against the memory budget of the server.

Each row has a server of its own. It holds if the most memory that the server had (VmHWM) is at most what it has when idle, and 120 % of `server.limits.max_bytes_in_flight`.
In the last row, clients ask for large answers and read none.

    tests/attacks/run memory
    tests/attacks/run memory --only TaskService

Prints for each row the bytes of a request; how many calls were answered with OK, refused, and cut off after 6 s; the MiB of the idle server and the peak above that; and the
longest answer of `/healthz` in milliseconds, asked by a process of its own. Exits with 1 if a peak is above the bound.
"""

import argparse
import collections
import concurrent.futures
import http.client
import multiprocessing
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
import time

import subject

import grpc
from isomer_stubs import channel, generated_stubs
from legal import Requests

AT_ONCE, CALLERS, DEADLINE, QUIET = 32, 2, 6, 5
WIDE, WIDTH, UNREAD, UNREAD_TEXTS = "wide", 4096, 100, 200


class Models(subject.Models):
    """One encoder has wide vectors, for large answers to small requests."""

    def embed(self, body):
        if body["model"] != WIDE:
            return super().embed(body)
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [{"object": "embedding", "index": at, "embedding": [0.015625] * WIDTH} for at in range(len(texts))]
        return {"object": "list", "model": WIDE, "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


class Health:
    """The longest answer of `/healthz` since it was last asked for, in milliseconds."""

    def __init__(self, address):
        self.longest, self.stop = multiprocessing.Value("d", 0.0), multiprocessing.Event()
        self.process = multiprocessing.Process(target=self.watch, args=(address,), daemon=True)
        self.process.start()

    def watch(self, address):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while not self.stop.is_set():
            begun, connection = time.monotonic(), http.client.HTTPConnection(address, timeout=60)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            except OSError:
                pass
            connection.close()
            passed = (time.monotonic() - begun) * 1000
            self.longest.value = max(self.longest.value, passed)
            self.stop.wait(0.02)

    def taken(self):
        longest, self.longest.value = self.longest.value, 0.0
        return longest


class Process:
    """Memory and CPU time of a process, as /proc has them."""

    def __init__(self, pid):
        self.folder = pathlib.Path(f"/proc/{pid}")

    def kibibytes(self, field):
        lines = (self.folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field))

    def forget_peak(self):
        (self.folder / "clear_refs").write_text("5")

    def cpu_seconds(self):
        fields = (self.folder / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def is_quiet(self, seconds):
        """Whether it does nothing within some seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            before = self.cpu_seconds()
            time.sleep(0.2)
            if self.cpu_seconds() - before <= 0.03:
                return True
        return False


def called(address, row, body, key):
    """`ok`, `refused` or `cut`."""
    return posted(address, row.path, body, key) if row.is_http else asked(address, row.path, body, key)


def asked(address, path, body, key, deadline=DEADLINE):
    with channel(address, own_connection=True) as connection:
        call = connection.unary_unary(path, request_serializer=None, response_deserializer=None)
        try:
            call(body, metadata=[("authorization", f"Bearer {key}")], timeout=deadline)
            return "ok"
        except grpc.RpcError as error:
            return "cut" if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED else "refused"


def head(path, body, key):
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()


def posted(address, path, body, key, deadline=DEADLINE):
    host, port = address.rsplit(":", 1)
    answer, until = b"", time.monotonic() + deadline
    try:
        with socket.create_connection((host, int(port)), deadline) as connection:
            try:
                connection.sendall(head(path, body, key))
                connection.sendall(body)
            except TimeoutError:
                return "cut"
            except OSError:
                pass  # It was answered before it was read.
            while part := connection.recv(1 << 20):
                answer = answer or part
                connection.settimeout(max(0.1, until - time.monotonic()))
    except TimeoutError:
        return "cut"
    except OSError:
        pass
    return "ok" if b" 200 " in answer[:20] else "refused"


def unread(address, keys, seconds):
    """Asks for large answers on many connections, and reads nothing."""
    body = b'{"model": "wide", "input": [%s]}' % b", ".join(b'"text %d"' % number for number in range(UNREAD_TEXTS))
    host, port = address.rsplit(":", 1)
    connections = []
    for number in range(UNREAD):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, int(port)))
        connection.sendall(head("/v1/embeddings", body, keys[number % len(keys)]) + body)
        connections.append(connection)
    time.sleep(seconds)
    answered = collections.Counter()
    for connection in connections:
        connection.setblocking(False)
        try:
            answered["ok" if b" 200 " in connection.recv(20) else "refused"] += 1
        except OSError:
            answered["cut"] += 1
        connection.close()
    return len(body), answered


class Attack:
    """Rows one after another, each on a server of its own unless `keeps_server`."""

    def __init__(self, arguments, modules, folder):
        self.modules, self.bound, self.keeps_server = modules, arguments.mebibytes * 1.2, arguments.one_server
        more = f"[server.limits]\nmax_bytes_in_flight = {arguments.mebibytes << 20}\n"
        self.gateway = subject.Gateway(arguments.isomer, folder / "home", folder, Models(), more, {WIDE: WIDE})
        self.root, self.keys, self.broken, self.health = self.gateway.admin(), None, [], None
        self.rows = [row for row in Requests(modules).all() if arguments.only in row.name]

    def start(self, rows):
        """Starts a server, loads what the first calls load, and takes its idle memory."""
        self.gateway.start()
        if not self.keys:
            api = subject.Api(self.gateway, self.modules, self.root)
            scopes = ("ENCODE", "TRANSFORM", "EVALUATE", "ADMIN")
            self.keys = [api.new_key(f"caller {number}", scopes).secret for number in range(CALLERS)]
        self.health = self.health or Health(self.gateway.address)
        for row in rows:
            called(self.gateway.address, row, row.body(0), self.keys[0])
        self.process = Process(self.gateway.process.pid)
        self.process.is_quiet(QUIET)
        self.idle = self.process.kibibytes("VmRSS") / 1024

    def stop(self):
        self.gateway.kill()
        self.gateway.process.wait()

    def run(self, only):
        unread_name = "answers that nobody reads"
        works = [(row.name, [row], lambda row=row: self.storm(row)) for row in self.rows]
        if only in unread_name:
            works.append((unread_name, [], lambda: unread(self.gateway.address, self.keys, DEADLINE)))
        if self.keeps_server:
            self.start(self.rows)
        for name, rows, work in works:
            if not self.keeps_server:
                self.start(rows)
            self.row(name, work)
            if not self.keeps_server:
                self.stop()
        if self.keeps_server:
            self.stop()
        return len(works)

    def row(self, name, work):
        self.process.forget_peak()
        self.health.taken()
        size, outcomes = work()
        peak, delay = self.process.kibibytes("VmHWM") / 1024 - self.idle, self.health.taken()
        note = "" if peak <= self.bound else f"  BROKEN: above {self.bound:.0f} MiB"
        self.broken += [name] if note else []
        if outcomes["cut"] and not self.process.is_quiet(QUIET):
            note += f"  works on {QUIET} s after its callers left"
        calls = "/".join(str(outcomes[kind]) for kind in ("ok", "refused", "cut"))
        print(f"{name:75.75} {size:>10} {calls:>9} {self.idle:>5.0f} {peak:>7.0f} {delay:>7.0f}{note}", flush=True)

    def storm(self, row):
        body = row.body(1)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            calls = [pool.submit(called, self.gateway.address, row, body, self.keys[n % CALLERS]) for n in range(AT_ONCE)]
            return len(body), collections.Counter(call.result() for call in calls)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the isomer command; tests/attacks/run gives it")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    parser.add_argument("--mebibytes", type=int, default=512, help="server.limits.max_bytes_in_flight")
    parser.add_argument("--one-server", action="store_true", help="all rows on one server, which may keep memory from one to the next")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="isomer-memory-"))
    with generated_stubs() as modules:
        attack = Attack(arguments, modules, folder)
        print(f"{'route':75} {'bytes':>10} {'ok/no/cut':>9} {'idle':>5} {'MiB':>7} {'ms':>7}")
        try:
            rows = attack.run(arguments.only)
        finally:
            attack.stop()
            shutil.rmtree(folder)
    print(f"\n{len(attack.broken)} of {rows} rows are above {attack.bound:.0f} MiB")
    sys.exit(1 if attack.broken else 0)


if __name__ == "__main__":
    main()
