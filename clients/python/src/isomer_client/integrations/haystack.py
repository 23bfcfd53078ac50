"""Haystack: embedders of texts and documents, and a ranker. `pip install isomer-client[haystack]`"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from .._sync.client import Client
from ..settings import DEFAULT_ADDRESS
from ..transforming import Source
from .vectors import Gase, Vectors

KEY = "ISOMER_API_KEY"


def _connected(address: str, key: Optional[Secret]) -> Client:
    return Client(address, key=key.resolve_value() if key is not None else None)


def _gase_fields(gase: Optional[Gase]) -> Optional[Dict[str, Any]]:
    return None if gase is None else dataclasses.asdict(gase)


def _gase_of(fields: Optional[Dict[str, Any]]) -> Optional[Gase]:
    if fields is None or isinstance(fields, Gase):
        return fields
    made: Dict[str, Any] = {**fields, "sources": [Source(**source) for source in fields["sources"]]}
    return Gase(**made)


class _Embedder:
    def __init__(
        self,
        encoder: str,
        address: str = DEFAULT_ADDRESS,
        key: Optional[Secret] = None,
        gase: Optional[Gase] = None,
        dimensions: Optional[int] = None,
    ) -> None:
        self.encoder, self.address, self.gase, self.dimensions = encoder, address, _gase_of(gase), dimensions  # type: ignore[arg-type]
        self.key = key if key is not None else Secret.from_env_var(KEY, strict=False)
        self._made: Optional[Vectors] = None

    def _vectors(self) -> Vectors:
        if self._made is None:
            client = _connected(self.address, self.key)
            self._made = Vectors(self.encoder, client, gase=self.gase, dimensions=self.dimensions)
        return self._made

    def _meta(self) -> Dict[str, Any]:
        space = self._vectors().plain.space or self._vectors().augmented.space
        return {"model": self.encoder, "vector_space": space.digest if space is not None else ""}

    def warm_up(self) -> None:
        """Connects, and has the server load the encoder."""
        self._vectors().described()

    def to_dict(self) -> Dict[str, Any]:
        return default_to_dict(
            self,
            encoder=self.encoder,
            address=self.address,
            key=self.key.to_dict(),
            gase=_gase_fields(self.gase),
            dimensions=self.dimensions,
        )


def _from_dict(cls: Any, data: Dict[str, Any]) -> Any:
    parameters: Dict[str, Any] = dict(data.get("init_parameters", {}))
    if isinstance(parameters.get("key"), dict):
        parameters["key"] = Secret.from_dict(parameters["key"])
    return default_from_dict(cls, {**data, "init_parameters": parameters})


@component
class IsomerTextEmbedder(_Embedder):
    """The vector of a query, with the encoder's own prompt for queries."""

    @component.output_types(embedding=List[float], meta=Dict[str, Any])
    def run(self, text: str) -> Dict[str, Any]:
        if not isinstance(text, str):
            raise TypeError("IsomerTextEmbedder takes one text; for documents there is IsomerDocumentEmbedder")
        return {"embedding": self._vectors().lists([text], "query")[0], "meta": self._meta()}

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> Any:
        return _from_dict(cls, data)


@component
class IsomerDocumentEmbedder(_Embedder):
    """Vectors of documents, with the encoder's own prompt for documents. The documents that are given stay as they are."""

    @component.output_types(documents=List[Document], meta=Dict[str, Any])
    def run(self, documents: List[Document]) -> Dict[str, Any]:
        if not isinstance(documents, list) or any(not isinstance(document, Document) for document in documents):
            raise TypeError("IsomerDocumentEmbedder takes a list of Documents; for a query there is IsomerTextEmbedder")
        rows = self._vectors().lists([document.content or "" for document in documents], "document")
        embedded = [dataclasses.replace(document, embedding=row) for document, row in zip(documents, rows)]
        return {"documents": embedded, "meta": self._meta()}

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> Any:
        return _from_dict(cls, data)


@component
class IsomerRanker:
    """Documents ranked by an Isomer cross-encoder, best first."""

    def __init__(
        self, encoder: str, address: str = DEFAULT_ADDRESS, key: Optional[Secret] = None, top_k: Optional[int] = None, label: str = ""
    ) -> None:
        self.encoder, self.address, self.top_k, self.label = encoder, address, top_k, label
        self.key = key if key is not None else Secret.from_env_var(KEY, strict=False)
        self._client: Optional[Client] = None

    @component.output_types(documents=List[Document])
    def run(self, query: str, documents: List[Document], top_k: Optional[int] = None) -> Dict[str, Any]:
        if self._client is None:
            self._client = _connected(self.address, self.key)
        texts = [document.content or "" for document in documents]
        ranked = self._client.rerank(query, texts, encoder=self.encoder, top_n=top_k or self.top_k, label=self.label)
        return {"documents": [dataclasses.replace(documents[one.index], score=one.score) for one in ranked]}

    def to_dict(self) -> Dict[str, Any]:
        return default_to_dict(
            self, encoder=self.encoder, address=self.address, key=self.key.to_dict(), top_k=self.top_k, label=self.label
        )

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> Any:
        return _from_dict(cls, data)
