"""Serves an encoder of one's own, and registers it with a gateway: implement `Provider`'s two methods and call `serve`.

A text's vector must depend on the text alone: not on the others of its batch, not on their order.
CheckProvider (`isomer providers check`) looks at that, and at what else a provider owes its callers.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import logging
import re
import signal
import threading
import time
from concurrent import futures
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import grpc
import numpy as np
import numpy.typing as npt
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from ._sync.client import Client
from .errors import DETAILS, HINT, IsomerError, NotFound
from .proto.common.v1 import common_pb2
from .proto.encoder.v1 import encoder_pb2, encoder_pb2_grpc
from .proto.gateway.v1 import provider_pb2

log = logging.getLogger("isomer_client.provider")


@dataclasses.dataclass(frozen=True)
class Description:
    """Description of an encoder, as callers receive it."""

    id: str
    version: str
    """Changes whenever equal texts begin to get other vectors: it is part of the vector space."""
    dimensions: int
    max_batch_items: int = 512
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """Name of a prompt to the text that is put before each text."""
    normalises: bool = True
    """Whether vectors are of unit length unless a request says otherwise."""
    matryoshka_dimensions: Sequence[int] = ()
    """Smaller numbers of columns that the vectors may be cut to."""


class Provider(abc.ABC):
    """An encoder. Its methods are called by several threads at once, `threads` of them."""

    @abc.abstractmethod
    def describe(self) -> Description:
        """Description of the encoder. Called once."""

    @abc.abstractmethod
    def encode(self, texts: List[str]) -> npt.ArrayLike:
        """A row of `dimensions` 32-bit floats for each text. Prompts are in front of the texts already."""

    def count_tokens(self, texts: List[str]) -> List[int]:
        """Tokens of each text; words, unless a provider says better. Callers can see that they are
        estimates."""
        return [len(text.split()) for text in texts]


class _Refused(Exception):
    def __init__(self, code: grpc.StatusCode, reason: str, message: str, field: str = "", hint: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.code, self.reason, self.field, self.hint = code, reason, field, hint

    def details(self) -> bytes:
        status: Any = status_pb2.Status(code=self.code.value[0], message=str(self))
        info: Any = error_details_pb2.ErrorInfo(reason=self.reason, domain="isomer")
        if self.hint:
            info.metadata[HINT] = self.hint
        messages = [info]
        if self.field:
            violation = error_details_pb2.BadRequest.FieldViolation(field=self.field, description=str(self))
            messages.append(error_details_pb2.BadRequest(field_violations=[violation]))
        for message in messages:
            packed = AnyMessage()
            packed.Pack(message)
            status.details.append(packed)
        data: bytes = status.SerializeToString()
        return data


INVALID, UNIMPLEMENTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED


class Servicer(encoder_pb2_grpc.EncoderServiceServicer):
    """EncoderService in front of a provider."""

    def __init__(self, provider: Provider, keys: Sequence[str] = ()) -> None:
        self._provider, self._is = provider, provider.describe()
        self._keys = [f"Bearer {key}" for key in keys]

    # Requests and refusals

    def _answered(self, context: Any, call: Callable[[], Any]) -> Any:
        try:
            self._admit(context)
            return call()
        except _Refused as refused:
            context.set_trailing_metadata(((DETAILS, refused.details()),))
            context.abort(refused.code, str(refused))

    def _admit(self, context: Any) -> None:
        given: Dict[str, Any] = dict(context.invocation_metadata())
        if self._keys and given.get("authorization") not in self._keys:
            raise _Refused(grpc.StatusCode.UNAUTHENTICATED, "UNKNOWN_KEY", "no key that is known", hint="send `authorization: Bearer KEY`")

    def _known(self, id: str) -> None:
        if id != self._is.id:
            raise _Refused(grpc.StatusCode.NOT_FOUND, "UNKNOWN_ENCODER", f"no encoder `{id}`", "encoder_id", f"ask for `{self._is.id}`")

    def _prompt(self, request: Any) -> str:
        asked = request.WhichOneof("prompt")
        if asked == "literal_prompt":
            return str(request.literal_prompt)
        if asked == "prompt_name" and request.prompt_name:
            if request.prompt_name not in self._is.prompts:
                names = ", ".join(self._is.prompts) or "it has none"
                raise _Refused(INVALID, "INVALID_ARGUMENT", f"there is no prompt `{request.prompt_name}`", "prompt_name", names)
            return self._is.prompts[request.prompt_name]
        return ""

    def _dimensions(self, request: encoder_pb2.EncodeRequest) -> int:
        if not request.HasField("dimensions"):
            return self._is.dimensions
        permitted = [*self._is.matryoshka_dimensions, self._is.dimensions]
        if request.dimensions not in permitted:
            hint = f"one of {', '.join(map(str, permitted))}"
            raise _Refused(INVALID, "INVALID_ARGUMENT", f"{request.dimensions} is not permitted", "dimensions", hint)
        return request.dimensions

    def _texts(self, request: encoder_pb2.EncodeRequest, prompt: str) -> List[str]:
        if not 1 <= len(request.inputs) <= self._is.max_batch_items:
            message, hint = f"holds {len(request.inputs)} texts", f"send 1 to {self._is.max_batch_items}"
            raise _Refused(INVALID, "INVALID_ARGUMENT", message, "inputs", hint)
        for index, item in enumerate(request.inputs):
            if item.WhichOneof("input") != "text":
                raise _Refused(UNIMPLEMENTED, "NOT_SERVED_YET", "only texts are taken", f"inputs[{index}]", "send text")
        return [prompt + item.text for item in request.inputs]

    def _space(self, prompt: str, normalised: bool, dimensions: int) -> common_pb2.VectorSpace:
        fields = [self._is.id, self._is.version, prompt, str(normalised), str(dimensions)]
        return common_pb2.VectorSpace(
            digest=hashlib.sha256("\0".join(fields).encode()).hexdigest(),
            model_id=self._is.id,
            weights_digest=hashlib.sha256(self._is.version.encode()).hexdigest(),
            prompt=prompt,
            pooling=self._is.version,
            normalised=normalised,
            dimensions=dimensions,
            dtype=common_pb2.DTYPE_F32,
        )

    def _described(self) -> encoder_pb2.Encoder:
        return encoder_pb2.Encoder(
            id=self._is.id,
            revision=self._is.version,
            weights_digest=hashlib.sha256(self._is.version.encode()).hexdigest(),
            vector_space=self._space("", self._is.normalises, self._is.dimensions),
            dimensions=self._is.dimensions,
            matryoshka_dimensions=self._is.matryoshka_dimensions,
            max_batch_items=self._is.max_batch_items,
            prompts=dict(self._is.prompts),
            similarity=common_pb2.SIMILARITY_COSINE,
            normalises=self._is.normalises,
            dtypes=[common_pb2.DTYPE_F32],
            capabilities=[encoder_pb2.CAPABILITY_DENSE],
            loaded=True,
        )

    def _encode(self, request: encoder_pb2.EncodeRequest) -> encoder_pb2.EncodeResponse:
        started = time.monotonic_ns()
        self._known(request.encoder_id)
        if request.output_dtype not in (common_pb2.DTYPE_UNSPECIFIED, common_pb2.DTYPE_F32):
            raise _Refused(UNIMPLEMENTED, "NOT_SERVED_YET", "only 32-bit floats are given", "output_dtype", "ask for DTYPE_F32")
        if request.output not in (encoder_pb2.OUTPUT_UNSPECIFIED, encoder_pb2.OUTPUT_TEXT_VECTOR):
            raise _Refused(UNIMPLEMENTED, "NOT_SERVED_YET", "only one vector a text is given", "output", "ask for OUTPUT_TEXT_VECTOR")
        dimensions, prompt = self._dimensions(request), self._prompt(request)
        texts = self._texts(request, prompt)
        normalise = request.normalise if request.HasField("normalise") else self._is.normalises
        rows = np.asarray(self._provider.encode(texts), np.float32)
        if rows.shape != (len(texts), self._is.dimensions):
            raise ValueError(f"encode gave {rows.shape} for {len(texts)} texts of {self._is.dimensions} dimensions")
        rows = scaled(rows[:, :dimensions]) if normalise else rows[:, :dimensions]
        counts = self._provider.count_tokens(texts)
        answer = encoder_pb2.EncodeResponse(
            embeddings=common_pb2.Matrix(
                rows=len(texts), cols=dimensions, dtype=common_pb2.DTYPE_F32, data=np.ascontiguousarray(rows, "<f4").tobytes()
            ),
            token_counts=counts,
            vector_space=self._space(prompt, normalise, dimensions),
            usage=common_pb2.Usage(texts=len(texts), tokens=sum(counts), tokens_estimated=True),
        )
        answer.timing.total.FromNanoseconds(time.monotonic_ns() - started)
        return answer

    # The rpcs

    def ListEncoders(self, request: encoder_pb2.ListEncodersRequest, context: Any) -> Any:
        return self._answered(context, lambda: encoder_pb2.ListEncodersResponse(encoders=[self._described()]))

    def GetEncoder(self, request: encoder_pb2.GetEncoderRequest, context: Any) -> Any:
        def get() -> encoder_pb2.GetEncoderResponse:
            self._known(request.id)
            return encoder_pb2.GetEncoderResponse(encoder=self._described())

        return self._answered(context, get)

    def Encode(self, request: encoder_pb2.EncodeRequest, context: Any) -> Any:
        return self._answered(context, lambda: self._encode(request))

    def EncodeStream(self, request_iterator: Iterator[encoder_pb2.EncodeStreamRequest], context: Any) -> Any:
        for one in request_iterator:
            response = self._answered(context, lambda: self._encode(one.request))  # noqa: B023
            yield encoder_pb2.EncodeStreamResponse(client_index=one.client_index, response=response)

    def CountTokens(self, request: encoder_pb2.CountTokensRequest, context: Any) -> Any:
        def count() -> encoder_pb2.CountTokensResponse:
            self._known(request.encoder_id)
            prompt = self._prompt(request)
            return encoder_pb2.CountTokensResponse(token_counts=self._provider.count_tokens([prompt + text for text in request.texts]))

        return self._answered(context, count)

    def _not_served(self, context: Any) -> Any:
        def refuse() -> None:
            raise _Refused(UNIMPLEMENTED, "NOT_SERVED_YET", "this provider only encodes", hint="call Encode")

        return self._answered(context, refuse)

    def Tokenize(self, request: encoder_pb2.TokenizeRequest, context: Any) -> Any:
        return self._not_served(context)

    def Detokenize(self, request: encoder_pb2.DetokenizeRequest, context: Any) -> Any:
        return self._not_served(context)

    def Rerank(self, request: encoder_pb2.RerankRequest, context: Any) -> Any:
        return self._not_served(context)


def scaled(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rows of unit length, each by itself, so that a row does not depend on the others; rows of zeros stay."""
    lengths = np.array([np.sqrt(np.dot(row, row)) for row in rows], np.float32)
    lengths[lengths == 0] = 1
    return rows / lengths[:, None]


