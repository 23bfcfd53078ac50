"""When a call is made again, and how much time it has: pure rules, with the clock handed in."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Optional

import grpc

from .errors import IsomerError

CODES_OF_A_BROKEN_CONNECTION = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How often a call is made again.

    A refusal with RetryInfo is waited out as the server asks. A broken connection is tried again
    with growing pauses, and only for calls that may be made twice. Everything else is final.
    """

    overloaded: int = 8
    """Maximum number of attempts at a server that says when to come back."""
    unreachable: int = 6
    """Maximum number of attempts at a server that cannot be reached."""
    first_wait: float = 0.2
    """Seconds before the second attempt; doubled from attempt to attempt."""
    longest_wait: float = 20.0
    """Maximum number of seconds between two attempts.
    A server that asks for longer is not asked again."""

    def wait(self, error: IsomerError, attempt: int, repeatable: bool, remaining: Optional[float]) -> Optional[float]:
        """Seconds to wait before the next attempt; none where the error is final.

        `remaining` is the time left to the call, which a wait must not use up.
        """
        own = self.first_wait * 2.0 ** (attempt - 1)
        if error.retry_after is not None and error.code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE):
            if attempt >= self.overloaded or error.retry_after > self.longest_wait:
                return None
            wait = max(error.retry_after, min(own, self.longest_wait))
        elif repeatable and error.code in CODES_OF_A_BROKEN_CONNECTION:
            if attempt >= self.unreachable:
                return None
            # Between half and all of it, so that clients of one server do not come back together.
            wait = min(own, self.longest_wait) * random.uniform(0.5, 1.0)
        else:
            return None
        return wait if remaining is None or wait < remaining else None


NO_RETRIES = RetryPolicy(overloaded=1, unreachable=1)


class Deadline:
    """A moment by which something must be over; none: it may take for ever."""

    __slots__ = ("_at",)

    def __init__(self, seconds: Optional[float]) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds

    def remaining(self) -> Optional[float]:
        return None if self._at is None else max(self._at - time.monotonic(), 0.0)

    def earlier(self, seconds: Optional[float]) -> Deadline:
        """This deadline, or one after this many seconds if that is earlier."""
        other = Deadline(seconds)
        if self._at is None or (other._at is not None and other._at < self._at):
            return other
        return self
