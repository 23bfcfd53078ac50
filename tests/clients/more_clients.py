"""Clients whose defaults a gateway must live with: Azure's current address, Mistral, groq, rerankers, LiteLLM, and plain HTTP without a media type."""

import json
import os
import urllib.request

# LiteLLM would fetch its table of prices.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import groq
import litellm
import mistralai.client
import openai
import rerankers

import dialect_clients as dialects
from isomer_stubs import expect
from python_clients import UNUSED, same


def azure_current(address, model, texts, rows):
    """Azure's current address, and a slash at the end of it."""
    for base in ("openai/v1/", "openai/v1"):
        client = openai.OpenAI(base_url=f"http://{address}/{base}", api_key=UNUSED, max_retries=0)
        found = client.embeddings.with_raw_response.create(model=model, input=texts)
        same([one.embedding for one in found.parse().data], rows, base)
        expect(found.headers.get("x-request-id"), "the answer has no x-request-id")
        expect(model in {one.id for one in client.models.list()}, f"{model} is not listed")
    return f"{len(texts)} texts, models"


def mistral_vectors(address, model, texts, rows):
    """The client requires an `id` in the answer, and sends `metadata`."""
    client = mistralai.client.Mistral(api_key=UNUSED, server_url=f"http://{address}")
    found = client.embeddings.create(model=model, inputs=texts, metadata={"who": "tests/clients"})
    same([one.embedding for one in found.data], rows, "embeddings")
    expect(found.id.startswith("embd-"), f"id {found.id}")
    return f"{len(texts)} texts"


def groq_vectors(address, model, texts, rows):
    client = groq.Groq(api_key=UNUSED, base_url=f"http://{address}", max_retries=0)
    same([one.embedding for one in client.embeddings.create(model=model, input=texts).data], rows, "embeddings")
    return f"{len(texts)} texts"


def litellm_vectors(address, model, texts, rows):
    """LiteLLM sends no media type to Voyage."""
    for name, base in (("voyage", "v1/embeddings"), ("openai", "v1"), ("ollama", "")):
        found = litellm.embedding(f"{name}/{model}", input=texts, api_key=UNUSED, api_base=f"http://{address}/{base}".rstrip("/"))
        same([one["embedding"] for one in found.data], rows, name)
    return f"{len(texts)} texts by three of its providers"


def litellm_rerank(address, encoder, model):
    """`return_documents` for Cohere, `top_n` for text-embeddings-inference, `documents` at `/rerank` for vLLM."""
    texts = dialects.documents()
    for name, base in (("cohere", ""), ("hosted_vllm", ""), ("jina_ai", "/v1/rerank"), ("huggingface", f"/tei/{encoder}")):
        found = litellm.rerank(
            f"{name}/{encoder}", query="which one", documents=texts, top_n=4, api_key=UNUSED, api_base=f"http://{address}{base}"
        )
        dialects.ranked([(one["index"], one["relevance_score"]) for one in found.results][:4], dialects.due(model, texts, 4))
    return "4 best of 7 by four of its providers"


def rerankers_rank(address, encoder, model):
    texts = dialects.documents()
    for provider, path in (("cohere", "v2/rerank"), ("jina", "v1/rerank"), ("text-embeddings-inference", f"tei/{encoder}/rerank")):
        ranker = rerankers.Reranker(encoder, model_type="APIRanker", api_provider=provider, verbose=0, api_key=UNUSED, url=f"http://{address}/{path}")
        found = ranker.rank("which one", texts)
        dialects.ranked([(one.doc_id, one.score) for one in found.results], dialects.due(model, texts, 7))
    return "7 documents in three shapes"


def untyped(address, model, texts, rows):
    """urllib, like curl, declares a form where no media type is given."""
    body = json.dumps({"model": model, "input": texts}).encode()
    for path in ("/v1/embeddings", "/v1/embeddings/", "/api/embed"):
        with urllib.request.urlopen(f"http://{address}{path}", body, timeout=60) as answer:
            found = json.load(answer)
        vectors = found["embeddings"] if "embeddings" in found else [one["embedding"] for one in found["data"]]
        same(vectors, rows, path)
    return f"{len(texts)} texts at three paths"
