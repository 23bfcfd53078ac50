"""Texts as encode requests, and their answers as arrays: pure, the same for both clients."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, List, Optional, Sequence, Tuple, Union, cast

import numpy as np

from .errors import BY_NUMBER, BadAnswer, InvalidArgument, TextsFailed
from .matrix import Array, dtype_number, view
from .proto.common.v1 import common_pb2
from .proto.encoder.v1 import encoder_pb2
from .results import Embeddings, ItemError, Outputs, SparseEmbeddings, SparseVector, TokenEmbeddings, Usage, item_errors
from .spaces import Collection, Known, VectorSpace, mismatch

# A text, or the ids of its tokens by the encoder's own tokenizer.
Text = Union[str, Sequence[int]]
TRUNCATIONS = {
    "tail": encoder_pb2.TRUNCATION_TAIL,
    "head": encoder_pb2.TRUNCATION_HEAD,
    "error": encoder_pb2.TRUNCATION_ERROR,
}
PRIORITIES = {"interactive": encoder_pb2.PRIORITY_INTERACTIVE, "batch": encoder_pb2.PRIORITY_BATCH}
OUTPUTS = {
    "text_vector": encoder_pb2.OUTPUT_TEXT_VECTOR,
    "sparse": encoder_pb2.OUTPUT_SPARSE,
    "token_vectors": encoder_pb2.OUTPUT_TOKEN_VECTORS,
}
# The texts of a request, and the place of the first one in the caller's list.
Batch = Tuple[int, List[Text]]
# Other names of the part `document`, as the server has them.
PARTS = {"document": ("passage", "corpus"), "passage": ("document", "corpus"), "corpus": ("document", "passage")}


@dataclasses.dataclass(frozen=True)
class Prompt:
    """The prompt of a request: by the encoder's name for it, or literally; neither: the encoder's default."""

    name: Optional[str] = None
    literal: Optional[str] = None

    def put(self, request: Any) -> None:
        if self.name is not None:
            request.prompt_name = self.name
        elif self.literal is not None:
            request.literal_prompt = self.literal


def prompt(encoder: Optional[encoder_pb2.Encoder], name: Optional[str], literal: Optional[str], role: Optional[str]) -> Prompt:
    """The one prompt of at most one way to say it. `encoder` is needed for a role."""
    if sum(given is not None for given in (name, literal, role)) > 1:
        raise InvalidArgument("prompt, prompt_name and role are given together", field="prompt", hint="give one of them")
    if role is not None and encoder is not None:
        name = prompt_of_role(encoder, role)
    return Prompt(name, literal)


def prompt_of_role(encoder: encoder_pb2.Encoder, role: str) -> Optional[str]:
    """The encoder's own prompt for a role such as `query`, `document` or `Retrieval-query`; none where it has none.

    The whole role goes before its task, and the task before its part; letter case, hyphens and
    underscores do not matter. These are the rules of `isomer.eval.v1.EncoderPrompt`.
    """
    task, _, part = role.rpartition("-")
    wanted = [role]
    if part.lower() in ("query", *PARTS):
        wanted = [role, task, part] if task else [part]
    return first_prompt(encoder, wanted)


def first_prompt(encoder: encoder_pb2.Encoder, roles: Sequence[str]) -> Optional[str]:
    """The encoder's own prompt for the first of the roles that it has one for."""
    named = {plain(name): name for name in [*encoder.prompts, *encoder.prompt_names]}
    for role in roles:
        task, dash, part = role.rpartition("-")
        for one in (part, *PARTS.get(part.lower(), ())):
            found = named.get(plain(f"{task}{dash}{one}"))
            if found is not None:
                return found
    return None


def plain(role: str) -> str:
    return role.lower().replace("-", "").replace("_", "")


