"""Calls over a blocking channel: one retry loop, several requests in flight on threads, cancellation from other threads.

`_aio_transport.py` is the same for asyncio.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import contextvars
import os
import threading
import time
from typing import Any, Callable, Deque, Dict, Generator, Iterable, Iterator, List, Optional, TypeVar, Union

import grpc

from .credentials import Token, as_token
from .errors import Cancelled, IsomerError, from_rpc
from .matrix import LargeRequest, serialised
from .methods import Method, Q, R
from .retry import Deadline
from .settings import Settings
from .telemetry import Headers, telemetry

T = TypeVar("T")
U = TypeVar("U")


_CURRENT: contextvars.ContextVar[Optional[Cancel]] = contextvars.ContextVar("isomer_client.cancel", default=None)


class Cancel:
    """Cancels, from another thread, the calls that are made inside its `with` block.

    They raise Cancelled, and what is in flight at the server is dropped. It stays cancelled. (With
    asyncio, cancel the task.)

        cancel = Cancel()
        threading.Timer(5, cancel.cancel).start()
        with cancel:
            client.encode(texts, encoder="all-MiniLM-L6-v2")
    """

    def __init__(self) -> None:
        self._calls: set[Any] = set()
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._outer: List[contextvars.Token[Optional[Cancel]]] = []

    def __enter__(self) -> Cancel:
        self._outer.append(_CURRENT.set(self))
        return self

    def __exit__(self, *_: Any) -> None:
        _CURRENT.reset(self._outer.pop())

    def cancel(self) -> None:
        self._event.set()
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it was cancelled within this many seconds."""
        return self._event.wait(seconds)

    @contextlib.contextmanager
    def watching(self, call: Any) -> Generator[None, None, None]:
        """Whatever is cancelled with this one while the block lasts."""
        with self._lock:
            self._calls.add(call)
        try:
            if self.cancelled:
                call.cancel()
            yield
        finally:
            with self._lock:
                self._calls.discard(call)


class Operation:
    """One call of the caller's, of any number of requests: how long it may take, and what cancels it."""

    def __init__(self, timeout: Optional[float] = None, cancel: Optional[Cancel] = None) -> None:
        self.deadline = Deadline(timeout)
        self.cancel = cancel or _CURRENT.get() or Cancel()


