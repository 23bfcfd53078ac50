"""Vector spaces, and what keeps vectors of two of them apart."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any, Dict, Mapping, Optional, Tuple

from .errors import SpaceMismatch
from .proto.common.v1 import common_pb2


@dataclasses.dataclass(frozen=True)
class VectorSpace:
    """Properties that vectors must share to be compared; see the message of that name for each
    field."""

    digest: str
    model_id: str = ""
    weights_digest: str = ""
    prompt: str = ""
    pooling: str = ""
    normalised: bool = False
    dimensions: int = 0
    dtype: int = 0
    augmentation: str = ""
    quantisation: str = ""
    settings_digest: str = ""

    @classmethod
    def of(cls, message: common_pb2.VectorSpace) -> VectorSpace:
        return cls(**{field.name: getattr(message, field.name) for field in dataclasses.fields(cls)})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> VectorSpace:
        return cls(**fields)

    def to_dict(self) -> Dict[str, Any]:
        """Fields for a file beside an index; `from_dict` reads them."""
        return dataclasses.asdict(self)

    def differing(self, other: VectorSpace) -> Tuple[str, ...]:
        """Names of the fields that differ, the digest last, which follows from the others."""
        names = [field.name for field in dataclasses.fields(self) if getattr(self, field.name) != getattr(other, field.name)]
        return tuple(sorted(names, key=lambda name: name == "digest"))

    def compares_with(self, other: VectorSpace) -> bool:
        """Whether vectors of the two may be compared: one space, or two that differ in the prompt alone."""
        return self.digest == other.digest or set(self.differing(other)) <= {"prompt", "digest"}


class Collection:
    """The space of vectors that are kept together, e.g. in one index.

    The first vectors decide which one it is, or `space` does. Vectors that cannot be compared with
    it raise SpaceMismatch. Queries and documents may have prompts of their own. One collection may
    be used by several threads, and with several clients.
    """

    def __init__(self, name: str = "", space: Optional[VectorSpace] = None) -> None:
        self.name = name
        self._space = space
        self._lock = threading.Lock()

    @property
    def space(self) -> Optional[VectorSpace]:
        """The space of the first vectors; store `space.to_dict()` beside an index."""
        return self._space

    def check(self, found: VectorSpace) -> None:
        """Raises SpaceMismatch unless vectors of `found` belong here."""
        with self._lock:
            if self._space is None:
                self._space = found
            expected = self._space
        if not expected.compares_with(found):
            raise mismatch(expected, found, f"the collection `{self.name}`" if self.name else "the collection")


def mismatch(expected: VectorSpace, found: VectorSpace, whose: str) -> SpaceMismatch:
    differing = expected.differing(found)
    told = ", ".join(
        f"{name} {getattr(found, name)!r} in place of {getattr(expected, name)!r}" for name in differing if name != "digest"
    )
    error = SpaceMismatch(
        f"vectors of another space than those of {whose}: {told or 'digest ' + found.digest}",
        reason="SPACE_MISMATCH",
        field="vector_space",
        hint="encode everything again into a collection of its own, or ask the encoder that the first vectors came from",
    )
    error.expected, error.found, error.differing = expected, found, differing
    return error


class Known:
    """The spaces that a client has seen: the same question must not be answered in another space later."""

    def __init__(self) -> None:
        self._spaces: Dict[Tuple[Any, ...], VectorSpace] = {}
        self._lock = threading.Lock()

    def check(self, asked: Tuple[Any, ...], found: VectorSpace) -> None:
        with self._lock:
            expected = self._spaces.setdefault(asked, found)
        if expected.digest != found.digest:
            raise mismatch(expected, found, f"`{asked[0]}` before")