@dataclasses.dataclass(frozen=True)
class Options:
    """Everything of an encode request but its texts."""

    encoder: str
    prompt: Prompt = Prompt()
    truncation: Optional[str] = None
    dimensions: Optional[int] = None
    normalise: Optional[bool] = None
    dtype: str = "f32"
    priority: Optional[str] = None
    tokens: bool = False
    outputs: Tuple[str, ...] = ()
    max_active_dimensions: Optional[int] = None

    def checked(self) -> Options:
        dtype_number(self.dtype)
        for index, output in enumerate(self.outputs):
            if output not in OUTPUTS:
                field = f"outputs[{index}]"
                raise InvalidArgument(f"{field}: there is no `{output}`", field=field, hint=f"one of {', '.join(OUTPUTS)}")
        for field, value, known in (("truncation", self.truncation, TRUNCATIONS), ("priority", self.priority, PRIORITIES)):
            if value is not None and value not in known:
                raise InvalidArgument(f"{field}: there is no `{value}`", field=field, hint=f"one of {', '.join(known)}")
        return self

    def request(self, texts: Sequence[Text], start: int = 0) -> encoder_pb2.EncodeRequest:
        """The request of some texts; `start` is the place of the first one in the caller's list."""
        request = encoder_pb2.EncodeRequest(encoder_id=self.encoder, inputs=inputs(texts, start), output_dtype=dtype_number(self.dtype))  # type: ignore[arg-type]
        self.prompt.put(request)
        if self.truncation is not None:
            request.truncation = TRUNCATIONS[self.truncation]
        if self.priority is not None:
            request.priority = PRIORITIES[self.priority]
        if self.dimensions is not None:
            request.dimensions = self.dimensions
        if self.normalise is not None:
            request.normalise = self.normalise
        if self.tokens:
            request.output = encoder_pb2.OUTPUT_TOKEN_VECTORS
        request.outputs.extend(OUTPUTS[output] for output in self.outputs)
        if self.max_active_dimensions is not None:
            request.max_active_dimensions = self.max_active_dimensions
        return request

    def asked(self) -> Tuple[Any, ...]:
        """Settings that the space of the vectors depends on, beside the server."""
        return (self.encoder, self.prompt, self.dimensions, self.normalise, self.dtype, self.tokens, self.outputs)


def inputs(texts: Sequence[Text], start: int) -> List[encoder_pb2.Input]:
    try:
        return [encoder_pb2.Input(text=text) for text in texts]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        # One of them is not a text. This finds its index.
        return [one_input(text, start + index) for index, text in enumerate(texts)]


def one_input(text: Any, index: int) -> encoder_pb2.Input:
    field = f"inputs[{index}]"
    try:
        if isinstance(text, str):
            return encoder_pb2.Input(text=text)
        if isinstance(text, Sequence) and not isinstance(text, (bytes, bytearray)):
            ids = cast(Sequence[int], text)
            return encoder_pb2.Input(token_ids=encoder_pb2.TokenIds(ids=ids))
    except (TypeError, ValueError) as error:
        of_text = "take halves of surrogate pairs out: they are no characters"
        hint = of_text if isinstance(text, str) else "give token ids from 0 to 2**32 - 1"
        raise InvalidArgument(f"{field} cannot be sent: {error}", field=field, reason="INVALID_ARGUMENT", hint=hint) from None
    raise InvalidArgument(
        f"{field} is a {type(text).__name__}", field=field, reason="INVALID_ARGUMENT", hint="give a str, or a list of token ids"
    )


def not_one_text(texts: Any, field: str = "texts") -> None:
    if isinstance(texts, (str, bytes)):
        raise InvalidArgument(f"{field} is one text", field=field, reason="INVALID_ARGUMENT", hint="give a list: [text]")


def not_empty(texts: Sequence[Text]) -> None:
    if not len(texts):
        raise InvalidArgument("texts is empty", field="texts", reason="INVALID_ARGUMENT", hint="give at least one text")


def listed(texts: Sequence[Text]) -> Sequence[Text]:
    """The same, as something with a length."""
    not_one_text(texts)
    return texts if hasattr(texts, "__len__") else list(texts)


def size(text: Text) -> int:
    """Bytes of a text in a request, about."""
    if isinstance(text, str):
        return len(text) if text.isascii() else 3 * len(text)
    if isinstance(text, Sequence):
        return 4 * len(text)
    # A TextItem, or what a request will refuse.
    return size(getattr(text, "text", ()))


class Batcher:
    """Divides texts, in their order, into requests, each with the place of its first text.

    A text that is larger than `most_bytes` goes alone.
    """

    def __init__(self, most_items: int, most_bytes: int) -> None:
        self._most_items, self._most_bytes = most_items, most_bytes
        self._start, self._bytes = 0, 0
        self._texts: List[Text] = []

    def push(self, text: Text) -> Optional[Batch]:
        """A request that is full now, if there is one."""
        added = size(text)
        full = self.rest() if self._bytes + added > self._most_bytes else None
        self._texts.append(text)
        self._bytes += added
        return full or (self.rest() if len(self._texts) >= self._most_items else None)

    def rest(self) -> Optional[Batch]:
        """Texts that were pushed since the last request."""
        if not self._texts:
            return None
        batch = (self._start, self._texts)
        self._start, self._bytes, self._texts = self._start + len(self._texts), 0, []
        return batch


