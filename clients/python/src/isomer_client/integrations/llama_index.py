"""LlamaIndex: embeddings and a reranker. `pip install isomer-client[llama-index]`"""

from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from .._sync.client import Client
from .vectors import Gase, Vectors


class IsomerEmbedding(BaseEmbedding):
    """Vectors of an Isomer encoder: queries and texts get the encoder's own prompts for them.

    Args:
        encoder: id of the encoder.
        client: a client, or in its place its arguments (`address`, `key`, …).
        gase: augments the vectors; by default those of queries only.
        dimensions: columns to keep (Matryoshka).
    """

    _vectors: Vectors = PrivateAttr()

    def __init__(
        self,
        encoder: str,
        client: Optional[Client] = None,
        *,
        gase: Optional[Gase] = None,
        dimensions: Optional[int] = None,
        embed_batch_size: int = 1024,
        **connection: Any,
    ) -> None:
        super().__init__(model_name=encoder, embed_batch_size=embed_batch_size)
        self._vectors = Vectors(encoder, client, gase=gase, dimensions=dimensions, **connection)

    @classmethod
    def class_name(cls) -> str:
        return "IsomerEmbedding"

    def _get_query_embedding(self, query: str) -> List[float]:
        return self._vectors.lists([query], "query")[0]

    def _get_text_embedding(self, text: str) -> List[float]:
        return self._vectors.lists([text], "document")[0]

    def _get_text_embeddings(self, texts: List[str]) -> List[List[float]]:
        return self._vectors.lists(texts, "document")

    async def _aget_query_embedding(self, query: str) -> List[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> List[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: List[str]) -> List[List[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class IsomerRerank(BaseNodePostprocessor):
    """Nodes ranked by an Isomer cross-encoder, best first."""

    encoder: str
    top_n: Optional[int] = None
    label: str = ""
    _client: Client = PrivateAttr()

    def __init__(
        self, encoder: str, client: Optional[Client] = None, *, top_n: Optional[int] = None, label: str = "", **connection: Any
    ) -> None:
        fields: Dict[str, Any] = {"encoder": encoder, "top_n": top_n, "label": label}
        super().__init__(**fields)
        self._client = client or Client(**connection)

    @classmethod
    def class_name(cls) -> str:
        return "IsomerRerank"

    def _postprocess_nodes(self, nodes: List[NodeWithScore], query_bundle: Optional[QueryBundle] = None) -> List[NodeWithScore]:
        if query_bundle is None:
            raise ValueError("a query is needed to rerank: give query_bundle or query_str")
        texts = [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        ranked = self._client.rerank(query_bundle.query_str, texts, encoder=self.encoder, top_n=self.top_n, label=self.label)
        return [NodeWithScore(node=nodes[one.index].node, score=one.score) for one in ranked]