class Transport:
    """A channel to one server. Threads may share it. A child process after a fork gets a channel of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.checked()
        self._target, self._secure = settings.target()
        self._credentials = settings.credentials()
        self._telemetry = telemetry(settings.telemetry)
        self._lock = threading.Lock()
        self._process = 0
        self._channel: Optional[grpc.Channel] = None
        self._callables: Dict[str, Any] = {}
        self._token: Optional[Token] = None
        self._closed = False

    # Channels

    def _open(self) -> grpc.Channel:
        """The channel of this process."""
        with self._lock:
            if self._closed:
                raise IsomerError("the client is closed", code=grpc.StatusCode.CANCELLED, hint="make a new one")
            if self._channel is None or self._process != os.getpid():
                # A channel does not outlive a fork, and closing the parent's would disturb it.
                options = self.settings.channel_options()
                if self._credentials is not None:
                    self._channel = grpc.secure_channel(self._target, self._credentials, options)
                else:
                    self._channel = grpc.insecure_channel(self._target, options)
                self._process, self._callables = os.getpid(), {}
            return self._channel

    def _callable(self, kind: str, method: Method[Q, R]) -> Any:
        channel = self._open()
        made = self._callables.get(method.path)
        if made is None:
            make: Any = getattr(channel, kind)
            made = make(method.path, request_serializer=serialised, response_deserializer=method.response.FromString)
            self._callables[method.path] = made
        return made

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._channel is not None and self._process == os.getpid():
                self._channel.close()
            self._channel = None

    # Calls

    def call(self, method: Method[Q, R], request: Union[Q, LargeRequest[Q]], operation: Optional[Operation] = None) -> R:
        """A call with one answer, retried as the policy says."""
        operation = operation or Operation()
        deadline = operation.deadline.earlier(self.settings.timeout)
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._attempt(method, request, operation, deadline, attempt)
            except IsomerError as error:
                self._pause(error, method, operation, deadline, attempt)

    def _attempt(self, method: Method[Q, R], request: Union[Q, LargeRequest[Q]], operation: Operation, deadline: Deadline, attempt: int) -> R:
        headers = self._headers()
        with self._telemetry.call(method.path, attempt, headers, self._target) as span:
            call = self._callable("unary_unary", method).future(request, timeout=deadline.remaining(), metadata=headers)
            with operation.cancel.watching(call):
                try:
                    answer: R = call.result()
                    return answer
                except (grpc.RpcError, grpc.FutureCancelledError) as error:
                    failed = self._failed(call if isinstance(error, grpc.FutureCancelledError) else error, method, operation, attempt)
                    span.failed(failed)
                    raise failed from None
                except BaseException:
                    call.cancel()
                    raise

    def stream(self, method: Method[Q, R], request: Q, operation: Optional[Operation] = None) -> Generator[R, None, None]:
        """A call with many answers, made once: what resumes it knows where it stood. Closing it cancels it."""
        operation = operation or Operation()
        headers = self._headers()
        with self._telemetry.call(method.path, 1, headers, self._target) as span:
            timeout = operation.deadline.remaining()
            call = self._callable("unary_stream", method)(request, timeout=timeout, metadata=headers)
            with operation.cancel.watching(call):
                try:
                    yield from call
                except grpc.RpcError as error:
                    failed = self._failed(error, method, operation, 1)
                    span.failed(failed)
                    raise failed from None
                finally:
                    call.cancel()

    def _failed(self, error: Any, method: Method[Q, R], operation: Operation, attempt: int) -> IsomerError:
        if operation.cancel.cancelled:
            return Cancelled("the call was cancelled", method=method.path, attempts=attempt)
        return from_rpc(error, method.path, attempt)

    def pause(self, error: IsomerError, method: Method[Q, R], operation: Operation, attempt: int) -> None:
        """Waits before a stream is restarted; raises the error if a restart makes no sense."""
        self._pause(error, method, operation, operation.deadline, attempt)

    def _pause(self, error: IsomerError, method: Method[Q, R], operation: Operation, deadline: Deadline, attempt: int) -> None:
        if operation.cancel.cancelled:
            raise error
        if attempt == 1 and self._outdated_token(error):
            return
        wait = self.settings.retries.wait(error, attempt, method.repeatable, deadline.remaining())
        if wait is None:
            raise error
        if operation.cancel.wait(wait):
            raise Cancelled("the call was cancelled", method=method.path, attempts=attempt) from error

    # Metadata of each call

    def _headers(self) -> Headers:
        headers = list(self.settings.metadata)
        secret = self.settings.key
        if self.settings.token is not None:
            secret = self._current_token()
        if secret is not None:
            headers.append(("authorization", f"Bearer {secret}"))
        return headers

    def _current_token(self) -> str:
        with self._lock:
            token = self._token
            if token is None or not token.usable():
                token = self._token = as_token(self.settings.token())
            return token.value

    def _outdated_token(self, error: IsomerError) -> bool:
        """Whether a token was refused that a new one may replace: then once more, at once."""
        if self.settings.token is None or error.code != grpc.StatusCode.UNAUTHENTICATED:
            return False
        with self._lock:
            self._token = None
        return True

    # Several at once

    def ordered(
        self, items: Iterable[T], work: Callable[[T, Operation], U], operation: Operation
    ) -> Generator[U, None, None]:
        """`work` of each item, `in_flight` of them at once; results in the order of the items.

        Items are read in the caller's thread, and only as far as they are worked on. Closing it, or
        an error of any item, cancels the others.
        """
        source = iter(items)
        first = next(source, _NONE)
        second = next(source, _NONE) if first is not _NONE else _NONE
        if first is _NONE:
            return
        if second is _NONE or self.settings.in_flight == 1:
            yield work(first, operation)
            if second is not _NONE:
                yield work(second, operation)
                for item in source:
                    yield work(item, operation)
            return
        # Closing this generator must not cancel what else the caller's `cancel` is for.
        part = Operation(cancel=Cancel())
        part.deadline = operation.deadline
        pool = concurrent.futures.ThreadPoolExecutor(self.settings.in_flight, "isomer-client")
        waiting: Deque[concurrent.futures.Future[U]] = collections.deque()

        def submit(item: T) -> None:
            # With the caller's context: a span of OpenTelemetry's is found in it.
            waiting.append(pool.submit(contextvars.copy_context().run, work, item, part))

        with operation.cancel.watching(part.cancel):
            try:
                submit(first)
                submit(second)
                while waiting:
                    while len(waiting) < self.settings.in_flight:
                        item = next(source, _NONE)
                        if item is _NONE:
                            break
                        submit(item)
                    yield waiting.popleft().result()
            finally:
                part.cancel.cancel()
                pool.shutdown(wait=True, cancel_futures=True)


_NONE: Any = object()


def each(items: Iterable[T]) -> Iterator[T]:
    """The items of whatever gives items."""
    return iter(items)


def sleep(seconds: float) -> None:
    time.sleep(seconds)
