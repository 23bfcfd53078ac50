"""Calls over an asyncio channel: one retry loop, several requests in flight as tasks.

`_sync_transport.py` is the same for threads. Cancelling a task cancels its calls.
"""

from __future__ import annotations

import asyncio
import collections
import inspect
import os
from typing import Any, AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Deque, Dict, Iterable, Optional, TypeVar, Union

import grpc
import grpc.aio

from .credentials import Token, as_token
from .errors import IsomerError, from_rpc
from .matrix import LargeRequest, serialised
from .methods import Method, Q, R
from .retry import Deadline
from .settings import Settings
from .telemetry import Headers, telemetry

T = TypeVar("T")
U = TypeVar("U")


class AsyncOperation:
    """One call of the caller's, of any number of requests: how long it may take."""

    def __init__(self, timeout: Optional[float] = None) -> None:
        self.deadline = Deadline(timeout)


class AsyncTransport:
    """A channel to one server, made at the first call, of the event loop that makes it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.checked()
        self._target, self._secure = settings.target()
        self._credentials = settings.credentials()
        self._telemetry = telemetry(settings.telemetry)
        self._owner: Any = None
        self._channel: Optional[grpc.aio.Channel] = None
        self._callables: Dict[str, Any] = {}
        self._token: Optional[Token] = None
        self._token_lock = asyncio.Lock()
        self._closed = False

    # Channels

    def _open(self) -> grpc.aio.Channel:
        if self._closed:
            raise IsomerError("the client is closed", code=grpc.StatusCode.CANCELLED, hint="make a new one")
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._channel is None:
            options = self.settings.channel_options()
            if self._credentials is not None:
                self._channel = grpc.aio.secure_channel(self._target, self._credentials, options)
            else:
                self._channel = grpc.aio.insecure_channel(self._target, options)
            self._owner = owner
        elif self._owner != owner:
            raise IsomerError(
                "the client belongs to another event loop or process",
                code=grpc.StatusCode.FAILED_PRECONDITION,
                reason="FOREIGN_EVENT_LOOP",
                hint="make an AsyncClient in each event loop, and in each process",
            )
        return self._channel

    def _callable(self, kind: str, method: Method[Q, R]) -> Any:
        channel = self._open()
        made = self._callables.get(method.path)
        if made is None:
            make: Any = getattr(channel, kind)
            made = make(method.path, request_serializer=serialised, response_deserializer=method.response.FromString)
            self._callables[method.path] = made
        return made

    async def close(self) -> None:
        self._closed = True
        if self._channel is not None and self._owner[0] == os.getpid():
            await self._channel.close()
        self._channel = None

    # Calls

    async def call(self, method: Method[Q, R], request: Union[Q, LargeRequest[Q]], operation: Optional[AsyncOperation] = None) -> R:
        """A call with one answer, retried as the policy says."""
        operation = operation or AsyncOperation()
        deadline = operation.deadline.earlier(self.settings.timeout)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(method, request, deadline, attempt)
            except IsomerError as error:
                await self._pause(error, method, deadline, attempt)

    async def _attempt(self, method: Method[Q, R], request: Union[Q, LargeRequest[Q]], deadline: Deadline, attempt: int) -> R:
        headers = await self._headers()
        with self._telemetry.call(method.path, attempt, headers, self._target) as span:
            make = self._callable("unary_unary", method)
            try:
                answer: R = await make(request, timeout=deadline.remaining(), metadata=headers)
                return answer
            except grpc.RpcError as error:
                failed = from_rpc(error, method.path, attempt)
                span.failed(failed)
                raise failed from None

    async def stream(self, method: Method[Q, R], request: Q, operation: Optional[AsyncOperation] = None) -> AsyncGenerator[R, None]:
        """A call with many answers, made once: what resumes it knows where it stood. Closing it cancels it."""
        operation = operation or AsyncOperation()
        headers = await self._headers()
        with self._telemetry.call(method.path, 1, headers, self._target) as span:
            timeout = operation.deadline.remaining()
            call = self._callable("unary_stream", method)(request, timeout=timeout, metadata=headers)
            try:
                async for answer in call:
                    yield answer
            except grpc.RpcError as error:
                failed = from_rpc(error, method.path, 1)
                span.failed(failed)
                raise failed from None
            finally:
                call.cancel()

    async def pause(self, error: IsomerError, method: Method[Q, R], operation: AsyncOperation, attempt: int) -> None:
        """Waits before a stream is restarted; raises the error if a restart makes no sense."""
        await self._pause(error, method, operation.deadline, attempt)

    async def _pause(self, error: IsomerError, method: Method[Q, R], deadline: Deadline, attempt: int) -> None:
        if attempt == 1 and self._outdated_token(error):
            return
        wait = self.settings.retries.wait(error, attempt, method.repeatable, deadline.remaining())
        if wait is None:
            raise error
        await asyncio.sleep(wait)

    # Metadata of each call

    async def _headers(self) -> Headers:
        headers = list(self.settings.metadata)
        secret = self.settings.key
        if self.settings.token is not None:
            secret = await self._current_token()
        if secret is not None:
            headers.append(("authorization", f"Bearer {secret}"))
        return headers

    async def _current_token(self) -> str:
        async with self._token_lock:
            token = self._token
            if token is None or not token.usable():
                # A source that blocks (it may call an identity provider) must not hold the loop.
                source = self.settings.token
                answer = source() if inspect.iscoroutinefunction(source) else await asyncio.to_thread(source)
                token = self._token = as_token(await answer if inspect.isawaitable(answer) else answer)
            return token.value

    def _outdated_token(self, error: IsomerError) -> bool:
        """Whether a token was refused that a new one may replace: then once more, at once."""
        if self.settings.token is None or error.code != grpc.StatusCode.UNAUTHENTICATED:
            return False
        self._token = None
        return True

    # Several at once

    async def ordered(
        self, items: AsyncIterable[T], work: Callable[[T, AsyncOperation], Awaitable[U]], operation: AsyncOperation
    ) -> AsyncGenerator[U, None]:
        """`work` of each item, `in_flight` of them at once; results in the order of the items.

        Items are read only as far as they are worked on. Closing it, or an error of any item,
        cancels the others.
        """
        source = items.__aiter__()
        waiting: Deque[asyncio.Task[U]] = collections.deque()
        more = True
        try:
            while True:
                while more and len(waiting) < self.settings.in_flight:
                    try:
                        item = await source.__anext__()
                    except StopAsyncIteration:
                        more = False
                        break
                    waiting.append(asyncio.ensure_future(work(item, operation)))
                if not waiting:
                    return
                yield await waiting.popleft()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def each(items: Union[Iterable[T], AsyncIterable[T]]) -> AsyncIterator[T]:
    """The items of whatever gives items."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
