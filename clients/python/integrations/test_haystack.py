from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("haystack")
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from isomer_client import Source
from isomer_client.integrations.haystack import IsomerDocumentEmbedder, IsomerRanker, IsomerTextEmbedder
from isomer_client.integrations.vectors import Gase

TEXTS = ["The gardener watered the roses.", "Our train to Lisbon was cancelled.", "She plays the cello."]


def test_a_pipeline_retrieves_and_ranks_also_after_it_was_stored(client: Any, address: str) -> None:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    documents = [Document(content=text) for text in TEXTS]
    embedded = IsomerDocumentEmbedder("tiny", address).run(documents)
    assert [one.embedding for one in embedded["documents"]] == client.encode(TEXTS, encoder="tiny", role="document").vectors.tolist()
    assert documents[0].embedding is None and embedded["meta"]["vector_space"]
    store.write_documents(embedded["documents"])
    pipeline = Pipeline()
    gase = Gase([Source("stopword_removal")])
    pipeline.add_component("embedder", IsomerTextEmbedder("tiny", address))
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=3))
    pipeline.add_component("ranker", IsomerRanker("reranker", address, top_k=2))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.connect("retriever.documents", "ranker.documents")
    asked = {"embedder": {"text": "roses"}, "ranker": {"query": "roses"}}
    found = pipeline.run(asked)["ranker"]["documents"]
    due = client.rerank("roses", TEXTS, encoder="reranker", top_n=2)
    assert sorted((one.content, one.score) for one in found) == sorted((TEXTS[one.index], one.score) for one in due)
    stored = IsomerTextEmbedder("tiny", address, gase=gase).to_dict()
    again = IsomerTextEmbedder.from_dict(stored)
    assert again.to_dict() == stored and "iso_" not in str(stored)
    plain, augmented = IsomerTextEmbedder("tiny", address).run("the roses"), again.run("the roses")
    assert len(augmented["embedding"]) == len(plain["embedding"]) and augmented["embedding"] != plain["embedding"]


def test_what_is_not_taken_is_refused(address: str) -> None:
    with pytest.raises(TypeError, match="IsomerDocumentEmbedder"):
        IsomerTextEmbedder("tiny", address).run([Document(content="a")])
    with pytest.raises(TypeError, match="IsomerTextEmbedder"):
        IsomerDocumentEmbedder("tiny", address).run("a")
