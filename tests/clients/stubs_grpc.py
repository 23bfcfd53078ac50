"""The stub servers over gRPC: text-embeddings-inference and the Open Inference Protocol, version 2."""

import pathlib
import sys
from concurrent import futures

import grpc

import expected

PROTOS = pathlib.Path(__file__).resolve().parent / "protos"
TEI_MODEL = "stub/tei-grpc"
OIP_MODEL = "stub_ensemble"


class Wrong(Exception):
    """A call that the provider's interface does not allow."""


def hold(condition, message):
    if not condition:
        raise Wrong(message)


def messages(name):
    sys.path.insert(0, str(PROTOS))
    try:
        return grpc.protos_and_services(f"{name}.proto")
    finally:
        sys.path.remove(str(PROTOS))


def known_only(message):
    """Checks that no field is unknown, at any depth."""
    from google.protobuf import unknown_fields

    hold(len(unknown_fields.UnknownFieldSet(message)) == 0, f"unknown fields in {message.DESCRIPTOR.name}")
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for one in value if not hasattr(value, "DESCRIPTOR") else [value]:
            known_only(one)


def guarded(seen, kind, secret):
    """Wraps a method: the key and the fields are checked first, and the request is recorded."""

    def wrap(method):
        def call(self, request, context):
            try:
                sent = [value for name, value in context.invocation_metadata() if name == "authorization"]
                hold(sent == [f"Bearer {secret}"], "another key than this provider's")
                known_only(request)
                answer, items, options = method(self, request)
            except Wrong as wrong:
                seen.note(kind, 0, [], f"{method.__name__}: {wrong}")
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(wrong))
            seen.note(kind, items, options)
            return answer

        return call

    return wrap


def start(seen, secrets):
    """Starts both on one port; returns the server and the port."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64))
    tei(server, seen, secrets["tei-grpc"])
    open_inference(server, seen, secrets["oip"])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def tei(server, seen, secret):
    pb, rpc = messages("tei")
    guard = guarded(seen, "tei-grpc", secret)

    class Info(rpc.InfoServicer):
        @guard
        def Info(self, request):
            told = pb.InfoResponse(
                version="1.9.0",
                model_id=TEI_MODEL,
                model_sha="0123abcd",
                model_dtype="float32",
                max_concurrent_requests=512,
                max_input_length=512,
                max_batch_tokens=16384,
                max_client_batch_size=32,
            )
            return told, 0, ["info"]

    class Embed(rpc.EmbedServicer):
        @guard
        def Embed(self, request):
            hold(request.truncation_direction in (0, 1), "truncation_direction")
            hold(request.prompt_name in ("", "query", "document"), f"prompt_name {request.prompt_name}")
            side = request.prompt_name if request.HasField("prompt_name") else None
            width = request.dimensions if request.HasField("dimensions") else None
            row = expected.stub_vector(TEI_MODEL, side, request.inputs, width)
            answer = pb.EmbedResponse(embeddings=row, metadata=pb.Metadata(compute_chars=len(request.inputs), compute_tokens=5))
            return answer, 1, [f"prompt_name {side}"]

    rpc.add_InfoServicer_to_server(Info(), server)
    rpc.add_EmbedServicer_to_server(Embed(), server)


def open_inference(server, seen, secret):
    pb, rpc = messages("open_inference")
    guard = guarded(seen, "oip", secret)
    tensor = pb.ModelMetadataResponse.TensorMetadata

    class Service(rpc.GRPCInferenceServiceServicer):
        @guard
        def ServerLive(self, request):
            return pb.ServerLiveResponse(live=True), 0, ["live"]

        @guard
        def ModelMetadata(self, request):
            hold(request.name == OIP_MODEL, f"no model {request.name}")
            told = pb.ModelMetadataResponse(
                name=OIP_MODEL,
                versions=["3"],
                platform="ensemble",
                inputs=[tensor(name="TEXT", datatype="BYTES", shape=[-1, 1])],
                outputs=[tensor(name="sentence_embedding", datatype="FP32", shape=[-1, expected.DIMENSIONS])],
            )
            return told, 0, ["metadata"]

        @guard
        def ModelInfer(self, request):
            hold(request.model_name == OIP_MODEL, f"no model {request.model_name}")
            hold([one.name for one in request.inputs] == ["TEXT"], "one input, TEXT")
            hold([one.name for one in request.outputs] == ["sentence_embedding"], "one output, sentence_embedding")
            given = request.inputs[0]
            contents = given.contents.bytes_contents
            hold(given.datatype == "BYTES" and list(given.shape) == [len(contents), 1], f"shape {given.shape}")
            hold(not given.contents.fp32_contents, "numbers in a tensor of texts")
            rows = expected.stub_rows(OIP_MODEL, None, [one.decode() for one in contents])
            output = pb.ModelInferResponse.InferOutputTensor(name="sentence_embedding", datatype="FP32", shape=rows.shape)
            answer = pb.ModelInferResponse(
                model_name=OIP_MODEL, model_version="3", outputs=[output], raw_output_contents=[rows.tobytes()]
            )
            return answer, len(contents), ["infer"]

    rpc.add_GRPCInferenceServiceServicer_to_server(Service(), server)
