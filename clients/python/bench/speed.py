"""Short texts through this client, the bare generated stub and OpenAI's client, each in a process of its own.

The encoder has static vectors of 384 columns, so that the server has little to do and the clients
show. Rounds are interleaved; the table has medians.
"""

import argparse
import json
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCE = ROOT / "embed-svc/tests/fixtures/static_embedding"
COLUMNS = 384
BATCH = 256
IN_FLIGHT = 4
# Times that all texts are encoded for the time and the CPU seconds, after once for the memory.
ROUNDS = 5
WORDS = "gardener watered roses before breakfast train lisbon cancelled storm cello evening river kitchen paint".split()


def texts(count):
    return [" ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 3, 5, 7)) + f" {number}" for number in range(count)]


def wide_model(folder):
    """The fixture with its vectors repeated to 384 columns."""
    for path in SOURCE.rglob("*"):
        target = folder / path.relative_to(SOURCE)
        target.mkdir(exist_ok=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    for path in folder.rglob("model.safetensors"):
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        name = next(name for name in header if name != "__metadata__")
        rows, columns = header[name]["shape"]
        start, end = header[name]["data_offsets"]
        body = data[8 + length :][start:end]
        size = len(body) // rows
        wide = b"".join(body[row * size : (row + 1) * size] * (COLUMNS // columns) for row in range(rows))
        head = json.dumps({name: {**header[name], "shape": [rows, COLUMNS], "data_offsets": [0, len(wide)]}}).encode()
        path.write_bytes(struct.pack("<Q", len(head)) + head + wide)


# Each way: from an address and texts to an array of vectors. Imports are part of none.


def this_client(address):
    import isomer_client

    client = isomer_client.Client(address, batch_items=BATCH, in_flight=IN_FLIGHT)
    return lambda some: client.encode(some, encoder="wide").vectors


def this_client_asyncio(address):
    import asyncio

    import isomer_client

    async def encode(some):
        async with isomer_client.AsyncClient(address, batch_items=BATCH, in_flight=IN_FLIGHT) as client:
            return (await client.encode(some, encoder="wide")).vectors

    return lambda some: asyncio.run(encode(some))


def bare_stub(address):
    import collections

    import grpc
    import numpy
    from isomer_client.proto.encoder.v1 import encoder_pb2 as pb
    from isomer_client.proto.encoder.v1 import encoder_pb2_grpc

    stub = encoder_pb2_grpc.EncoderServiceStub(grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)]))

    def encode(some):
        waiting, parts = collections.deque(), []

        def take():
            matrix = waiting.popleft().result().embeddings
            parts.append(numpy.frombuffer(matrix.data, "<f4").reshape(matrix.rows, matrix.cols))

        for start in range(0, len(some), BATCH):
            if len(waiting) == IN_FLIGHT:
                take()
            inputs = [pb.Input(text=text) for text in some[start : start + BATCH]]
            waiting.append(stub.Encode.future(pb.EncodeRequest(encoder_id="wide", inputs=inputs)))
        while waiting:
            take()
        return numpy.concatenate(parts)

    return encode


def bare_stream(address):
    import threading

    import grpc
    import numpy
    from isomer_client.proto.encoder.v1 import encoder_pb2 as pb
    from isomer_client.proto.encoder.v1 import encoder_pb2_grpc

    stub = encoder_pb2_grpc.EncoderServiceStub(grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)]))

    def encode(some):
        room = threading.Semaphore(IN_FLIGHT)

        def requests():
            for start in range(0, len(some), BATCH):
                room.acquire()
                inputs = [pb.Input(text=text) for text in some[start : start + BATCH]]
                yield pb.EncodeStreamRequest(client_index=start, request=pb.EncodeRequest(encoder_id="wide", inputs=inputs))

        parts = []
        for answer in stub.EncodeStream(requests()):
            room.release()
            matrix = answer.response.embeddings
            parts.append(numpy.frombuffer(matrix.data, "<f4").reshape(matrix.rows, matrix.cols))
        return numpy.concatenate(parts)

    return encode


