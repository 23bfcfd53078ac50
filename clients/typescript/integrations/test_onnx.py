"""The ONNX provider behind a gateway: CheckProvider passes, and its vectors are those of Isomer's own encoder of that model."""

import argparse
import importlib
import os
import pathlib
import struct
import subprocess
import tempfile
import types

import grpc
from isomer_client.proto.encoder.v1 import encoder_pb2, encoder_pb2_grpc

HERE = pathlib.Path(__file__).resolve().parent
ENCODER = "paraphrase-MiniLM-L3-v2-onnx"
TEXTS = [
    "A man is playing a guitar.",
    "The gardener watered the roses before breakfast.",
    "",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "river " * 400,
]


def rows(stub, encoder, metadata):
    inputs = [encoder_pb2.Input(text=text) for text in TEXTS]
    matrix = stub.Encode(encoder_pb2.EncodeRequest(encoder_id=encoder, inputs=inputs, normalise=True), metadata=metadata, timeout=120).embeddings
    values = struct.unpack(f"<{matrix.rows * matrix.cols}f", matrix.data)
    return [values[row * matrix.cols : (row + 1) * matrix.cols] for row in range(matrix.rows)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--onnx", required=True, help="the model's file")
    parser.add_argument("--folder", required=True, help="the same model as Isomer has it, with its tokenizer")
    arguments = parser.parse_args()
    servers, providers = importlib.import_module("harness.servers"), importlib.import_module("harness.provider")
    config = f'[embed.encoders]\nown = "{arguments.folder}"\n[access]\nmode = "required"\n[addresses]\nallow = ["127.0.0.1"]\n'
    with tempfile.TemporaryDirectory(prefix="isomer-onnx-") as name:
        gateway = servers.Isomer(arguments.isomer, pathlib.Path(name), "gateway", config)
        admin = gateway.key("admin", ["admin", "encode"])
        gateway.start()
        command = ["node", "provider.mjs", arguments.onnx, arguments.folder, "--register"]
        told = {"needs": ["node"], "command": command, "folder": HERE / "onnx", "encoder": ENCODER}
        try:
            verdict = providers.check(told, types.SimpleNamespace(names={"gateway": gateway.address, "admin": admin}))
            assert verdict.startswith("ok"), verdict
            environment = {**os.environ, "ISOMER_SERVER": gateway.address, "ISOMER_API_KEY": admin}
            child = subprocess.Popen(command, cwd=HERE / "onnx", env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            try:
                id, lines = providers.registered_as(child)
                assert id == ENCODER.lower(), lines
                with grpc.insecure_channel(gateway.address) as channel:
                    stub, metadata = encoder_pb2_grpc.EncoderServiceStub(channel), (("authorization", f"Bearer {admin}"),)
                    pairs = list(zip(rows(stub, ENCODER, metadata), rows(stub, "own", metadata)))
            finally:
                child.terminate()
                child.wait(30)
        finally:
            gateway.stop()
    cosines = [sum(x * y for x, y in zip(one, other)) for one, other in pairs]
    assert min(cosines) > 0.99999 and len(cosines) == len(TEXTS), cosines
    assert abs(sum(x * y for x, y in zip(pairs[0][0], pairs[1][0]))) < 0.9, "all vectors are alike"
    print(f"{ENCODER} by onnxruntime-node: {verdict}; the least cosine with Isomer's own vectors is {min(cosines):.7f}")


if __name__ == "__main__":
    main()
