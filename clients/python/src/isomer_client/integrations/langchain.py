"""LangChain: embeddings and a reranker. `pip install isomer-client[langchain]`"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from pydantic import ConfigDict, PrivateAttr

from .._sync.client import Client
from .vectors import Gase, Vectors


class IsomerEmbeddings(Embeddings):
    """Vectors of an Isomer encoder: queries and documents get the encoder's own prompts for them.

    Args:
        encoder: id of the encoder.
        client: a client, or in its place its arguments (`address`, `key`, …).
        gase: augments the vectors; by default those of queries only.
        dimensions: columns to keep (Matryoshka).
    """

    def __init__(
        self, encoder: str, client: Optional[Client] = None, *, gase: Optional[Gase] = None, dimensions: Optional[int] = None, **connection: Any
    ) -> None:
        self._vectors = Vectors(encoder, client, gase=gase, dimensions=dimensions, **connection)

    def embed_documents(self, texts: List[str]) -> List[List[float]]:
        return self._vectors.lists(texts, "document")

    def embed_query(self, text: str) -> List[float]:
        return self._vectors.lists([text], "query")[0]


class IsomerReranker(BaseDocumentCompressor):
    """Documents ranked by an Isomer cross-encoder, best first; `relevance_score` is in each one's metadata."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

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

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Optional[Callbacks] = None) -> Sequence[Document]:
        texts = [document.page_content for document in documents]
        ranked = self._client.rerank(query, texts, encoder=self.encoder, top_n=self.top_n, label=self.label)
        found: List[Document] = []
        for one in ranked:
            document = documents[one.index].model_copy(deep=True)
            document.metadata["relevance_score"] = one.score
            found.append(document)
        return found
