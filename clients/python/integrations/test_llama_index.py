from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("llama_index.core")
from isomer_client.integrations.llama_index import IsomerEmbedding, IsomerRerank
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode

TEXTS = ["The gardener watered the roses.", "Our train to Lisbon was cancelled.", "She plays the cello."]


def test_an_index_is_built_asked_and_reranked(client: Any) -> None:
    embedding = IsomerEmbedding("tiny", client)
    index = VectorStoreIndex([TextNode(text=text, id_=str(n)) for n, text in enumerate(TEXTS)], embed_model=embedding)
    found = index.as_retriever(similarity_top_k=3).retrieve("roses")
    query = client.encode(["roses"], encoder="tiny", prompt="query: ").vectors[0]
    due = dict(zip(TEXTS, client.encode(TEXTS, encoder="tiny", prompt="passage: ").vectors @ query))
    assert {node.node.get_content(): node.score for node in found} == pytest.approx(due, abs=1e-5)
    ranked = IsomerRerank("reranker", client, top_n=2).postprocess_nodes(found, query_str="roses")
    due = client.rerank("roses", [node.node.get_content() for node in found], encoder="reranker", top_n=2)
    assert [node.score for node in ranked] == [one.score for one in due]
    assert [node.node.node_id for node in ranked] == [found[one.index].node.node_id for one in due]


def test_queries_and_texts_get_their_own_prompts(client: Any) -> None:
    embedding = IsomerEmbedding("tiny", client)
    query = client.encode(["roses"], encoder="tiny", prompt="query: ").vectors[0].tolist()
    text = client.encode(["roses"], encoder="tiny", prompt="passage: ").vectors[0].tolist()
    assert embedding.get_query_embedding("roses") == query != text
    assert embedding.get_text_embedding("roses") == text
    assert embedding.get_text_embedding_batch(["roses", "roses"]) == [text, text]
    assert asyncio.run(embedding.aget_query_embedding("roses")) == query
    assert asyncio.run(embedding.aget_text_embedding_batch(["roses"])) == [text]
