"""State that all parts of the client share: the transport, and lists that come in pages."""

from __future__ import annotations

from typing import Any, AsyncIterator, Callable, Optional, Union

from .._aio_transport import AsyncOperation, AsyncTransport
from ..errors import IsomerError
from ..matrix import LargeRequest
from ..methods import Method, Q, R


class AsyncPart:
    """Some of a client's methods."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _call(self, method: Method[Q, R], request: Union[Q, LargeRequest[Q]], timeout: Optional[float]) -> R:
        return await self._transport.call(method, request, AsyncOperation(timeout))

    async def _pages(self, method: Method[Q, R], request: Q, timeout: Optional[float], field: str) -> AsyncIterator[Any]:
        """The entries of every page, each page fetched when the one before is used up."""
        operation = AsyncOperation(timeout)
        paged: Any = request
        while True:
            answer: Any = await self._transport.call(method, request, operation)
            for entry in getattr(answer, field):
                yield entry
            if not answer.next_page_token:
                return
            paged.page_token = answer.next_page_token

    async def _resumed(
        self, method: Method[Q, R], request: Q, timeout: Optional[float], resume: Callable[[R], None], over: Callable[[R], bool]
    ) -> AsyncIterator[R]:
        """A stream, begun again where its connection breaks: `resume` notes in the request how far it came."""
        operation = AsyncOperation(timeout)
        attempt = 0
        while True:
            attempt += 1
            stream = self._transport.stream(method, request, operation)
            try:
                async for answer in stream:
                    attempt = 1
                    resume(answer)
                    yield answer
                    if over(answer):
                        return
                return
            except IsomerError as error:
                await self._transport.pause(error, method, operation, attempt)
            finally:
                await stream.aclose()