class Checker:
    """Holds the answers of one operation against what was asked, and against each other."""

    def __init__(self, options: Options, collection: Optional[Collection], known: Optional[Known]) -> None:
        self._options = options
        self._collection = collection
        # Ranges of int8 may come from the texts of each request: the spaces of two calls then
        # differ.
        self._known = None if options.dtype == "int8" else known
        self._first: Optional[VectorSpace] = None

    def space(self, answer: Any) -> VectorSpace:
        return self.checked(answer.vector_space)

    def checked(self, message: common_pb2.VectorSpace) -> VectorSpace:
        """The space of a part of an answer, compared with the expected one."""
        space = VectorSpace.of(message)
        if self._first is None:
            # Compares with the caller's expectation first, then with the space of earlier answers.
            if self._collection is not None:
                self._collection.check(space)
            if self._known is not None:
                self._known.check(self._options.asked(), space)
            self._first = space
        elif self._first.digest != space.digest:
            raise mismatch(self._first, space, "the texts before them in the same call")
        return self._first

    def found(self) -> VectorSpace:
        """The space of the answers so far."""
        if self._first is None:
            raise InvalidArgument("texts is empty", field="texts", reason="INVALID_ARGUMENT", hint="give at least one text")
        return self._first

    def embeddings(self, answer: encoder_pb2.EncodeResponse, count: int, start: int) -> Embeddings:
        """One answer's vectors, a row for each of `count` texts."""
        vectors = view(answer.embeddings)
        self._fits(answer, vectors, count)
        truncated = np.array(answer.truncated, np.bool_) if answer.truncated else None
        return Embeddings(
            vectors,
            self.space(answer),
            np.array(answer.token_counts, np.uint32),
            truncated,
            Usage.of(answer.usage),
            item_errors(answer.errors, start),
        )

    def token_embeddings(self, answer: encoder_pb2.EncodeResponse, count: int, start: int, beside: bool = False) -> TokenEmbeddings:
        """One answer's vectors of tokens; `beside` says whether they stand beside other results."""
        matrix, space = (answer.token_embeddings, answer.token_vector_space) if beside else (answer.embeddings, answer.vector_space)
        vectors = view(matrix)
        failed(item_errors(answer.errors, start))
        if len(answer.row_counts) != count or sum(answer.row_counts) != len(vectors):
            raise BadAnswer(f"{len(vectors)} token vectors of {len(answer.row_counts)} texts were answered to {count}", hint="ask again")
        ends = list(itertools.accumulate(answer.row_counts))
        starts = [0, *ends[:-1]]
        split = tuple(vectors[start:end] for start, end in zip(starts, ends))
        return TokenEmbeddings(split, self.checked(space), Usage.of(answer.usage))

    def sparse_embeddings(self, answer: encoder_pb2.EncodeResponse, count: int) -> SparseEmbeddings:
        """One answer's sparse vectors, one for each of `count` texts."""
        if len(answer.sparse_embeddings) != count:
            raise BadAnswer(f"{len(answer.sparse_embeddings)} sparse vectors were answered to {count} texts", hint="ask again")
        vectors = tuple(SparseVector(np.array(one.indices, np.uint32), np.array(one.values, np.float32)) for one in answer.sparse_embeddings)
        for place, one in enumerate(vectors):
            ascending = len(one.indices) == len(one.values) and bool(np.all(one.indices[1:] > one.indices[:-1]))
            if not (ascending and np.all(np.isfinite(one.values)) and np.all(one.values > 0)):
                raise BadAnswer(
                    f"the sparse vector of text {place} has not one weight above 0 for each of ascending indices",
                    hint="ask again; if it stays so, the server is at fault",
                )
        return SparseEmbeddings(vectors, self.checked(answer.sparse_vector_space), Usage.of(answer.usage))

    def _fits(self, answer: encoder_pb2.EncodeResponse, vectors: Array, count: int) -> None:
        expected = dtype_number(self._options.dtype)
        columns = self._options.dimensions
        if len(vectors) != count or answer.embeddings.dtype != expected or columns not in (None, answer.embeddings.cols):
            raise BadAnswer(
                f"{len(vectors)} x {answer.embeddings.cols} of element type {answer.embeddings.dtype} were answered to {count} texts",
                hint="ask again; if it stays so, the server is at fault",
            )
        if answer.truncated and len(answer.truncated) != count:
            raise BadAnswer(f"{len(answer.truncated)} marks of truncation were answered to {count} texts")


