#!/usr/bin/env python3
"""A third party's client: stubs generated from the .proto files, plain grpcio, no code of ours.

Against a running `isomer serve` it checks that
  * reflection (v1 and v1alpha) lists every service of the .proto files and grpc.health.v1, with the same methods and messages,
  * health answers SERVING for each service by name and for the whole server, and NOT_FOUND for an unknown name,
  * Encode returns the vectors that `isomer embed --output` wrote for the same texts, bit for bit.

Exit code 0: all checks pass. 1: a check or a call failed (the reason is on stderr).
"""

import argparse
import pathlib
import sys
import time

import grpc
import numpy as np
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from isomer_stubs import CheckFailed, channel, described, expect, generated_stubs, read_texts

HEALTH = "grpc.health.v1.Health"


def check_reflection(connection, wanted):
    database = ProtoReflectionDescriptorDatabase(connection)
    for version, names in [("v1alpha", database.get_services()), ("v1", services_by_reflection_v1(connection))]:
        listed = set(names)
        missing = sorted((set(wanted) | {HEALTH}) - listed)
        expect(not missing, f"reflection {version} does not list {', '.join(missing)}; it lists {', '.join(sorted(listed))}")

    remote = descriptor_pool.DescriptorPool(database)
    for name, local in wanted.items():
        served = {method.name: signature(method) for method in remote.FindServiceByName(name).methods}
        expected = {method.name: signature(method) for method in local.methods}
        expect(served == expected, f"reflection describes {name} as {served}, the .proto files say {expected}")
    remote.FindServiceByName(HEALTH)
    for name in sorted(listed):
        print(f"  {name}")
    print(f"reflection: {len(listed)} services, {len(wanted)} of ours with the methods of the .proto files")


def services_by_reflection_v1(connection):
    """Python's client supports v1alpha only; v1 has the same messages under another service name."""
    call = connection.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    answers = list(call(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=10))
    return [service.name for answer in answers for service in answer.list_services_response.service]


def signature(method):
    stream_in, stream_out = ("stream " if s else "" for s in (method.client_streaming, method.server_streaming))
    return f"({stream_in}{method.input_type.full_name}) -> {stream_out}{method.output_type.full_name}"


def check_health(connection, services):
    stub = health_pb2_grpc.HealthStub(connection)
    for name in ["", *services]:
        status = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10).status
        word = health_pb2.HealthCheckResponse.ServingStatus.Name(status)
        expect(status == health_pb2.HealthCheckResponse.SERVING, f"health of {name or 'the server'!r} is {word}")
    try:
        answer = stub.Check(health_pb2.HealthCheckRequest(service="isomer.no.such.Service"), timeout=10)
        raise CheckFailed(f"health knows a service that does not exist: {answer}")
    except grpc.RpcError as error:
        expect(error.code() is grpc.StatusCode.NOT_FOUND, f"health of an unknown service: {described(error)}")
    print(f"health: SERVING for the server and {len(services)} services, NOT_FOUND for an unknown one")


