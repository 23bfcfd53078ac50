"""mteb: encoders and cross-encoders that `mteb.evaluate` runs unchanged. `pip install isomer-client[mteb]`

    import mteb
    from isomer_client.integrations.mteb import IsomerEncoder

    results = mteb.evaluate(IsomerEncoder("all-MiniLM-L6-v2"), mteb.get_tasks(tasks=["STSBenchmark"]))
"""

from __future__ import annotations

import itertools
from typing import Any, Dict, List, Optional

import numpy as np
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction

from .._sync.client import Client
from ..encoding import first_prompt
from ..proto.common.v1 import common_pb2
from .vectors import Gase, Vectors

SIMILARITIES: Dict[int, Any] = {
    common_pb2.SIMILARITY_COSINE: ScoringFunction.COSINE,
    common_pb2.SIMILARITY_DOT: ScoringFunction.DOT_PRODUCT,
}


def meta(vectors: Vectors, kind: str) -> ModelMeta:
    """Metadata that mteb keeps beside scores: the name says the server's encoder, the revision its
    weights."""
    encoder = vectors.described()
    gase = "-gase" if vectors.gase is not None else ""
    return ModelMeta(
        loader=None,
        name=f"isomer/{encoder.id.replace('/', '__')}{gase}",
        revision=encoder.weights_digest[:40] or encoder.revision or "unknown",
        release_date=None,
        languages=None,
        n_parameters=None,
        n_embedding_parameters=None,
        memory_usage_mb=None,
        max_tokens=encoder.max_tokens or None,
        embed_dim=vectors.width() or None,
        license=None,
        open_weights=None,
        public_training_code=None,
        public_training_data=None,
        framework=["API"],
        similarity_fn_name=SIMILARITIES.get(encoder.similarity, ScoringFunction.COSINE) if kind == "dense" else None,
        use_instructions=bool(encoder.prompts or encoder.prompt_names),
        training_datasets=None,
        model_type=[kind],  # type: ignore[list-item]
    )


def texts_of(inputs: Any) -> List[str]:
    return list(itertools.chain.from_iterable(batch["text"] for batch in inputs))


class IsomerEncoder(AbsEncoder):
    """An Isomer encoder for mteb. Tasks get the encoder's own prompts, in mteb's order.

    Args:
        encoder: id of the encoder.
        client: a client, or in its place its arguments (`address`, `key`, …).
        gase: augments the vectors: of queries only, or of all texts where it says so.
    """

    def __init__(
        self, encoder: str, client: Optional[Client] = None, *, gase: Optional[Gase] = None, dimensions: Optional[int] = None, **connection: Any
    ) -> None:
        self._vectors = Vectors(encoder, client, gase=gase, dimensions=dimensions, **connection)
        self.mteb_model_meta = meta(self._vectors, "dense")

    def encode(
        self, inputs: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, prompt_type: Any = None, **kwargs: Any
    ) -> Any:
        part = getattr(prompt_type, "value", None)
        roles = [f"{task_metadata.name}-{part}", task_metadata.name, f"{task_metadata.type}-{part}", task_metadata.type, part]
        name = first_prompt(self._vectors.described(), [role for role in roles if role and not role.endswith("-None")])
        texts = texts_of(inputs)
        if self._vectors.gase is not None and (part == "query" or not self._vectors.gase.queries_only):
            # Tasks without queries and documents have all of their texts augmented, or none.
            return np.array(self._vectors.rows(texts, part, prompt_name=name))
        return np.array(self._vectors.rows(texts, None, prompt_name=name, priority="batch"))


class IsomerCrossEncoder:
    """An Isomer cross-encoder for mteb's reranking tasks."""

    def __init__(self, encoder: str, client: Optional[Client] = None, *, label: str = "", **connection: Any) -> None:
        self._vectors, self._label = Vectors(encoder, client, **connection), label
        self.mteb_model_meta = meta(self._vectors, "cross-encoder")

    def predict(
        self, inputs1: Any, inputs2: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, prompt_type: Any = None, **kwargs: Any
    ) -> Any:
        queries, documents = texts_of(inputs1), texts_of(inputs2)
        scores = np.empty(len(documents), np.float32)
        start = 0
        # Pairs of one query follow each other: they are one request.
        for query, group in itertools.groupby(queries):
            count = len(list(group))
            some = documents[start : start + count]
            ranking = self._vectors.client.rerank(query, some, encoder=self._vectors.encoder, label=self._label)
            scores[start : start + count] = ranking.scores(count)
            start += count
        return scores
