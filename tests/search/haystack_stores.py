"""LanceDB and Milvus for Haystack, by their own clients: what Haystack's pipelines need of a document store, and a retriever. The
packages with integrations of both do not go with this version of Haystack."""

from __future__ import annotations

import pathlib
from typing import Any

from haystack import Document, component
from haystack.document_stores.types import DuplicatePolicy


class LanceStore:
    def __init__(self, folder: pathlib.Path, name: str, dimensions: int):
        import lancedb
        import pyarrow

        self.client, self.name = lancedb.connect(str(folder)), name
        vector = pyarrow.list_(pyarrow.float32(), dimensions)
        self.schema = pyarrow.schema([("key", pyarrow.string()), ("text", pyarrow.string()), ("vector", vector)])

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        table = self.client.create_table(self.name, schema=self.schema, exist_ok=True)
        table.add([{"key": one.id, "text": one.content, "vector": one.embedding} for one in documents])
        return len(documents)

    def nearest(self, embedding: list[float], top_k: int) -> list[Document]:
        table = self.client.open_table(self.name)
        found = table.search(embedding).distance_type("cosine").limit(top_k).to_list()
        return [Document(id=row["key"], content=row["text"], score=1 - row["_distance"]) for row in found]

    def to_dict(self) -> dict[str, Any]:
        return {"type": "LanceStore", "init_parameters": {}}


class MilvusStore:
    def __init__(self, uri: str, name: str, dimensions: int):
        from pymilvus import DataType, MilvusClient

        self.client, self.name = MilvusClient(uri), name
        if not self.client.has_collection(name):
            schema = self.client.create_schema(auto_id=False)
            schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=200)
            schema.add_field("text", DataType.VARCHAR, max_length=65535)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimensions)
            index = self.client.prepare_index_params()
            index.add_index("vector", index_type="FLAT", metric_type="COSINE")
            self.client.create_collection(name, schema=schema, index_params=index)

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        self.client.upsert(self.name, [{"key": one.id, "text": one.content, "vector": one.embedding} for one in documents])
        return len(documents)

    def nearest(self, embedding: list[float], top_k: int) -> list[Document]:
        self.client.load_collection(self.name)
        (found,) = self.client.search(self.name, [embedding], limit=top_k, output_fields=["text"])
        return [Document(id=row["key"], content=row["entity"]["text"], score=row["distance"]) for row in found]

    def to_dict(self) -> dict[str, Any]:
        return {"type": "MilvusStore", "init_parameters": {}}


@component
class OwnRetriever:
    """The documents nearest to a query."""

    def __init__(self, document_store: LanceStore | MilvusStore, top_k: int):
        self.document_store, self.top_k = document_store, top_k

    @component.output_types(documents=list[Document])
    def run(self, query_embedding: list[float]) -> dict[str, Any]:
        return {"documents": self.document_store.nearest(query_embedding, self.top_k)}
