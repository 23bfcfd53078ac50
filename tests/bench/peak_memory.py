#!/usr/bin/env python3
"""Peak memory of a server under requests that are made to fill it, each on a separate server.

    pip install -r tests/python/requirements.txt
    python tests/bench/peak_memory.py --isomer target/release/isomer [--case WORD]
    python tests/bench/peak_memory.py --isomer target/release/isomer --load all-MiniLM-L6-v2 [--repeats N]

Prints one line per case: MiB sent; resident memory before, in MiB; how far the peak was above that; seconds; the server's answer. The limits are the
defaults of `isomer serve`. The half-sent and idle calls of health need no key; the other cases are requests of an authorised caller.

`--load MODEL` measures loading a model instead, one line per start: MiB of its weights; seconds from the start of `isomer serve` until it listens,
and from there to the first vector; resident memory then, in total and of mapped files, and its peak, in MiB.
"""

import argparse
import gzip
import json
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import grpc
from server import serve

MODEL = "paraphrase-MiniLM-L3-v2"
MIB = 1 << 20


class Server:
    def __init__(self, isomer, home, model=MODEL):
        self.process, self.address = serve(isomer, home, ["--model", model])

    def resident(self, field):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(field))
        return int(line.split()[1]) / 1024

    def begin(self):
        """Resets the recorded peak."""
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.resident("VmRSS")

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    """A length-delimited field of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


class Http2:
    """The parts of HTTP/2 that are needed to send half of a call."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.authority = address.encode()
        self.changed = threading.Condition()
        self.initial, self.connection, self.streams = 65_535, 65_535, {}
        self.stream, self.sent, self.closed = -1, 0, None
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(4, 0, 0, b""))
        threading.Thread(target=self.read, daemon=True).start()

    @staticmethod
    def frame(kind, flags, stream, content):
        return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content

    def exactly(self, count):
        parts = b""
        while len(parts) < count:
            more = self.socket.recv(count - len(parts))
            if not more:
                raise ConnectionError("closed")
            parts += more
        return parts

    def read(self):
        try:
            while True:
                head = self.exactly(9)
                length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
                content = self.exactly(length)
                with self.changed:
                    if kind == 4 and not flags & 1:
                        for at in range(0, length, 6):
                            name, value = struct.unpack(">HI", content[at : at + 6])
                            if name == 4:
                                self.initial = value
                        self.socket.sendall(self.frame(4, 1, 0, b""))
                    elif kind == 6 and not flags & 1:
                        self.socket.sendall(self.frame(6, 1, 0, content))
                    elif kind == 8:
                        more = int.from_bytes(content, "big")
                        if stream:
                            self.streams[stream] = self.streams.get(stream, 0) + more
                        else:
                            self.connection += more
                    elif kind in (3, 7):
                        self.closed = "reset" if kind == 3 else "goaway"
                    self.changed.notify_all()
        except OSError as error:
            with self.changed:
                self.closed = self.closed or str(error)
                self.changed.notify_all()

    def call(self, path, message, end):
        """Opens a stream with a gRPC message, or as much of it as the server accepts within a second."""
        text = lambda value: bytes([len(value)]) + value  # noqa: E731
        headers = b"\x83\x86" + b"\x04" + text(path.encode()) + b"\x01" + text(self.authority)
        headers += b"\x0f\x10" + text(b"application/grpc") + b"\x00" + text(b"te") + text(b"trailers")
        self.stream += 2
        stream, at = self.stream, 0
        self.socket.sendall(self.frame(1, 4, stream, headers))
        while at < len(message):
            with self.changed:
                room = lambda: min(self.connection, self.initial + self.streams.get(stream, 0))  # noqa: E731
                if not self.changed.wait_for(lambda: room() > 0 or self.closed, timeout=1) or self.closed:
                    return
                part = message[at : at + min(room(), 16_384)]
                self.connection -= len(part)
                self.streams[stream] = self.streams.get(stream, 0) - len(part)
            at += len(part)
            last = end and at == len(message)
            self.socket.sendall(self.frame(0, int(last), stream, part))
            self.sent += len(part)


