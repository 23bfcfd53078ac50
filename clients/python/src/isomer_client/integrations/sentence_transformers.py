"""In place of `SentenceTransformer`: the same methods, with the vectors of an Isomer encoder.

`pip install isomer-client[sentence-transformers]`; it needs torch for tensors and similarities only.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np

from .._sync.client import Client
from ..errors import InvalidArgument
from ..proto.common.v1 import common_pb2
from .vectors import Gase, Vectors

PRECISIONS = {"float32": "f32", "int8": "int8", "ubinary": "ubinary"}
SIMILARITIES = {
    common_pb2.SIMILARITY_COSINE: "cosine",
    common_pb2.SIMILARITY_DOT: "dot",
    common_pb2.SIMILARITY_EUCLIDEAN: "euclidean",
    common_pb2.SIMILARITY_MANHATTAN: "manhattan",
}


class Card:
    """Receiver of the results of the library's evaluators.
    They also return them, so nothing is kept here."""

    def set_evaluation_metrics(self, *results: Any, **more: Any) -> None:
        """Keeps nothing."""


class IsomerSentenceTransformer:
    """An encoder with the methods of `sentence_transformers.SentenceTransformer` that encode and compare.

    Args:
        encoder: id of the encoder.
        client: a client, or in its place its arguments (`address`, `key`, …).
        truncate_dim: columns to keep (Matryoshka).
        gase: augments the vectors of `encode_query`, and of the other methods too if it says so.
    """

    def __init__(
        self,
        encoder: str,
        client: Optional[Client] = None,
        *,
        truncate_dim: Optional[int] = None,
        gase: Optional[Gase] = None,
        **connection: Any,
    ) -> None:
        self._vectors = Vectors(encoder, client, gase=gase, **connection)
        self.truncate_dim = truncate_dim
        self.model_card_data = Card()

    # Properties

    @property
    def prompts(self) -> Dict[str, str]:
        return dict(self._vectors.described().prompts)

    @property
    def default_prompt_name(self) -> Optional[str]:
        return self._vectors.described().default_prompt_name or None

    @property
    def max_seq_length(self) -> int:
        return int(self._vectors.described().max_tokens)

    def get_max_seq_length(self) -> int:
        return self.max_seq_length

    @property
    def similarity_fn_name(self) -> str:
        return SIMILARITIES.get(self._vectors.described().similarity, "cosine")

    def get_embedding_dimension(self) -> int:
        return self.truncate_dim or int(self._vectors.described().dimensions)

    def get_sentence_embedding_dimension(self) -> int:
        return self.get_embedding_dimension()

    # Vectors

    def encode(
        self,
        inputs: Union[str, Sequence[str]],
        prompt_name: Optional[str] = None,
        prompt: Optional[str] = None,
        batch_size: int = 32,
        show_progress_bar: Optional[bool] = None,
        output_value: Optional[str] = "sentence_embedding",
        precision: Optional[str] = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool = False,
        truncate_dim: Optional[int] = None,
        **ignored: Any,
    ) -> Any:
        """As `SentenceTransformer.encode`. Batches and devices are the server's affair; a prompt goes before its name."""
        name = None if prompt is not None else prompt_name
        return self._encode(
            inputs, None, name, prompt, output_value, precision, convert_to_numpy, convert_to_tensor, normalize_embeddings, truncate_dim
        )

    def encode_query(self, inputs: Union[str, Sequence[str]], **options: Any) -> Any:
        """Queries, with the encoder's own prompt for them."""
        return self._encode_as("query", inputs, **options)

    def encode_document(self, inputs: Union[str, Sequence[str]], **options: Any) -> Any:
        """Documents, with the encoder's own prompt for them: `document`, else `passage` or `corpus`."""
        return self._encode_as("document", inputs, **options)

    def _encode_as(
        self,
        role: str,
        inputs: Union[str, Sequence[str]],
        prompt_name: Optional[str] = None,
        prompt: Optional[str] = None,
        output_value: Optional[str] = "sentence_embedding",
        precision: Optional[str] = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: Optional[int] = None,
        **ignored: Any,
    ) -> Any:
        name = None if prompt is not None else prompt_name
        said = None if name is not None or prompt is not None else role
        return self._encode(
            inputs, said, name, prompt, output_value, precision, convert_to_numpy, convert_to_tensor, normalize_embeddings, truncate_dim
        )

    def _encode(
        self,
        inputs: Union[str, Sequence[str]],
        role: Optional[str],
        prompt_name: Optional[str],
        prompt: Optional[str],
        output_value: Optional[str],
        precision: Optional[str],
        convert_to_numpy: bool,
        convert_to_tensor: bool,
        normalize: bool,
        truncate_dim: Optional[int],
    ) -> Any:
        one = isinstance(inputs, str)
        texts: List[str] = [inputs] if isinstance(inputs, str) else list(inputs)
        precision = precision or "float32"
        if precision not in PRECISIONS:
            raise InvalidArgument(f"precision: there is no `{precision}`", field="precision", hint=f"one of {', '.join(PRECISIONS)}")
        prompts = {"prompt_name": prompt_name, "prompt": prompt}
        dimensions = truncate_dim or self.truncate_dim
        # sentence-transformers cuts vectors that are of unit length already; the server scales
        # after it has cut.
        cut_here = dimensions is not None and not normalize and precision == "float32"
        # `normalise` is absent, not False: the encoder's own default applies, as in
        # sentence-transformers. Calls of other widths are the caller's to keep apart.
        more: Dict[str, Any] = {
            "normalise": True if normalize else None,
            "dtype": PRECISIONS[precision],
            "dimensions": None if cut_here else dimensions,
            "collection": None,
        }
        if output_value == "token_embeddings":
            client = self._vectors.client
            found = client.encode_tokens(
                texts, encoder=self._vectors.encoder, role=role, dimensions=dimensions, prompt=prompt, prompt_name=prompt_name
            )
            rows = [self._tensor(np.array(row)) for row in found.vectors]
            return rows[0] if one else rows
        if output_value != "sentence_embedding":
            raise InvalidArgument(
                f"output_value: there is no `{output_value}` here", field="output_value", hint="`sentence_embedding` or `token_embeddings`"
            )
        if self._vectors.gase is not None and (prompt is not None or prompt_name is not None or normalize or precision != "float32" or dimensions):
            hint = "leave prompt, prompt_name, precision, truncate_dim and normalize_embeddings out"
            raise InvalidArgument("gase goes with plain options only", field="gase", hint=hint)
        vectors: Any = self._vectors.rows(texts, role, **({} if self._vectors.gase is not None else {**prompts, **more}))
        if cut_here:
            vectors = vectors[:, :dimensions]
        if convert_to_tensor:
            vectors = self._tensor(np.array(vectors))
        elif not convert_to_numpy:
            vectors = [self._tensor(np.array(row)) for row in vectors]
        return vectors[0] if one else vectors

    @staticmethod
    def _tensor(rows: Any) -> Any:
        torch: Any = importlib.import_module("torch")
        return torch.from_numpy(rows)

    # Comparing

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Of every row with every other, by the encoder's own similarity."""
        return self._function("to_similarity_fn")(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Of row i with row i."""
        return self._function("to_similarity_pairwise_fn")(embeddings1, embeddings2)

    def _function(self, name: str) -> Any:
        functions: Any = importlib.import_module("sentence_transformers.util").SimilarityFunction
        return getattr(functions, name)(self.similarity_fn_name)
