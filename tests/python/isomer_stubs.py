"""Shared by the Python clients: stubs generated from the .proto files, texts, channels."""

import contextlib
import importlib
import json
import pathlib
import sys
import tempfile

import grpc
from google.protobuf import descriptor_pool
from grpc_tools import protoc

PROTO_ROOT = pathlib.Path(__file__).resolve().parents[2] / "proto"
MAX_MESSAGE_BYTES = 256 * 1024 * 1024


class CheckFailed(Exception):
    """A promise that the server does not keep."""


def expect(condition, message):
    """Raises CheckFailed, unlike `assert` also under `python -O`."""
    if not condition:
        raise CheckFailed(message)


def descriptors(path, proto_root=PROTO_ROOT):
    """Writes a FileDescriptorSet of all .proto files and their imports; returns its path."""
    files = sorted(str(file.relative_to(proto_root)) for file in proto_root.glob("isomer/**/*.proto"))
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    code = protoc.main(["protoc", f"-I{proto_root}", f"-I{well_known}", "--include_imports", f"--descriptor_set_out={path}", *files])
    expect(code == 0, f"protoc ended with {code}")
    return str(path)


@contextlib.contextmanager
def generated_stubs(proto_root=PROTO_ROOT):
    """Generates messages and stubs from every .proto file into a temporary folder and puts it on the import path."""
    files = sorted(str(path.relative_to(proto_root)) for path in proto_root.glob("isomer/**/*.proto"))
    expect(files, f"no .proto files below {proto_root}/isomer")
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory(prefix="isomer-stubs-") as folder:
        code = protoc.main(
            ["protoc", f"-I{proto_root}", f"-I{well_known}", f"--python_out={folder}", f"--grpc_python_out={folder}", *files]
        )
        expect(code == 0, f"protoc ended with {code}")
        sys.path.insert(0, folder)
        try:
            yield Stubs(files)
        finally:
            sys.path.remove(folder)


class Stubs:
    """The generated modules: `stubs.message("isomer/encoder/v1/encoder")`, `stubs.grpc(…)`."""

    def __init__(self, files):
        self._files = files
        # Importing a module registers its file in the default descriptor pool.
        for file in files:
            self.message(file.removesuffix(".proto"))

    @staticmethod
    def message(name):
        return importlib.import_module(name.replace("/", ".") + "_pb2")

    @staticmethod
    def grpc(name):
        return importlib.import_module(name.replace("/", ".") + "_pb2_grpc")

    def services(self):
        """Descriptors of all services that the .proto files define, by full name."""
        pool = descriptor_pool.Default()
        found = (service for file in self._files for service in pool.FindFileByName(file).services_by_name.values())
        return {service.full_name: service for service in found}


def channel(address, own_connection=False):
    """A plain-text channel; with `own_connection` it shares its TCP connection with no other channel of the process."""
    return grpc.insecure_channel(
        address,
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.use_local_subchannel_pool", int(own_connection)),
            # Without this, a broken connection would be retried quietly and a lost request could
            # look served.
            ("grpc.enable_retries", 0),
        ],
    )


def read_texts(path):
    """Texts as `isomer embed` reads them: JSONL with a `text` field when the first line starts with `{`, else lines."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    if lines[0].lstrip().startswith("{"):
        return [json.loads(line)["text"] for line in lines if line.strip()]
    return lines


def described(error):
    """A gRPC error in one line."""
    return f"{error.code().name}: {error.details()}"
