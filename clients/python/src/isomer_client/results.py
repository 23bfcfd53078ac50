"""Results of calls, where the message of the protos is not returned as it is."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, List, Optional, Sequence, Tuple, overload

import numpy as np
import numpy.typing as npt

from .matrix import Array
from .proto.common.v1 import common_pb2
from .proto.encoder.v1 import encoder_pb2
from .proto.transform.v1 import transform_pb2
from .spaces import VectorSpace


@dataclasses.dataclass(frozen=True)
class ItemError:
    """A text of a list that has no vector. `index` is its place in the caller's list."""

    index: int
    code: int
    message: str


@dataclasses.dataclass(frozen=True)
class Usage:
    """Usage of a call, over all its requests; see the message of that name."""

    texts: int = 0
    tokens: int = 0
    cached_texts: int = 0
    generated_tokens: int = 0
    generator_calls: int = 0
    tokens_estimated: bool = False
    cost_nano_usd: int = 0

    @classmethod
    def of(cls, message: common_pb2.Usage) -> Usage:
        return cls(**{field.name: getattr(message, field.name) for field in dataclasses.fields(cls)})

    def __add__(self, other: Usage) -> Usage:
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in dataclasses.fields(self)}
        return Usage(**{**sums, "tokens_estimated": self.tokens_estimated or other.tokens_estimated})


@dataclasses.dataclass(frozen=True)
class Embeddings:
    """Vectors of texts, in the order of the texts.

    `vectors` has one row per text. Vectors of one answer are a read-only view of that answer's bytes,
    without a copy; vectors of several answers are one array of their own.
    `ubinary` rows are packed bits.
    """

    vectors: Array
    space: VectorSpace
    token_counts: npt.NDArray[np.uint32]
    truncated: Optional[npt.NDArray[np.bool_]]
    """Whether each text was cut; none where the encoder does not say."""
    usage: Usage
    errors: Tuple[ItemError, ...] = ()

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Array: ...
    def __getitem__(self, index: Any) -> Any:
        return self.vectors[index]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.vectors)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        if dtype is not None and np.dtype(dtype) != self.vectors.dtype:
            return self.vectors.astype(dtype)
        return np.array(self.vectors) if copy else self.vectors

    def tolist(self) -> List[List[float]]:
        rows: List[List[float]] = self.vectors.tolist()
        return rows


@dataclasses.dataclass(frozen=True)
class TokenEmbeddings:
    """A vector for each token of each text: `vectors[i]` has the rows of text i, special tokens and prompt included."""

    vectors: Tuple[Array, ...]
    space: VectorSpace
    usage: Usage

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, index: int) -> Array:
        return self.vectors[index]


@dataclasses.dataclass(frozen=True)
class SparseVector:
    """Weights of tokens of the encoder's vocabulary: ascending token ids, and one weight above 0 each."""

    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.indices)


@dataclasses.dataclass(frozen=True)
class SparseEmbeddings:
    """A sparse vector for each text."""

    vectors: Tuple[SparseVector, ...]
    space: VectorSpace
    usage: Usage

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, index: int) -> SparseVector:
        return self.vectors[index]


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Results of one pass, each in a vector space of its own; none where it was not asked for."""

    text_vector: Optional[Embeddings]
    sparse: Optional[SparseEmbeddings]
    token_vectors: Optional[TokenEmbeddings]
    usage: Usage


@dataclasses.dataclass(frozen=True)
class Ranked:
    """A document with its score. `index` is its place in the caller's list."""

    index: int
    score: float
    label_scores: Tuple[float, ...] = ()
    truncated: bool = False


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Documents, best first."""

    results: Tuple[Ranked, ...]
    labels: Tuple[str, ...]
    usage: Usage

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self.results)

    def __getitem__(self, index: int) -> Ranked:
        return self.results[index]

    def scores(self, count: int) -> npt.NDArray[np.float32]:
        """Scores in the order of the `count` documents asked about; NaN for those that `top_n` left out."""
        scores = np.full(count, np.nan, np.float32)
        for result in self.results:
            scores[result.index] = result.score
        return scores


@dataclasses.dataclass(frozen=True)
class Transformed:
    """Transformed texts, in the order of the texts. `results` are the messages, with outcome, measures and provenance."""

    results: Tuple[transform_pb2.TransformResult, ...]
    usage: Usage
    summaries: Tuple[transform_pb2.TransformSummary, ...]

    @property
    def texts(self) -> List[str]:
        """One text each; empty where the text failed, or has several (see `results[i].texts`)."""
        return [result.text for result in self.results]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[transform_pb2.TransformResult]:
        return iter(self.results)

    def __getitem__(self, index: int) -> transform_pb2.TransformResult:
        return self.results[index]


@dataclasses.dataclass(frozen=True)
class AugmentedEmbeddings(Embeddings):
    """Vectors pooled of texts and their variants (GASE). `used[i]` says which variants went into row i, and which are missing."""

    used: Tuple[transform_pb2.Variants, ...] = ()


@dataclasses.dataclass(frozen=True)
class Report:
    """A run's report in one form."""

    content: bytes
    media_type: str
    file_name: str

    @property
    def text(self) -> str:
        return self.content.decode("utf-8")


@dataclasses.dataclass(frozen=True)
class NewKey:
    """A key with its text, which no later call shows."""

    id: str
    secret: str = dataclasses.field(repr=False)
    record: Any = None


def ranking(parts: Sequence[Tuple[int, encoder_pb2.RerankResponse]], top_n: Optional[int]) -> Ranking:
    """The answers to parts of a list, each with its start, as one: best first, equal scores in the caller's order."""
    found = [
        Ranked(one.index + start, one.score, tuple(one.label_scores), one.truncated) for start, answer in parts for one in answer.results
    ]
    if len(parts) > 1:
        found.sort(key=lambda one: (-one.score, one.index))
    labels = tuple(parts[0][1].labels) if parts else ()
    usage = sum((Usage.of(answer.usage) for _, answer in parts), Usage())
    return Ranking(tuple(found[:top_n]), labels, usage)


def item_errors(errors: Sequence[common_pb2.ItemError], start: int) -> Tuple[ItemError, ...]:
    return tuple(ItemError(error.index + start, error.code, error.message) for error in errors)
