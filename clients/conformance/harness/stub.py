"""A server that answers exactly, and fails exactly as its encoder's name says.

The journal keeps requests by the case (metadata `x-case`) that they belong to.
"""

import hashlib
import socket
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from isomer_client.errors import HINT
from isomer_client.proto.common.v1 import common_pb2 as common
from isomer_client.proto.encoder.v1 import encoder_pb2 as pb
from isomer_client.proto.encoder.v1 import encoder_pb2_grpc
from isomer_client.proto.eval.v1 import run_pb2, run_pb2_grpc
from isomer_client.proto.gateway.v1 import access_pb2_grpc

from . import vectors

MOST_ITEMS = 16
PROMPTS = {"query": "query: ", "passage": "passage: "}
# Each encoder, and what is wrong with it.
ENCODERS = {
    "plain": "nothing",
    "reversed": "of three requests the last is answered first",
    "fails-once": "the request with the text `text 20` is answered UNAVAILABLE once",
    "overloaded-twice": "RESOURCE_EXHAUSTED with RetryInfo of 300 ms, twice",
    "overloaded-long": "RESOURCE_EXHAUSTED with RetryInfo of 60 s",
    "no-budget": "RESOURCE_EXHAUSTED without RetryInfo",
    "slow": "answers after 20 s",
    "refuses-bad": "INVALID_ARGUMENT for a text `bad`",
    "fails-bad": "a text `bad` fails, the others have vectors",
    "two-spaces": "texts from the request with `text 20` on are in another space",
    "changes": "the second request is in another space than the first",
    "short": "one row fewer than texts",
    "descending": "sparse vectors whose ids descend",
    "other-sparse": "sparse vectors from the request with `text 20` on are in another space",
    "restarts": "at the second request the server stops, and starts again after 400 ms",
    "goes-away": "at the second request the server sends GOAWAY and a new one listens in its place",
    "wide": "vectors of 131072 columns: an answer of 8 MiB",
    "once": "UNAVAILABLE at the first request, whatever it is",
}


class Journal:
    """Requests, by case."""

    def __init__(self):
        self._lock = threading.Lock()
        self._cases = {}

    def note(self, case, **entry):
        entry = {"time": time.monotonic(), "answered": None, "cancelled": False, **entry}
        with self._lock:
            entries = self._cases.setdefault(case, [])
            entries.append(entry)
            entry["number"] = len([one for one in entries if one["method"] == entry["method"]])
        return entry

    def of(self, case):
        with self._lock:
            return list(self._cases.get(case, []))


