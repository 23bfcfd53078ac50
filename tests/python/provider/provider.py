"""An encoder provider in plain Python, against Isomer's protos alone: how to bring your own encoder.

The encoder hashes words and their trigrams into 256 columns (feature hashing, Weinberger et al. 2009): no model, no file, the same
vectors everywhere. Run it, and any gateway can route to it.
"""

import argparse
import hashlib
import math
import pathlib
import signal
import sys
import threading
import time
import unicodedata
from concurrent import futures

import grpc
import numpy
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import isomer_stubs  # noqa: E402

ENCODER = "hashing-256"
DIMENSIONS = 256
MAX_TOKENS = 4096
MAX_BATCH_ITEMS = 512
# Part of the vector space: must change whenever the vectors of equal texts change.
VERSION = "hashing/1"
PROMPTS = {"query": "query: "}


def words_of(text):
    """Words in lower case, of letters and digits, in Unicode's composed form; every other sign is a word of its own."""
    words, word = [], []
    for char in unicodedata.normalize("NFC", text).lower():
        if char.isalnum():
            word.append(char)
            continue
        if word:
            words.append("".join(word))
            word = []
        if not char.isspace():
            words.append(char)
    if word:
        words.append("".join(word))
    return words


def features(word):
    """A word and its trigrams, with marks at both ends."""
    marked = f"<{word}>"
    yield word
    for start in range(len(marked) - 2):
        yield marked[start : start + 3]


def vector(words, dimensions):
    """Unit length, in 32-bit floats; a text without words gets the first column."""
    values = [0.0] * DIMENSIONS
    for word in words:
        for feature in features(word):
            digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            column = int.from_bytes(digest[:4], "little") % DIMENSIONS
            values[column] += 1.0 if digest[4] & 1 else -1.0
    values = values[:dimensions]
    if not any(values):
        values[0] = 1.0
    return values


def scaled(values):
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]