class Server:
    """A provider that is served, and registered as long as it is."""

    def __init__(
        self,
        provider: Provider,
        listen: str = "127.0.0.1:0",
        *,
        keys: Sequence[str] = (),
        threads: int = 8,
        credentials: Optional[grpc.ServerCredentials] = None,
    ) -> None:
        self._is = provider.describe()
        options: List[Tuple[str, Any]] = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._server: Any = grpc.server(futures.ThreadPoolExecutor(threads), options=options)
        encoder_pb2_grpc.add_EncoderServiceServicer_to_server(Servicer(provider, keys), self._server)

        # grpc.health.v1: SERVING is 1, in field 1.
        def serving(request: bytes, context: Any) -> bytes:
            return b"\x08\x01"

        made: Any = grpc
        check = {"Check": made.unary_unary_rpc_method_handler(serving)}
        self._server.add_generic_rpc_handlers((made.method_handlers_generic_handler("grpc.health.v1.Health", check),))
        if credentials is None:
            port = self._server.add_insecure_port(listen)
        else:
            port = self._server.add_secure_port(listen, credentials)
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        self._stopped = threading.Event()
        self._lease: Optional[threading.Thread] = None
        self._server.start()

    def register(self, gateway: Client, id: str, *, lease: float = 30.0, address: Optional[str] = None) -> None:
        """Registers with a gateway, renews the lease in a thread, and takes the provider away when the server stops.

        Args:
            gateway: a client with a key of the scope `admin`.
            address: how the gateway reaches this server; by default `grpc://` and where it listens.
        """
        record = provider_pb2.Provider(
            id=id,
            kind=provider_pb2.PROVIDER_KIND_ISOMER,
            address=address or f"grpc://{self.address}",
            encoders={self._is.id: self._is.id},
            lease=Duration(seconds=int(lease), nanos=int(lease % 1 * 1e9)),
        )
        gateway.providers.update(record, allow_missing=True)
        self._lease = threading.Thread(target=self._renew, args=(gateway, record, lease), daemon=True)
        self._lease.start()

    def _renew(self, gateway: Client, record: provider_pb2.Provider, lease: float) -> None:
        while not self._stopped.wait(lease / 3):
            try:
                try:
                    gateway.providers.renew_lease(record.id, timeout=lease / 3)
                except NotFound:
                    # The lease ran out, or the gateway lost its memory.
                    gateway.providers.update(record, allow_missing=True, timeout=lease / 3)
            except IsomerError as error:
                log.warning("the lease of `%s` was not renewed: %s", record.id, error)
        try:
            gateway.providers.delete(record.id, timeout=5)
        except IsomerError as error:
            log.warning("`%s` was not taken away from its gateway: %s", record.id, error)

    def stop(self, grace: float = 5.0) -> None:
        """Takes the provider away from its gateway, then lets requests in flight end."""
        self._stopped.set()
        if self._lease is not None:
            self._lease.join(10)
        self._server.stop(grace).wait()

    def wait(self) -> None:
        """Until SIGTERM or SIGINT, then stops."""

        def stop(number: int, frame: Optional[FrameType]) -> None:
            self._stopped.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        self._stopped.wait()
        self.stop()


def provider_id(encoder: str) -> str:
    """An encoder's id as a provider's, which has up to 63 of a-z, 0-9 and hyphens."""
    return re.sub("[^a-z0-9]+", "-", encoder.lower()).strip("-")[:63].rstrip("-") or "provider"


def serve(
    provider: Provider, listen: str = "127.0.0.1:0", *, register: Optional[Client] = None, id: Optional[str] = None, lease: float = 30.0
) -> None:
    """Serves until SIGTERM or SIGINT; with `register`, a client of a gateway, under that gateway.

    Args:
        id: the provider's id at the gateway; by default `provider_id` of the encoder's.
    """
    server = Server(provider, listen)
    print(f"listening on {server.address}", flush=True)
    if register is not None:
        name = id or provider_id(provider.describe().id)
        try:
            server.register(register, name, lease=lease)
        except BaseException:
            server.stop(0)
            raise
        print(f"registered as {name}", flush=True)
    server.wait()