def failure(code, reason, message, field=None, hint=None, retry=None):
    """A status with details as every Isomer server makes them."""
    info = error_details_pb2.ErrorInfo(reason=reason, domain="isomer")
    if hint:
        info.metadata[HINT] = hint
    details = [info]
    if field:
        message = f"{field} {message}"
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=message)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if retry is not None:
        delay = duration_pb2.Duration(seconds=int(retry), nanos=int(retry % 1 * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


class Refused(Exception):
    def __init__(self, status):
        super().__init__(status.message)
        self.status = status


def space(mark, prompt, dimensions):
    digest = hashlib.sha256(f"{mark}\0{prompt}\0{dimensions}".encode()).hexdigest()
    weights = hashlib.sha256(mark.encode()).hexdigest()
    return common.VectorSpace(
        digest=digest,
        model_id="stub",
        weights_digest=weights,
        prompt=prompt,
        pooling="hash",
        dimensions=dimensions,
        dtype=common.DTYPE_F32,
    )


class Encoder(encoder_pb2_grpc.EncoderServiceServicer):
    def __init__(self, server, journal):
        self._server, self._journal = server, journal
        self._lock = threading.Lock()
        self._open = {}

    def begin(self, context, method, **entry):
        metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        noted = self._journal.note(metadata.get("x-case", ""), method=method, metadata=metadata, peer=context.peer(), **entry)
        noted["deadline"] = context.time_remaining()
        context.add_callback(lambda: noted.__setitem__("cancelled", noted["answered"] is None))
        return noted

    def _answered(self, context, noted, call):
        try:
            answer = call()
        except Refused as refused:
            noted["answered"] = time.monotonic()
            status = refused.status
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(next(code for code in grpc.StatusCode if code.value[0] == status.code), status.message)
        noted["answered"] = time.monotonic()
        return answer

    def ListEncoders(self, request, context):
        noted = self.begin(context, "ListEncoders")
        names = sorted(ENCODERS)
        # Pages of five, whatever size is requested.
        start = int(request.page_token or 0)
        more = str(start + 5) if start + 5 < len(names) else ""
        page = [self._described(name) for name in names[start : start + 5]]
        return self._answered(context, noted, lambda: pb.ListEncodersResponse(encoders=page, next_page_token=more))

    @staticmethod
    def _described(name):
        return pb.Encoder(
            id=name,
            dimensions=vectors.DIMENSIONS,
            max_tokens=4096,
            max_batch_items=MOST_ITEMS,
            prompts=PROMPTS,
            similarity=common.SIMILARITY_COSINE,
            dtypes=[common.DTYPE_F32],
            capabilities=[pb.CAPABILITY_DENSE, pb.CAPABILITY_SPARSE, pb.CAPABILITY_MULTI_VECTOR, pb.CAPABILITY_RERANK],
            vector_space=space("a", "", vectors.DIMENSIONS),
            loaded=True,
        )

    def GetEncoder(self, request, context):
        noted = self.begin(context, "GetEncoder")

        def call():
            self._known(request.id, "id")
            return pb.GetEncoderResponse(encoder=self._described(request.id))

        return self._answered(context, noted, call)

    @staticmethod
    def _known(name, field):
        if name not in ENCODERS:
            message = f"`{name}` is not served"
            raise Refused(failure(code_pb2.NOT_FOUND, "UNKNOWN_ENCODER", message, None, f"one of {', '.join(sorted(ENCODERS))}"))

    def Encode(self, request, context):
        texts = [item.text for item in request.inputs]
        noted = self.begin(context, "Encode", encoder=request.encoder_id, texts=texts)
        return self._answered(context, noted, lambda: self._encode(request, texts, noted, context))

    def Rerank(self, request, context):
        noted = self.begin(context, "Rerank", encoder=request.encoder_id, texts=list(request.documents))

        def call():
            self._known(request.encoder_id, "encoder_id")
            if len(request.documents) > MOST_ITEMS:
                raise Refused(failure(code_pb2.INVALID_ARGUMENT, "INVALID_ARGUMENT", f"holds {len(request.documents)}", "documents"))
            found = [(index, vectors.score(request.query, text)) for index, text in enumerate(request.documents)]
            found.sort(key=lambda one: (-one[1], one[0]))
            best = found[: request.top_n] if request.HasField("top_n") else found
            results = [pb.RerankResponse.Result(index=index, score=score) for index, score in best]
            return pb.RerankResponse(results=results, usage=common.Usage(texts=len(request.documents)))

        return self._answered(context, noted, call)

    def _encode(self, request, texts, noted, context):
        self._known(request.encoder_id, "encoder_id")
        if not 1 <= len(texts) <= MOST_ITEMS:
            hint = "send several requests or a stream"
            raise Refused(failure(code_pb2.INVALID_ARGUMENT, "INVALID_ARGUMENT", f"holds {len(texts)} texts, the most is {MOST_ITEMS}", "inputs", hint))
        mark, errors = self._fault(request.encoder_id, texts, noted, context)
        prompt = ""
        if request.WhichOneof("prompt") == "prompt_name":
            if request.prompt_name not in PROMPTS:
                hint = f"one of {', '.join(PROMPTS)}"
                raise Refused(failure(code_pb2.INVALID_ARGUMENT, "INVALID_ARGUMENT", f"`{request.prompt_name}` is unknown", "prompt_name", hint))
            prompt = PROMPTS[request.prompt_name]
        elif request.WhichOneof("prompt") == "literal_prompt":
            prompt = request.literal_prompt
        columns = 131072 if request.encoder_id == "wide" else vectors.DIMENSIONS
        columns = request.dimensions if request.HasField("dimensions") else columns
        rows, counts = [], []
        for index, text in enumerate(texts):
            of_text = vectors.token_vectors(prompt + text) if request.output == pb.OUTPUT_TOKEN_VECTORS else [vectors.vector(text, prompt, columns)]
            if index in {error.index for error in errors}:
                of_text = [bytes(4 * columns)]
            rows += of_text
            counts.append(len(of_text))
        if request.encoder_id == "short":
            rows.pop()
        if request.outputs:
            return self._outputs(request, texts, prompt, rows)
        return pb.EncodeResponse(
            embeddings=common.Matrix(rows=len(rows), cols=columns, dtype=common.DTYPE_F32, data=b"".join(rows)),
            token_counts=[len(text.split()) + 2 for text in texts],
            truncated=[False] * len(texts),
            errors=errors,
            vector_space=space(mark, prompt, columns),
            usage=common.Usage(texts=len(texts), tokens=sum(len(text.split()) + 2 for text in texts)),
            row_counts=counts if request.output == pb.OUTPUT_TOKEN_VECTORS else [],
        )

    @staticmethod
    def _outputs(request, texts, prompt, rows):
        """Several results, each in a space of its own."""
        answer = pb.EncodeResponse(
            token_counts=[len(text.split()) + 2 for text in texts],
            truncated=[False] * len(texts),
            usage=common.Usage(texts=len(texts), tokens=sum(len(text.split()) + 2 for text in texts)),
        )
        columns = request.dimensions if request.HasField("dimensions") else vectors.DIMENSIONS
        if pb.OUTPUT_TEXT_VECTOR in request.outputs:
            answer.embeddings.CopyFrom(common.Matrix(rows=len(rows), cols=columns, dtype=common.DTYPE_F32, data=b"".join(rows)))
            answer.vector_space.CopyFrom(space("a", prompt, columns))
        if pb.OUTPUT_SPARSE in request.outputs:
            most = request.max_active_dimensions if request.HasField("max_active_dimensions") else None
            for text in texts:
                entries = vectors.sparse_vector(prompt + text, most)
                if request.encoder_id == "descending":
                    entries.reverse()
                answer.sparse_embeddings.add(indices=[index for index, _ in entries], values=[value for _, value in entries])
            other = request.encoder_id == "other-sparse" and "text 20" in texts
            answer.sparse_vector_space.CopyFrom(space("other" if other else "sparse", prompt, 1 << 16))
        if pb.OUTPUT_TOKEN_VECTORS in request.outputs:
            of_texts = [vectors.token_vectors(prompt + text) for text in texts]
            data = b"".join(row for rows in of_texts for row in rows)
            count = sum(len(rows) for rows in of_texts)
            answer.token_embeddings.CopyFrom(common.Matrix(rows=count, cols=vectors.DIMENSIONS, dtype=common.DTYPE_F32, data=data))
            answer.row_counts.extend(len(rows) for rows in of_texts)
            answer.token_vector_space.CopyFrom(space("tokens", prompt, vectors.DIMENSIONS))
        return answer

    def _fault(self, encoder, texts, noted, context):
        """Does what the encoder is there for; the mark of the space, and texts that fail."""
        first_time = noted["number"] == 1
        if encoder == "reversed":
            self._wait_for_later(noted, context)
        elif encoder == "fails-once" and "text 20" in texts and self._once(noted, "text 20"):
            raise Refused(failure(code_pb2.UNAVAILABLE, "PROVIDER_UNAVAILABLE", "the provider is gone"))
        elif encoder == "once" and first_time:
            raise Refused(failure(code_pb2.UNAVAILABLE, "PROVIDER_UNAVAILABLE", "the provider is gone"))
        elif encoder == "overloaded-twice" and noted["number"] <= 2:
            raise Refused(failure(code_pb2.RESOURCE_EXHAUSTED, "OVERLOADED", "the queue is full", retry=0.3))
        elif encoder == "overloaded-long":
            raise Refused(failure(code_pb2.RESOURCE_EXHAUSTED, "OVERLOADED", "the queue is full", retry=60))
        elif encoder == "no-budget":
            hint = "wait for the next day"
            raise Refused(failure(code_pb2.RESOURCE_EXHAUSTED, "BUDGET_EXCEEDED", "the key's budget of tokens is used up", hint=hint))
        elif encoder == "slow":
            self._sleep(20, context)
        elif encoder == "refuses-bad" and "bad" in texts:
            field, hint = f"inputs[{texts.index('bad')}].text", "send another text"
            raise Refused(failure(code_pb2.INVALID_ARGUMENT, "INVALID_ARGUMENT", "is bad", field, hint))
        elif encoder in ("restarts", "goes-away") and noted["number"] == 2:
            getattr(self._server, "restart" if encoder == "restarts" else "go_away")()
            if encoder == "restarts":
                self._sleep(20, context)
        elif encoder == "fails-bad":
            bad = [index for index, text in enumerate(texts) if text == "bad"]
            return "a", [common.ItemError(index=index, code=code_pb2.INTERNAL, message="cannot be encoded") for index in bad]
        other = encoder == "two-spaces" and "text 20" in texts or encoder == "changes" and not first_time
        return ("b" if other else "a"), []

    def _once(self, noted, what):
        with self._lock:
            key = (noted["metadata"].get("x-case"), what)
            return self._open.setdefault(key, noted) is noted

    def _wait_for_later(self, noted, context):
        """Until three requests are there and those that came later are answered; after 5 s in any case."""
        until = time.monotonic() + 5
        case = noted["metadata"].get("x-case", "")
        last = (noted["number"] + 2) // 3 * 3
        while time.monotonic() < until and context.is_active():
            later = [one for one in self._journal.of(case) if one["method"] == "Encode" and noted["number"] < one["number"] <= last]
            if len(later) == last - noted["number"] and all(one["answered"] for one in later):
                return
            time.sleep(0.01)

    @staticmethod
    def _sleep(seconds, context):
        until = time.monotonic() + seconds
        while time.monotonic() < until and context.is_active():
            time.sleep(0.02)


class Runs(run_pb2_grpc.RunServiceServicer):
    """Runs whose first answer is lost, and whose stream of events breaks once."""

    def __init__(self, encoder, journal):
        self._encoder, self._journal = encoder, journal
        self._runs = {}

    def CreateRun(self, request, context):
        noted = self._encoder.begin(context, "CreateRun", request_id=request.request_id)
        run = self._runs.setdefault(request.request_id, run_pb2.Run(id=f"run-{len(self._runs) + 1}"))
        noted["answered"] = time.monotonic()
        if noted["number"] == 1:
            # It was made, and the answer is lost on its way.
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
        return run_pb2.CreateRunResponse(run=run)

    def WatchRun(self, request, context):
        noted = self._encoder.begin(context, "WatchRun", after=request.after_sequence)
        for sequence in range(request.after_sequence + 1, 7):
            if noted["number"] == 1 and sequence == 4:
                noted["answered"] = time.monotonic()
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            event = run_pb2.WatchRunResponse(sequence=sequence, message=f"event {sequence}")
            if sequence == 6:
                event.ended.CopyFrom(run_pb2.Run(id=request.id, state=run_pb2.RUN_STATE_SUCCEEDED))
            yield event
        noted["answered"] = time.monotonic()


class Access(access_pb2_grpc.AccessServiceServicer):
    """Makes a key, and its answer is lost."""

    def __init__(self, encoder):
        self._encoder = encoder

    def CreateKey(self, request, context):
        self._encoder.begin(context, "CreateKey")["answered"] = time.monotonic()
        context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")


class Stub:
    """The server, which can be stopped and started again at its address."""

    def __init__(self, credentials=None):
        self.journal = Journal()
        self._lock = threading.Lock()
        self._retired = []
        # Keeps the port while no server listens.
        self._hold = socket.socket()
        self._hold.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._hold.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._hold.getsockname()[1]}"
        self._server = self._started()

    def _started(self):
        server = grpc.server(futures.ThreadPoolExecutor(32), options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 1)])
        encoder = Encoder(self, self.journal)
        encoder_pb2_grpc.add_EncoderServiceServicer_to_server(encoder, server)
        run_pb2_grpc.add_RunServiceServicer_to_server(Runs(encoder, self.journal), server)
        access_pb2_grpc.add_AccessServiceServicer_to_server(Access(encoder), server)
        healthy = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        healthy.set("", health_pb2.HealthCheckResponse.SERVING)
        server.add_insecure_port(self.address)
        server.start()
        return server

    def restart(self):
        """Cuts every call off, and does not listen for 400 ms."""

        def again():
            with self._lock:
                self._server.stop(None).wait()
                time.sleep(0.4)
                self._server = self._started()

        threading.Thread(target=again).start()

    def go_away(self):
        """Lets calls in flight end, takes no others on these connections, and listens anew."""
        with self._lock:
            self._retired.append(self._server)
            self._server.stop(10)
            self._server = self._started()

    def stop(self):
        with self._lock:
            for server in [self._server, *self._retired]:
                server.stop(None)
        self._hold.close()