def half_sent(server, path, streams, size, connections=1):
    """Calls whose last byte is never sent."""
    message = b"\x00" + struct.pack(">I", size) + bytes(size - 1)
    held = [Http2(server.address) for _ in range(connections)]
    for _ in range(streams // connections):
        for one in held:
            try:
                one.call(path, message, end=False)
            except OSError:
                pass
    time.sleep(3)
    return sum(one.sent for one in held), f"{sum(1 for one in held if one.closed)} of {connections} connections closed or reset"


def polite_watches(server, connections, streams):
    held = []
    for _ in range(connections):
        one = Http2(server.address)
        held.append(one)
        for _ in range(streams):
            try:
                one.call("/grpc.health.v1.Health/Watch", bytes(5), end=True)
            except OSError:
                break
    time.sleep(3)
    return sum(one.sent for one in held), f"{sum(1 for one in held if one.closed)} of {connections} connections closed or reset"


def grpc_call(server, path, message, compression=None):
    with grpc.insecure_channel(server.address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        call = channel.unary_unary(path, lambda raw: raw, lambda raw: raw)
        try:
            answer = call(message, timeout=120, compression=compression)
            return len(message), f"answered {len(answer)} bytes"
        except grpc.RpcError as error:
            return len(message), f"{error.code().name}: {error.details()[:90]}"


def post(server, path, body):
    request = urllib.request.Request(f"http://{server.address}{path}", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return len(body), f"answered {len(answer.read())} bytes"
    except urllib.error.HTTPError as error:
        return len(body), f"{error.code}: {error.read()[:110].decode(errors='replace')}"
    except OSError as error:
        return len(body), f"{error}"


ENCODE = "/isomer.encoder.v1.EncoderService/Encode"
TOKENIZE = "/isomer.encoder.v1.EncoderService/Tokenize"
TRANSFORM = "/isomer.transform.v1.TransformService/Transform"
SCORE = "/isomer.eval.v1.TaskService/Score"


def empty_items(size):
    # TransformRequest.items = 2, each of zero bytes.
    return b"\x12\x00" * (size // 2)


def empty_inputs(size):
    # EncodeRequest.inputs = 2.
    return field(1, MODEL.encode()) + b"\x12\x00" * (size // 2)


def texts(count, size):
    """An EncodeRequest whose texts are words of one letter."""
    one = field(2, field(1, b"a " * (size // 2)))
    return field(1, MODEL.encode()) + one * count


def tokenized(count, size):
    return field(1, MODEL.encode()) + field(2, b"a " * (size // 2)) * count


def inline(content, limit=0):
    """ScoreRequest of STS over an inline file: dataset = 5 (dataset = 1 (inline = 4), encoder_id = 2, limit = 3)."""
    reference = field(4, field(1, field(1, b"test.jsonl.gz") + field(2, content)))
    dataset = field(1, reference) + field(2, MODEL.encode())
    if limit:
        dataset += varint(3 << 3) + varint(limit)
    return varint(1 << 3) + varint(1) + field(5, dataset)


def zeros_gz(size):
    packer, out = zlib.compressobj(9, zlib.DEFLATED, 31), []
    for _ in range(size // MIB):
        out.append(packer.compress(b"a" * MIB))
    return b"".join([*out, packer.flush()])


def rows_gz(size):
    row = json.dumps({"sentence1": "A cat sleeps.", "sentence2": "A cat is asleep.", "score": 5}).encode() + b"\n"
    return gzip.compress(row * (size // len(row)))


def json_list(element, size):
    return b'{"model":"' + MODEL.encode() + b'","input":[' + b",".join([element] * (size // (len(element) + 1))) + b"]}"


def sends(path, make, compression=None):
    """A gRPC call whose message is built before timing begins."""

    def prepare():
        message = make()
        return lambda server: grpc_call(server, path, message, compression)

    return prepare


def posts(path, make):
    def prepare():
        body = make()
        return lambda server: post(server, path, body)

    return prepare


CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
CASES = {
    "health: 300 half-sent Watch calls of 2 MB, 1 connection": lambda: lambda s: half_sent(s, WATCH, 300, 2_000_000),
    "health: 60 half-sent Check calls of 1 MB, 1 connection": lambda: lambda s: half_sent(s, CHECK, 60, 1_000_000),
    "health: 100 connections with a half-sent Check of 1 MB each": lambda: lambda s: half_sent(s, CHECK, 100, 1_000_000, 100),
    "health: 10 connections with 4,000 polite Watch calls each": lambda: lambda s: polite_watches(s, 10, 4000),
    "Transform: 16 MiB of empty items, gzip": sends(TRANSFORM, lambda: empty_items(16 * MIB), grpc.Compression.Gzip),
    "Transform: 31 MiB of empty items, gzip": sends(TRANSFORM, lambda: empty_items(31 * MIB), grpc.Compression.Gzip),
    "Encode: 31 MiB of empty inputs": sends(ENCODE, lambda: empty_inputs(31 * MIB)),
    "Encode: one text of 31 MiB": sends(ENCODE, lambda: texts(1, 31 * MIB)),
    "Encode: 124 texts of 256 KiB": sends(ENCODE, lambda: texts(124, MIB // 4)),
    "Encode: 4,000 texts after a prompt of 1 MiB": sends(ENCODE, lambda: texts(4000, 2) + field(4, b"a " * (MIB // 2))),
    "Tokenize: 124 texts of 256 KiB": sends(TOKENIZE, lambda: tokenized(124, MIB // 4)),
    "Tokenize: 63 texts of 256 KiB": sends(TOKENIZE, lambda: tokenized(63, MIB // 4)),
    "Tokenize: 4 texts of 256 KiB": sends(TOKENIZE, lambda: tokenized(4, MIB // 4)),
    "/v1/embeddings: 31 MiB of empty texts": posts("/v1/embeddings", lambda: json_list(b'""', 31 * MIB)),
    "/v1/embeddings: 31 MiB of empty lists": posts("/v1/embeddings", lambda: json_list(b"[]", 31 * MIB)),
    "/predict: 31 MiB of empty texts": posts("/predict", lambda: b'{"inputs":[' + b",".join([b'""'] * (31 * MIB // 3)) + b"]}"),
    "Score: an inline line of 1.5 GB in gzip": sends(SCORE, lambda: inline(zeros_gz(1536 * MIB))),
    "Score: 300 MB of inline rows in gzip, limit 10": sends(SCORE, lambda: inline(rows_gz(300 * MIB), limit=10)),
}


def loads(isomer, home, model, repeats):
    """How long a model takes to load, and what memory it holds then."""
    weights = sum(file.stat().st_size for file in (home / "models" / model).glob("*.safetensors"))
    print(f"{'weights':>7} {'start':>6} {'first':>6} {'held':>7} {'mapped':>7} {'peak':>7}")
    for _ in range(repeats):
        begun = time.monotonic()
        server = Server(isomer, home, model)
        try:
            started = time.monotonic()
            _, told = grpc_call(server, ENCODE, field(1, model.encode()) + field(2, field(1, b"A man plays.")))
            first = time.monotonic()
            if not told.startswith("answered"):
                sys.exit(f"{model} does not answer: {told}")
            memory = " ".join(f"{server.resident(name):7.0f}" for name in ("VmRSS", "RssFile", "VmHWM"))
            print(f"{weights / MIB:7.1f} {started - begun:6.2f} {first - started:6.2f} {memory}", flush=True)
        finally:
            server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--home", default=str(pathlib.Path.home() / ".cache/isomer"), help=f"where {MODEL} is (models/{MODEL})")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--load", metavar="MODEL", help="measure the loading of this model instead of requests")
    parser.add_argument("--repeats", type=int, default=5, help="how many times a model is loaded (default: 5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "models").symlink_to(pathlib.Path(arguments.home) / "models")
        if arguments.load:
            loads(arguments.isomer, home, arguments.load, arguments.repeats)
            return
        print(f"{'sent':>7} {'before':>7} {'peak':>7} {'s':>6}")
        for name, case in CASES.items():
            if arguments.case not in name:
                continue
            run = case()
            server = Server(arguments.isomer, home)
            try:
                before, begun = server.begin(), time.monotonic()
                sent, told = run(server)
                seconds, peak = time.monotonic() - begun, server.resident("VmHWM")
                print(f"{sent / MIB:7.1f} {before:7.0f} {peak - before:+7.0f} {seconds:6.1f}  {name}: {told}", flush=True)
            finally:
                server.end()


if __name__ == "__main__":
    main()