class OutputsJoiner:
    """Checks every result of the answers of one call, and puts them together, in order."""

    def __init__(self, count: int, options: Options, collection: Optional[Collection], known: Optional[Known]) -> None:
        self._asked = options.outputs
        self._joiner = Joiner(count)
        self._sparse: List[SparseEmbeddings] = []
        self._tokens: List[TokenEmbeddings] = []
        self._usage = Usage()
        # Settings of dense vectors do not change the spaces of the others.
        other = dataclasses.replace(options, dimensions=None, normalise=None, dtype="f32")
        self._checkers = {
            "text_vector": Checker(dataclasses.replace(options, outputs=()), collection, known),
            "sparse": Checker(dataclasses.replace(other, outputs=("sparse",)), None, known),
            "token_vectors": Checker(dataclasses.replace(other, outputs=(), tokens=True), None, known),
        }

    def add(self, answer: encoder_pb2.EncodeResponse, count: int, start: int) -> None:
        failed(item_errors(answer.errors, start))
        self._usage += Usage.of(answer.usage)
        for output in self._asked:
            checker = self._checkers[output]
            if output == "text_vector":
                self._joiner.add(checker.embeddings(answer, count, start))
            elif output == "sparse":
                self._sparse.append(checker.sparse_embeddings(answer, count))
            else:
                self._tokens.append(checker.token_embeddings(answer, count, start, beside=True))

    def whole(self) -> Outputs:
        sparse, tokens = self._sparse, self._tokens
        return Outputs(
            self._joiner.whole() if "text_vector" in self._asked else None,
            SparseEmbeddings(joined(sparse), sparse[0].space, self._usage) if sparse else None,
            TokenEmbeddings(joined(tokens), tokens[0].space, self._usage) if tokens else None,
            self._usage,
        )


def joined(parts: Sequence[Any]) -> Tuple[Any, ...]:
    return tuple(vector for part in parts for vector in part.vectors)


class Joiner:
    """Puts the answers of several requests together, in order: one array, filled as they come."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._rows: Optional[Array] = None
        self._filled = 0
        self._parts: List[Embeddings] = []

    def add(self, part: Embeddings) -> None:
        if len(part) < self._count:
            if self._rows is None:
                self._rows = np.empty((self._count, part.vectors.shape[1]), part.vectors.dtype)
            if part.vectors.shape[1:] != self._rows.shape[1:]:
                raise BadAnswer("two answers of one call have vectors of different widths", hint="ask again")
            self._rows[self._filled : self._filled + len(part)] = part.vectors
            self._filled += len(part)
            # The answer's bytes are not needed any more.
            part = dataclasses.replace(part, vectors=np.empty((0, part.vectors.shape[1]), part.vectors.dtype))
        self._parts.append(part)

    def whole(self) -> Embeddings:
        if self._rows is None:
            return self._parts[0]
        told = [part.truncated for part in self._parts]
        cut = [part for part in told if part is not None]
        return Embeddings(
            self._rows,
            self._parts[0].space,
            np.concatenate([part.token_counts for part in self._parts]),
            np.concatenate(cut) if len(cut) == len(told) else None,
            sum((part.usage for part in self._parts), Usage()),
            tuple(error for part in self._parts for error in part.errors),
        )


def empty(encoder: encoder_pb2.Encoder, options: Options) -> Embeddings:
    """Result for no texts: no rows, as wide as others would be."""
    width = options.dimensions or encoder.dimensions
    width = (width + 7) // 8 if options.dtype == "ubinary" else width
    kinds = {"f32": "<f4", "f16": "<f2", "int8": "i1", "ubinary": "u1"}
    vectors = np.empty((0, width), kinds[options.dtype])
    space = VectorSpace.of(encoder.vector_space)
    return Embeddings(vectors, space, np.empty(0, np.uint32), np.empty(0, np.bool_), Usage())


def succeeded(embeddings: Embeddings, partial: bool) -> Embeddings:
    """The vectors, or TextsFailed where texts have none and the caller did not say that this is fine."""
    if not partial:
        failed(embeddings.errors, embeddings)
    return embeddings


def failed(errors: Tuple[ItemError, ...], embeddings: Optional[Embeddings] = None) -> None:
    """Raises TextsFailed if there are errors."""
    first = next(iter(errors), None)
    if first is None:
        return
    more = f", and {len(errors) - 1} more texts" if len(errors) > 1 else ""
    error = TextsFailed(
        f"inputs[{first.index}]: {first.message}{more}",
        code=BY_NUMBER.get(first.code),
        field=f"inputs[{first.index}]",
        reason="TEXTS_FAILED",
        hint="partial=True gives the others, and the errors beside them" if embeddings is not None else None,
    )
    error.errors, error.embeddings = errors, embeddings
    raise error


def rerank_request(
    encoder: str, query: str, documents: Sequence[Text], top_n: Optional[int], label: str, start: int
) -> encoder_pb2.RerankRequest:
    """The request of some documents; `start` is the place of the first one in the caller's list."""
    if top_n is not None and top_n < 1:
        raise InvalidArgument(f"top_n is {top_n}", field="top_n", reason="INVALID_ARGUMENT", hint="give 1 or more, or None for all")
    try:
        return encoder_pb2.RerankRequest(encoder_id=encoder, query=query, documents=documents, top_n=top_n, label=label)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        at = next((index for index, text in enumerate(documents, start) if not isinstance(text, str)), None)
        field = "query" if not isinstance(query, str) or at is None else f"documents[{at}]"
        raise InvalidArgument(f"{field} cannot be sent: {error}", field=field, reason="INVALID_ARGUMENT", hint="give a str") from None
