"""One client span a call and its `traceparent`, with OpenTelemetry where it is installed."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Dict, Generator, List, Optional, Tuple

from ._version import VERSION
from .errors import IsomerError

Headers = List[Tuple[str, str]]


class Span:
    """Telemetry of a call. This one records nothing."""

    def failed(self, error: IsomerError) -> None:
        """Notes the error that the call ended with."""


class Telemetry:
    """No telemetry: OpenTelemetry is not installed, or the client is configured not to use it."""

    def call(self, path: str, attempt: int, headers: Headers, address: str) -> ContextManager[Span]:
        """Surrounds one attempt; headers that carry the trace are added to `headers`."""
        return contextlib.nullcontext(_SILENT)


_SILENT = Span()


class _OtelSpan(Span):
    def __init__(self, span: Any, trace: Any) -> None:
        self._span, self._trace = span, trace

    def failed(self, error: IsomerError) -> None:
        self._span.set_attribute("rpc.grpc.status_code", error.code.value[0])
        self._span.set_attribute("error.type", error.reason or error.code.name)
        self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, error.code.name))


class _Otel(Telemetry):
    """OpenTelemetry's semantic conventions for rpc clients. No attribute holds texts or keys."""

    def __init__(self, trace: Any, propagate: Any) -> None:
        self._trace, self._propagate = trace, propagate

    @contextlib.contextmanager
    def _span(self, path: str, attempt: int, headers: Headers, address: str) -> Generator[Span, None, None]:
        tracer = self._trace.get_tracer("isomer_client", VERSION)
        service, _, method = path.lstrip("/").partition("/")
        host, _, port = address.rpartition(":")
        attributes: Dict[str, Any] = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method, "server.address": host or address}
        if port.isdigit():
            attributes["server.port"] = int(port)
        if attempt > 1:
            attributes["isomer.attempt"] = attempt
        # Never the current span: a stream's lasts while its caller does other things.
        span = tracer.start_span(path.lstrip("/"), kind=self._trace.SpanKind.CLIENT, attributes=attributes)
        try:
            carrier: Dict[str, str] = {}
            self._propagate.inject(carrier, context=self._trace.set_span_in_context(span))
            headers.extend((name.lower(), value) for name, value in carrier.items())
            yield _OtelSpan(span, self._trace)
        finally:
            span.end()

    def call(self, path: str, attempt: int, headers: Headers, address: str) -> ContextManager[Span]:
        return self._span(path, attempt, headers, address)


def telemetry(wanted: bool) -> Telemetry:
    """OpenTelemetry's, if it is wanted and its API is installed."""
    found: Optional[Tuple[Any, Any]] = None
    if wanted:
        try:
            from opentelemetry import propagate, trace

            found = (trace, propagate)
        except ImportError:
            pass
    return _Otel(*found) if found else Telemetry()
