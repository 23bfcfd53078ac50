from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langchain_core")
from isomer_client import Source
from isomer_client.integrations.langchain import IsomerEmbeddings, IsomerReranker
from isomer_client.integrations.vectors import Gase
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

TEXTS = ["The gardener watered the roses.", "Our train to Lisbon was cancelled.", "She plays the cello."]


def test_a_vector_store_has_its_scores(client: Any) -> None:
    store = InMemoryVectorStore.from_texts(TEXTS, IsomerEmbeddings("tiny", client))
    found = store.similarity_search_with_score("roses", k=3)
    query = client.encode(["roses"], encoder="tiny", prompt="query: ").vectors[0]
    due = dict(zip(TEXTS, client.encode(TEXTS, encoder="tiny", prompt="passage: ").vectors @ query))
    assert {document.page_content: score for document, score in found} == pytest.approx(due, abs=1e-5)


def test_queries_and_documents_get_their_own_prompts(client: Any, address: str) -> None:
    embeddings = IsomerEmbeddings("tiny", address=address)
    due = client.encode([TEXTS[0]], encoder="tiny", prompt="query: ").vectors[0].tolist()
    assert embeddings.embed_query(TEXTS[0]) == due
    assert asyncio.run(embeddings.aembed_query(TEXTS[0])) == due
    assert embeddings.embed_documents(TEXTS) == client.encode(TEXTS, encoder="tiny", prompt="passage: ").vectors.tolist()
    assert embeddings.embed_documents([]) == []


def test_queries_are_augmented_and_documents_are_not(client: Any) -> None:
    embeddings = IsomerEmbeddings("tiny", client, gase=Gase([Source("stopword_removal")]))
    due = client.encode_augmented([TEXTS[0]], [Source("stopword_removal")], encoder="tiny", prompt_name="query").vectors[0].tolist()
    assert embeddings.embed_query(TEXTS[0]) == due != client.encode([TEXTS[0]], encoder="tiny", role="query").vectors[0].tolist()
    assert embeddings.embed_documents(TEXTS) == client.encode(TEXTS, encoder="tiny", role="document").vectors.tolist()


def test_queries_that_do_not_wait_use_what_is_cached_and_documents_wait(client: Any) -> None:
    modes = []

    class Told:
        """The client, with a note of the modes that are asked for."""

        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        def encode_augmented(self, *texts: Any, **options: Any) -> Any:
            modes.append(options["mode"])
            return client.encode_augmented(*texts, **options)

    gase = Gase([Source("stopword_removal")], queries_only=False, mode="cached")
    embeddings = IsomerEmbeddings("tiny", Told(), gase=gase)  # type: ignore[arg-type]
    # A transformation by rule needs no generator: its variants are always there.
    due = client.encode_augmented([TEXTS[0]], [Source("stopword_removal")], encoder="tiny", prompt_name="query").vectors[0].tolist()
    assert embeddings.embed_query(TEXTS[0]) == due
    embeddings.embed_documents(TEXTS)
    assert modes == ["cached", None]
    with pytest.raises(ValueError, match="encode_augmented"):
        Gase([Source("stopword_removal")], mode="cascade")


def test_documents_are_reranked_and_stay_as_they_were(client: Any) -> None:
    documents = [Document(page_content=text, metadata={"n": n}) for n, text in enumerate(TEXTS)]
    ranked = IsomerReranker("reranker", client, top_n=2).compress_documents(documents, "roses")
    due = client.rerank("roses", TEXTS, encoder="reranker", top_n=2)
    assert [(one.metadata["n"], one.metadata["relevance_score"]) for one in ranked] == [(one.index, one.score) for one in due]
    assert "relevance_score" not in documents[0].metadata