def openai_client(address):
    from concurrent import futures

    import numpy
    import openai

    client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="none")

    def one(some):
        answer = client.embeddings.create(model="wide", input=some)
        return numpy.array([entry.embedding for entry in answer.data], numpy.float32)

    def encode(some):
        parts = [some[start : start + BATCH] for start in range(0, len(some), BATCH)]
        with futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
            return numpy.concatenate(list(pool.map(one, parts)))

    return encode


WAYS = {
    "bare stub": bare_stub,
    "bare stub, EncodeStream": bare_stream,
    "isomer_client": this_client,
    "isomer_client, asyncio": this_client_asyncio,
    "openai": openai_client,
}


def child(way, address, count):
    some = texts(count)
    encode = WAYS[way](address)
    encode(some[:BATCH])
    resting = resource.getrusage(resource.RUSAGE_SELF)
    vectors = encode(some)
    # The array itself is in every way's memory: 4 bytes x texts x columns.
    first = resource.getrusage(resource.RUSAGE_SELF)
    added = (first.ru_maxrss - resting.ru_maxrss) * 1024
    started = time.perf_counter()
    for _ in range(ROUNDS):
        vectors = encode(some)
    took = (time.perf_counter() - started) / ROUNDS
    now = resource.getrusage(resource.RUSAGE_SELF)
    assert vectors.shape == (count, COLUMNS) and abs(float((vectors[-1] ** 2).sum())) > 0
    cpu = (now.ru_utime + now.ru_stime - first.ru_utime - first.ru_stime) / ROUNDS
    digest = float(vectors.sum())
    print(json.dumps({"seconds": took, "cpu": cpu, "memory": added, "peak": first.ru_maxrss * 1024, "sum": digest}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isomer")
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--way")
    parser.add_argument("--address")
    arguments = parser.parse_args()
    if arguments.way:
        return child(arguments.way, arguments.address, arguments.texts)
    from harness.servers import Isomer

    with tempfile.TemporaryDirectory(prefix="isomer-speed-") as name:
        folder = pathlib.Path(name)
        (folder / "wide").mkdir()
        wide_model(folder / "wide")
        server = Isomer(str(pathlib.Path(arguments.isomer).resolve()), folder, "speed", f'[embed.encoders]\nwide = "{folder / "wide"}"\n').start()
        found = {way: [] for way in WAYS}
        try:
            for _ in range(arguments.repeats):
                for way in WAYS:
                    command = [sys.executable, __file__, "--way", way, "--address", server.address, "--texts", str(arguments.texts)]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    found[way].append(json.loads(done.stdout))
        finally:
            server.stop()
    sums = {round(one["sum"], 1) for ones in found.values() for one in ones}
    assert len(sums) == 1, f"the ways do not agree on the vectors: {sums}"
    middle = {way: {key: statistics.median(one[key] for one in ones) for key in ones[0]} for way, ones in found.items()}
    print(f"{arguments.texts} texts, {COLUMNS} columns, {BATCH} a request, {IN_FLIGHT} in flight; medians of {arguments.repeats}")
    print(f"{'':24}{'texts/s':>10}{'client CPU s':>14}{'CPU, stub = 1':>15}{'texts/CPU s':>13}{'peak MB':>9}{'added MB':>10}")
    for way, one in middle.items():
        # Rounds compare with themselves: the machine may be busier in one than in another.
        beside = statistics.median(ours["cpu"] / bare["cpu"] for ours, bare in zip(found[way], found["bare stub"]))
        per_cpu = arguments.texts / one["cpu"]
        print(
            f"{way:24}{arguments.texts / one['seconds']:>10,.0f}{one['cpu']:>14.3f}{beside:>15.2f}"
            f"{per_cpu:>13,.0f}{one['peak'] / 1e6:>9.0f}{one['memory'] / 1e6:>10.0f}"
        )


if __name__ == "__main__":
    main()