def encode(connection, stubs, encoder_id, texts, batch):
    """All texts as one f32 matrix, in requests of at most `batch` and at most the encoder's limit."""
    messages = stubs.message("isomer/encoder/v1/encoder")
    f32 = stubs.message("isomer/common/v1/common").DTYPE_F32
    stub = stubs.grpc("isomer/encoder/v1/encoder").EncoderServiceStub(connection)
    encoder = stub.GetEncoder(messages.GetEncoderRequest(id=encoder_id), timeout=300).encoder
    expect(encoder.id == encoder_id, f"asked for encoder {encoder_id!r}, got {encoder.id!r}")
    size = min(batch or len(texts), encoder.max_batch_items or len(texts))

    parts, spaces, calls, started = [], set(), 0, time.perf_counter()
    for first in range(0, len(texts), size):
        chunk = texts[first : first + size]
        request = messages.EncodeRequest(
            encoder_id=encoder_id, inputs=[messages.Input(text=text) for text in chunk], output_dtype=f32
        )
        response = stub.Encode(request, timeout=600)
        matrix = response.embeddings
        expect(not response.errors, f"items failed: {response.errors}")
        expect(matrix.dtype == f32, f"asked for f32, got dtype {matrix.dtype}")
        expect(matrix.rows == len(chunk), f"{len(chunk)} texts gave {matrix.rows} rows")
        expect(len(response.token_counts) == len(chunk), f"{len(response.token_counts)} token counts for {len(chunk)} texts")
        # Providers of other kinds may not say which texts they cut.
        expect(len(response.truncated) in (0, len(chunk)), f"{len(response.truncated)} flags of truncation for {len(chunk)}")
        expect(len(matrix.data) == matrix.rows * matrix.cols * 4, "data of another length than rows x cols x 4")
        expect(response.usage.texts == len(chunk), f"usage counts {response.usage.texts} texts of {len(chunk)}")
        expect(response.vector_space.digest, "no digest of the vector space")
        expect(response.vector_space.dimensions == matrix.cols, "the vector space has other dimensions than the matrix")
        parts.append(np.frombuffer(matrix.data, dtype="<f4").reshape(matrix.rows, matrix.cols))
        spaces.add(response.vector_space.digest)
        calls += 1
    seconds = time.perf_counter() - started
    expect(len(spaces) == 1, f"one encoder answered in {len(spaces)} vector spaces")
    print(f"encode: {len(texts)} texts in {calls} call(s), {seconds:.2f} s, vector space {spaces.pop()[:16]}…")
    return np.concatenate(parts)


def check_bits(served, expected):
    expect(expected.dtype == np.dtype("<f4"), f"the .npy file holds {expected.dtype}, should be little-endian f32")
    expect(served.shape == expected.shape, f"shape {served.shape} over gRPC, {expected.shape} in the .npy file")
    norms = np.linalg.norm(served.astype(np.float64), axis=1)
    expect(np.isfinite(served).all() and (norms > 0).all(), "vectors that are zero or not finite")
    distinct = len(np.unique(served.view(np.uint32), axis=0))
    different = np.flatnonzero((served.view(np.uint32) != expected.view(np.uint32)).any(axis=1))
    if different.size:
        gap = np.abs(served.astype(np.float64) - expected).max()
        raise CheckFailed(f"{different.size} of {len(served)} rows differ (first: {different[0]}, largest gap {gap:.3g})")
    print(f"bits: {served.shape[0]} x {served.shape[1]} f32 equal the .npy file, bit for bit ({distinct} distinct rows)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="host:port of a running server")
    parser.add_argument("texts", type=pathlib.Path, help="plain lines, or JSONL with a `text` field")
    parser.add_argument("vectors", type=pathlib.Path, help=".npy file made by `isomer embed --output` from the same texts")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2", help="encoder id (default: %(default)s)")
    parser.add_argument("--batch", type=int, help="texts per call (default: the encoder's limit)")
    parser.add_argument("--wait", type=float, default=10, help="seconds to wait for the server (default: %(default)s)")
    args = parser.parse_args()
    try:
        texts, expected = read_texts(args.texts), np.load(args.vectors)
        with generated_stubs() as stubs, channel(args.address) as connection:
            grpc.channel_ready_future(connection).result(timeout=args.wait)
            services = stubs.services()
            check_reflection(connection, services)
            check_health(connection, services)
            check_bits(encode(connection, stubs, args.encoder, texts, args.batch), expected)
    except grpc.FutureTimeoutError:
        print(f"FAILED: no server at {args.address} within {args.wait:g} s", file=sys.stderr)
        return 1
    except grpc.RpcError as error:
        print(f"FAILED: {described(error)}", file=sys.stderr)
        return 1
    except (CheckFailed, OSError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
