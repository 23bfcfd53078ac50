"""A language's provider behind the gateway: it registers itself, passes CheckProvider, encodes, and goes when it is stopped."""

import os
import queue
import shutil
import subprocess
import sys
import threading
import time

import grpc

from isomer_client.proto.encoder.v1 import encoder_pb2, encoder_pb2_grpc
from isomer_client.proto.gateway.v1 import provider_pb2, provider_pb2_grpc

PATIENCE_SECONDS = 30
TEXTS = ["river", "The gardener watered the roses.", "", "river"]


def unmet(commands):
    """A verdict for commands of which one is missing, else `None`. In CI nothing may be missing."""
    missing = [name for name in commands if not shutil.which(name)]
    return f"{'FAILED' if os.environ.get('CI') else 'skipped'}: no {missing[0]}" if missing else None


def check(told, servers):
    """`ok: …`, `skipped: …`, or what is wrong."""
    if missing := unmet(told["needs"]):
        return missing
    environment = {**os.environ, "ISOMER_SERVER": servers.names["gateway"], "ISOMER_API_KEY": servers.names["admin"]}
    command = [word.replace("{python}", sys.executable) for word in told["command"]]
    child = subprocess.Popen(
        command, cwd=told["folder"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        return examined(child, told["encoder"], servers)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


def registered_as(child):
    """The id that its line `registered as ID` names; its output where there is no such line."""
    told, lines = queue.Queue(), []

    def read():
        for line in child.stdout:
            lines.append(line)
            if line.startswith("registered as "):
                told.put(line.split()[-1])
        told.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        return told.get(timeout=PATIENCE_SECONDS), lines
    except queue.Empty:
        return None, lines


def examined(child, encoder, servers):
    id, lines = registered_as(child)
    if id is None:
        return f"it did not register: {''.join(lines[-10:])}"
    metadata = (("authorization", f"Bearer {servers.names['admin']}"),)
    with grpc.insecure_channel(servers.names["gateway"]) as channel:
        registry, encoders = provider_pb2_grpc.ProviderServiceStub(channel), encoder_pb2_grpc.EncoderServiceStub(channel)
        record = registry.GetProvider(provider_pb2.GetProviderRequest(id=id), metadata=metadata, timeout=20).provider
        if record.source != provider_pb2.PROVIDER_SOURCE_LEASED:
            return "it is registered without a lease"
        probed = registry.CheckProvider(provider_pb2.CheckProviderRequest(id=id), metadata=metadata, timeout=60)
        bad = [f"{one.name}: {one.detail}" for one in probed.findings if not one.passed]
        if not probed.usable or bad or not probed.findings:
            return f"CheckProvider: {probed.verdict} {bad}"

        def rows(texts):
            inputs = [encoder_pb2.Input(text=text) for text in texts]
            request = encoder_pb2.EncodeRequest(encoder_id=encoder, inputs=inputs)
            matrix = encoders.Encode(request, metadata=metadata, timeout=20).embeddings
            width = len(matrix.data) // matrix.rows
            return [matrix.data[start : start + width] for start in range(0, len(matrix.data), width)]

        together, alone = rows(TEXTS), [rows([text])[0] for text in TEXTS]
        if together != alone or together[0] != together[3] or together[0] == together[1]:
            return "the vectors of a batch are not those of single texts"
        child.terminate()
        try:
            child.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return "it does not end when it is told to"
        until = time.monotonic() + 5
        while time.monotonic() < until:
            try:
                registry.GetProvider(provider_pb2.GetProviderRequest(id=id), metadata=metadata, timeout=20)
                time.sleep(0.1)
            except grpc.RpcError as error:
                return f"ok: {len(probed.findings)} findings, all passed" if error.code() == grpc.StatusCode.NOT_FOUND else str(error)
        return "it is still registered after it was stopped"