class Refused(Exception):
    """A request that cannot be answered: a gRPC code and a hint."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def service(stubs, keys):
    """The EncoderService; if keys are set, callers must send one of them."""
    encoder = stubs.message("isomer/encoder/v1/encoder")
    common = stubs.message("isomer/common/v1/common")
    base = stubs.grpc("isomer/encoder/v1/encoder").EncoderServiceServicer

    def space(prompt, normalised, dimensions):
        fields = [VERSION, prompt, str(normalised), str(dimensions)]
        return common.VectorSpace(
            digest=hashlib.sha256("\0".join(fields).encode()).hexdigest(),
            model_id=ENCODER,
            weights_digest=hashlib.sha256(VERSION.encode()).hexdigest(),
            prompt=prompt,
            pooling="sum>normalize" if normalised else "sum",
            normalised=normalised,
            dimensions=dimensions,
            dtype=common.DTYPE_F32,
        )

    def known(encoder_id):
        if encoder_id != ENCODER:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"no encoder {encoder_id!r}; there is {ENCODER}")

    def prompt_of(request):
        asked = request.WhichOneof("prompt")
        if asked == "prompt_name" and request.prompt_name:
            if request.prompt_name not in PROMPTS:
                raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"prompt_name: one of {', '.join(PROMPTS)}")
            return PROMPTS[request.prompt_name]
        return request.literal_prompt if asked == "literal_prompt" else ""

    def described():
        return encoder.Encoder(
            id=ENCODER,
            revision=VERSION,
            weights_digest=hashlib.sha256(VERSION.encode()).hexdigest(),
            vector_space=space("", True, DIMENSIONS),
            dimensions=DIMENSIONS,
            max_tokens=MAX_TOKENS,
            max_batch_items=MAX_BATCH_ITEMS,
            prompts=PROMPTS,
            similarity=common.SIMILARITY_COSINE,
            normalises=True,
            dtypes=[common.DTYPE_F32],
            capabilities=[encoder.CAPABILITY_DENSE],
            architecture="hashing",
            loaded=True,
        )

    def encode(request):
        started = time.monotonic_ns()
        known(request.encoder_id)
        if not 1 <= len(request.inputs) <= MAX_BATCH_ITEMS:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"inputs: 1 to {MAX_BATCH_ITEMS}")
        if request.output_dtype not in (common.DTYPE_UNSPECIFIED, common.DTYPE_F32):
            raise Refused(grpc.StatusCode.UNIMPLEMENTED, "output_dtype: DTYPE_F32 only")
        if request.output not in (encoder.OUTPUT_UNSPECIFIED, encoder.OUTPUT_TEXT_VECTOR):
            raise Refused(grpc.StatusCode.UNIMPLEMENTED, "output: OUTPUT_TEXT_VECTOR only")
        dimensions = request.dimensions if request.HasField("dimensions") else DIMENSIONS
        if not 1 <= dimensions <= DIMENSIONS:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"dimensions: 1 to {DIMENSIONS}")
        normalise = request.normalise if request.HasField("normalise") else True
        prompt = prompt_of(request)
        rows, counts, cut = [], [], []
        for index, item in enumerate(request.inputs):
            if item.WhichOneof("input") != "text":
                raise Refused(grpc.StatusCode.UNIMPLEMENTED, f"inputs[{index}]: texts only")
            words = words_of(prompt + item.text)
            counts.append(len(words))
            cut.append(len(words) > MAX_TOKENS)
            if cut[-1] and request.truncation == encoder.TRUNCATION_ERROR:
                raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"inputs[{index}]: {len(words)} of {MAX_TOKENS} tokens")
            head = request.truncation == encoder.TRUNCATION_HEAD
            words = words[-MAX_TOKENS:] if head else words[:MAX_TOKENS]
            row = vector(words, dimensions)
            rows.append(scaled(row) if normalise else row)
        answer = encoder.EncodeResponse(
            embeddings=common.Matrix(
                rows=len(rows),
                cols=dimensions,
                dtype=common.DTYPE_F32,
                data=numpy.asarray(rows, dtype="<f4").tobytes(),
            ),
            token_counts=counts,
            truncated=cut,
            vector_space=space(prompt, normalise, dimensions),
            usage=common.Usage(texts=len(rows), tokens=sum(min(count, MAX_TOKENS) for count in counts)),
        )
        answer.timing.total.nanos = (time.monotonic_ns() - started) % 1_000_000_000
        return answer

    def answered(context, call, request):
        if keys and dict(context.invocation_metadata()).get("authorization") not in keys:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "send the key as `authorization: Bearer …`")
        try:
            return call(request)
        except Refused as refused:
            context.abort(refused.code, str(refused))

    class Encoder(base):
        def ListEncoders(self, request, context):
            return answered(context, lambda _: encoder.ListEncodersResponse(encoders=[described()]), request)

        def GetEncoder(self, request, context):
            def get(request):
                known(request.id)
                return encoder.GetEncoderResponse(encoder=described())

            return answered(context, get, request)

        def Encode(self, request, context):
            return answered(context, encode, request)

        def EncodeStream(self, requests, context):
            for item in requests:
                response = answered(context, encode, item.request)
                yield encoder.EncodeStreamResponse(client_index=item.client_index, response=response)

        def CountTokens(self, request, context):
            def count(request):
                known(request.encoder_id)
                prompt = prompt_of(request)
                counts = [len(words_of(prompt + text)) for text in request.texts]
                return encoder.CountTokensResponse(token_counts=counts, max_tokens=MAX_TOKENS)

            return answered(context, count, request)

    return Encoder()


def stay_registered(stubs, gateway, name, address, lease_seconds, stopped):
    """Registers with a gateway and renews the lease until `stop` is set; then deletes the registration."""
    provider = stubs.message("isomer/gateway/v1/provider")
    client = stubs.grpc("isomer/gateway/v1/provider").ProviderServiceStub(isomer_stubs.channel(gateway))
    ours = provider.Provider(
        id=name,
        kind=provider.PROVIDER_KIND_ISOMER,
        address=f"grpc://{address}",
        encoders={ENCODER: ENCODER},
    )
    ours.lease.seconds = lease_seconds
    client.CreateProvider(provider.CreateProviderRequest(provider=ours), timeout=30)
    print(f"registered as {name} with {gateway}", flush=True)
    while not stopped.wait(lease_seconds / 3):
        try:
            client.RenewLease(provider.RenewLeaseRequest(id=name), timeout=lease_seconds / 3)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                # The lease expired, or the gateway lost its records.
                client.CreateProvider(provider.CreateProviderRequest(provider=ours), timeout=30)
            else:
                print(f"the lease was not renewed: {isomer_stubs.described(error)}", file=sys.stderr)
    client.DeleteProvider(provider.DeleteProviderRequest(id=name), timeout=5)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", help="address to listen on (port 0: any free one)")
    parser.add_argument("--key", action="append", default=[], help="accept only callers with one of these keys")
    parser.add_argument("--register", metavar="GATEWAY", help="gateway (host:port) to register with")
    parser.add_argument("--id", default="python-hashing", help="id to register under")
    parser.add_argument("--lease", type=int, default=30, help="seconds of the lease")
    arguments = parser.parse_args()
    with isomer_stubs.generated_stubs() as stubs:
        server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=8),
            options=[("grpc.max_receive_message_length", isomer_stubs.MAX_MESSAGE_BYTES)],
        )
        keys = {f"Bearer {key}" for key in arguments.key}
        servicer = service(stubs, keys)
        stubs.grpc("isomer/encoder/v1/encoder").add_EncoderServiceServicer_to_server(servicer, server)
        healthy = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        healthy.set("isomer.encoder.v1.EncoderService", health_pb2.HealthCheckResponse.SERVING)
        host = arguments.listen.rpartition(":")[0]
        port = server.add_insecure_port(arguments.listen)
        server.start()
        print(f"listening on {host}:{port}", flush=True)
        stopped = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        if arguments.register:
            stay_registered(stubs, arguments.register, arguments.id, f"{host}:{port}", arguments.lease, stopped)
        stopped.wait()
        server.stop(grace=5).wait()


if __name__ == "__main__":
    main()
