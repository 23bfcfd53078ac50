"""Errors as exceptions: the code, the field and the hint that a server gives are attributes."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple, Type

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

DETAILS = "grpc-status-details-bin"
# Metadata of google.rpc.ErrorInfo under which servers put the hint.
HINT = "mend"
# A place in a list of the request.
INDEXED = re.compile(r"\b(inputs|items|documents|texts|pairs)\[(\d+)\]")


class IsomerError(Exception):
    """A call that failed, or an argument that cannot be meant.

    Attributes:
        code: the gRPC code.
        reason: the stable reason of the server, e.g. `UNKNOWN_ENCODER`; empty where there is none.
        message: what is wrong, in one sentence that names the field.
        field: path of the invalid field, e.g. `inputs[3].text`. An index refers
            to the caller's list, however it was split into requests.
        hint: what to do about it.
        retry_after: seconds after which the server says that trying again makes sense.
        metadata: further facts, e.g. `scope`.
        method: the rpc, e.g. `/isomer.encoder.v1.EncoderService/Encode`; empty where none was made.
        attempts: how often it was made.
    """

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        code: Optional[grpc.StatusCode] = None,
        reason: str = "",
        field: Optional[str] = None,
        hint: Optional[str] = None,
        retry_after: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        method: str = "",
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message
        self.reason = reason
        self.field = field
        self.hint = hint
        self.retry_after = retry_after
        self.metadata: Dict[str, str] = dict(metadata or {})
        self.method = method
        self.attempts = attempts

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuilt, (type(self), self.message, self.__dict__)

    def moved(self, start: int) -> IsomerError:
        """The same with places in lists counted from `start`: a request of several may hold any part of a list."""
        if start:

            def move(found: re.Match[str]) -> str:
                return f"{found[1]}[{int(found[2]) + start}]"

            self.message = INDEXED.sub(move, self.message)
            self.field = INDEXED.sub(move, self.field) if self.field else self.field
        return self


def _rebuilt(kind: Type[IsomerError], message: str, state: Dict[str, Any]) -> IsomerError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class InvalidArgument(IsomerError, ValueError):
    """Something in the request cannot be meant; `field` says what."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(IsomerError, LookupError):
    """An encoder, generator, run, key, … that is not there."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(IsomerError):
    """An id that is taken."""

    code = grpc.StatusCode.ALREADY_EXISTS


class Unauthenticated(IsomerError):
    """No key, or one that is unknown, revoked or expired: see `reason`."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(IsomerError):
    """A key without the scope that is needed: see `metadata["scope"]`."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhausted(IsomerError):
    """Overload, a rate limit or a spent budget: see `reason` and `retry_after`."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPrecondition(IsomerError):
    """A request that is valid, while something that it depends on is not."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class ClientTooOld(FailedPrecondition):
    """This client is older than any that the server serves: `metadata["oldest_client"]` says which it serves."""


class Aborted(IsomerError):
    """Somebody else changed the same thing, or a text failed where none may."""

    code = grpc.StatusCode.ABORTED


class Unimplemented(IsomerError):
    """The server or encoder does not support the request."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Unavailable(IsomerError, ConnectionError):
    """The server, or something behind it, cannot be reached."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(IsomerError, TimeoutError):
    """No answer within the time allowed."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(IsomerError):
    """The caller cancelled."""

    code = grpc.StatusCode.CANCELLED


class ServerFault(IsomerError):
    """A defect of the server's."""

    code = grpc.StatusCode.INTERNAL


class BadAnswer(IsomerError):
    """An answer that does not fit its request: too few rows, bytes that are missing."""

    code = grpc.StatusCode.DATA_LOSS


class SpaceMismatch(IsomerError, ValueError):
    """Vectors of two spaces where one is expected. They must not be compared or stored together.

    `expected` and `found` are the two spaces, `differing` the names of the fields that differ.
    """

    code = grpc.StatusCode.FAILED_PRECONDITION
    expected: Any = None
    found: Any = None
    differing: Tuple[str, ...] = ()


class TextsFailed(IsomerError):
    """Some texts of a list have no vector, others have. `errors` lists them, `embeddings` has the others (rows of zeros for these)."""

    errors: Tuple[Any, ...] = tuple[Any, ...]()
    embeddings: Any = None


BY_CODE: Dict[grpc.StatusCode, Type[IsomerError]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        NotFound,
        AlreadyExists,
        Unauthenticated,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        Unimplemented,
        Unavailable,
        DeadlineExceeded,
        Cancelled,
        ServerFault,
        BadAnswer,
    )
}
CLIENT_TOO_OLD = "CLIENT_TOO_OLD"
BY_NUMBER: Dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class _Raw:
    """A failed call of either library, with the fields that both have."""

    __slots__ = ("code", "details", "trailers")

    def __init__(self, code: grpc.StatusCode, details: str, trailers: Any) -> None:
        self.code, self.details, self.trailers = code, details, trailers


def raw(error: Any) -> _Raw:
    """Of a `grpc.RpcError` or a `grpc.aio.AioRpcError`."""
    return _Raw(error.code(), error.details() or "", error.trailing_metadata() or ())


class _Details:
    def __init__(self, trailers: Any) -> None:
        self.reason = ""
        self.field: Optional[str] = None
        self.hint: Optional[str] = None
        self.retry_after: Optional[float] = None
        self.metadata: Dict[str, str] = {}
        for key, value in trailers:
            if key == DETAILS:
                try:
                    self._read(status_pb2.Status.FromString(bytes(value)))
                except DecodeError:
                    # A proxy may have cut it. The code and the message are still there.
                    pass

    def _read(self, status: Any) -> None:
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            bad = error_details_pb2.BadRequest()
            retry = error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                self.reason = info.reason
                self.metadata = dict(info.metadata)
                self.hint = self.metadata.pop(HINT, None)
            elif detail.Unpack(bad) and bad.field_violations:
                self.field = bad.field_violations[0].field
            elif detail.Unpack(retry):
                self.retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9


def from_rpc(error: Any, method: str, attempts: int) -> IsomerError:
    """The exception for a failed call, with what its details say."""
    found = raw(error)
    details = _Details(found.trailers)
    kind = BY_CODE.get(found.code, IsomerError)
    if details.reason == CLIENT_TOO_OLD:
        kind = ClientTooOld
    return kind(
        found.details or found.code.name,
        code=found.code,
        reason=details.reason,
        field=details.field,
        hint=details.hint,
        retry_after=details.retry_after,
        metadata=details.metadata,
        method=method,
        attempts=attempts,
    )
