"""Base of the integrations: rows of vectors, plain or augmented (GASE), of one collection."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Sequence

import numpy as np
import numpy.typing as npt

from .._sync.client import Client
from ..encoding import prompt_of_role
from ..spaces import Collection
from ..transforming import Source

Rows = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Gase:
    """Vectors pooled of a text and variants of it; arguments as `Client.encode_augmented`."""

    sources: Sequence[Source]
    pooling: Optional[str] = None
    original_weight: Optional[float] = None
    budget: Optional[float] = None
    seed: Optional[int] = None
    queries_only: bool = True
    """Documents keep their plain vectors: the cheap form. Both are of one encoder, and may be compared."""
    mode: Optional[str] = None
    """When queries use variants: `always`, `budget`, or `cached` (those that are there; the others are made for the next time).
    Documents wait for all of theirs, whatever it says."""

    def __post_init__(self) -> None:
        if self.mode == "cascade":
            raise ValueError('mode: "cascade" needs the scores of a plain search, which frameworks do not pass on: use Client.encode_augmented')


class Vectors:
    """Rows of one encoder. All of them must be in spaces that may be compared, or SpaceMismatch is raised.

    Augmented and plain rows are kept apart: each kind has its own collection.
    """

    def __init__(
        self,
        encoder: str,
        client: Optional[Client] = None,
        *,
        gase: Optional[Gase] = None,
        dimensions: Optional[int] = None,
        **connection: Any,
    ) -> None:
        if client is not None and connection:
            raise TypeError(f"client and {', '.join(connection)} are both given: give one of the two")
        self.client = client or Client(**connection)
        self.encoder, self.gase, self.dimensions = encoder, gase, dimensions
        self.plain, self.augmented = Collection(encoder), Collection(f"{encoder} with GASE")

    def rows(self, texts: Sequence[str], role: Optional[str], **more: Any) -> Rows:
        """A row for each text; `role` is `query`, `document`, … or none."""
        gase = self.gase
        if gase is None or (gase.queries_only and role != "query"):
            options: Any = {"dimensions": self.dimensions, "collection": self.plain, **more}
            found: Any = self.client.encode(list(texts), encoder=self.encoder, role=role, **options)
            rows: Rows = found.vectors
            return rows
        if not texts:
            return np.empty((0, self.width()), np.float32)
        found = self.client.encode_augmented(
            list(texts),
            gase.sources,
            encoder=self.encoder,
            pooling=gase.pooling,
            original_weight=gase.original_weight,
            budget=gase.budget,
            seed=gase.seed,
            mode=gase.mode if role == "query" else None,
            dimensions=self.dimensions,
            prompt_name=more.get("prompt_name") or self.prompt_name(role),
            collection=self.augmented,
        )
        augmented: Rows = found.vectors
        return augmented

    def prompt_name(self, role: Optional[str]) -> Optional[str]:
        return None if role is None else prompt_of_role(self.described(), role)

    def described(self) -> Any:
        """The encoder, asked for once."""
        if not hasattr(self, "_described"):
            self._described = self.client.encoder(self.encoder)
        return self._described

    def width(self) -> int:
        return int(self.dimensions or self.described().dimensions)

    def lists(self, texts: Sequence[str], role: Optional[str]) -> List[List[float]]:
        rows: List[List[float]] = self.rows(texts, role).tolist()
        return rows
