"""Clients of other servers against a running gateway: Cohere's, Ollama's, Voyage's and the Hugging Face hub's own, and text-embeddings-inference's paths."""

import base64
import json
import unicodedata
import urllib.error
import urllib.request

import cohere
import grpc
import huggingface_hub
import numpy
import ollama
import voyageai

import expected
import stubs_grpc
from isomer_stubs import expect
from python_clients import UNUSED, refused, same


def cohere_vectors(address, model, texts, rows, query_rows):
    """`query_rows` are the expected vectors if the texts are queries."""
    new = cohere.ClientV2(UNUSED, base_url=f"http://{address}")
    found = new.embed(model=model, texts=texts, input_type="search_document", embedding_types=["float", "base64", "ubinary"])
    same(found.embeddings.float_, rows, "version 2")
    decoded = [numpy.frombuffer(base64.b64decode(one), "<f4") for one in found.embeddings.base64]
    same(decoded, rows, "base64")
    bits = numpy.packbits(rows > 0, axis=1)
    expect((numpy.asarray(found.embeddings.ubinary) == bits).all(), "ubinary differs from numpy.packbits")
    expect(found.texts == texts, "the returned texts differ")
    query = new.embed(model=model, texts=texts, input_type="search_query", embedding_types=["float"])
    same(query.embeddings.float_, query_rows, "search_query")
    old = cohere.Client(UNUSED, base_url=f"http://{address}")
    same(old.embed(model=model, texts=texts, input_type="search_document").embeddings, rows, "version 1")
    refused(cohere.errors.NotFoundError, lambda: new.embed(model="no-such", texts=texts, input_type="clustering"), "no-such")
    refused(
        cohere.errors.BadRequestError,
        lambda: new.embed(model=model, texts=texts, input_type="clustering", embedding_types=["int8"]),
        "embedding_types",
        "calibration",
    )
    return f"{len(texts)} texts in both versions, four types; two refusals"


def due(model, documents, top):
    scores = [(index, expected.stub_score(model, "which one", document)) for index, document in enumerate(documents)]
    return sorted(scores, key=lambda one: -one[1])[:top]


def documents():
    return [f"document number {k} of some" for k in range(7)]


def ranked(found, wanted):
    found = [(index, float(numpy.float32(score))) for index, score in found]
    expect(found == wanted, f"{found} instead of {wanted}")


def cohere_rerank(address, encoder, model):
    texts = documents()
    asked = {"model": encoder, "query": "which one", "documents": texts, "top_n": 4}
    new = cohere.ClientV2(UNUSED, base_url=f"http://{address}").rerank(**asked)
    ranked([(one.index, one.relevance_score) for one in new.results], due(model, texts, 4))
    old = cohere.Client(UNUSED, base_url=f"http://{address}").rerank(**asked, return_documents=True, max_chunks_per_doc=10)
    ranked([(one.index, one.relevance_score) for one in old.results], due(model, texts, 4))
    expect([one.document.text for one in old.results] == [texts[one.index] for one in old.results], "documents differ")
    return "4 best of 7 in both versions, scores equal"


def voyage_rerank(address, encoder, model):
    texts = documents()
    client = voyageai.Client(api_key=UNUSED, base_url=f"http://{address}/v1")
    found = client.rerank("which one", texts, model=encoder, top_k=3)
    ranked([(one.index, one.relevance_score) for one in found.results], due(model, texts, 3))
    expect([one.document for one in found.results] == [texts[one.index] for one in found.results], "documents differ")
    return "3 best of 7, scores equal"


def voyage_vectors(address, model, texts, rows, query_rows):
    client = voyageai.Client(api_key=UNUSED, base_url=f"http://{address}/v1")
    same(client.embed(texts, model=model, input_type="document").embeddings, rows, "document")
    same(client.embed(texts, model=model, input_type="query").embeddings, query_rows, "query")
    same(client.embed(texts, model=model, truncation=True, output_dtype="float").embeddings, rows, "no type")
    refused(voyageai.error.InvalidRequestError, lambda: client.embed(texts, model=model, output_dtype="int8"), "output_dtype")
    return f"{len(texts)} texts of both kinds; one refusal"


def ollama_vectors(address, model, texts, rows):
    client = ollama.Client(host=f"http://{address}")
    same(client.embed(model=model, input=texts).embeddings, rows, "embed")
    same(client.embed(model=f"{model}:latest", input=texts[0], truncate=True, keep_alive="5m").embeddings, rows[:1], "with a tag")
    same([client.embeddings(model=model, prompt=texts[0]).embedding], rows[:1], "embeddings")
    names = {one.model for one in client.list().models}
    expect(model in names, f"{model} is not listed: {sorted(names)}")
    expect("embedding" in client.show(model).capabilities, "it is not shown as an encoder")
    same(client.embed(model=model, input=texts, options={"num_ctx": 4096, "use_mmap": True}).embeddings, rows, "options")
    refused(ollama.ResponseError, lambda: client.embed(model=model, input=texts, options={"num_ctx": 8}), "num_ctx")
    refused(ollama.ResponseError, lambda: client.embed(model="no-such", input=texts), "no-such")
    return f"{len(texts)} texts, {len(names)} models listed; two refusals"


def hub_vectors(address, model, texts, rows):
    client = huggingface_hub.InferenceClient(f"http://{address}/tei/{model}")
    same(client.feature_extraction(texts), rows, "feature_extraction")
    same(client.feature_extraction(texts[0], normalize=True, truncate=True), rows[:1], "one text")
    cosines = client.sentence_similarity(texts[0], other_sentences=texts[1:])
    wanted = rows[1:].astype("f8") @ rows[0].astype("f8")
    expect(numpy.allclose(cosines, wanted, atol=2e-7, rtol=0), f"{cosines[:3]} instead of {wanted[:3]}")
    return f"{len(texts)} texts, {len(cosines)} cosines"


def post(address, path, body):
    request = urllib.request.Request(f"http://{address}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def plain(text):
    """The text as the model's tokenizer normalises it: in lower case, without accents."""
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")


def tei_paths(address, model, texts, rows, reranker, reranks_as):
    """Calls as in text-embeddings-inference's own documentation."""
    same(post(address, f"/tei/{model}/embed", {"inputs": texts, "normalize": True}), rows, "embed")
    same(post(address, f"/embed?model={model}", {"inputs": texts, "truncate": True}), rows, "?model=")
    tokens = post(address, f"/tei/{model}/embed_all", {"inputs": texts[:2]})
    expect([len(vector) for text in tokens for vector in text] == [rows.shape[1]] * sum(map(len, tokens)), "token vectors have another number of columns")
    with urllib.request.urlopen(f"http://{address}/tei/{model}/info", timeout=30) as answer:
        info = json.load(answer)
    expect(info["model_id"] == model and info["max_input_length"] > 0, f"info {info}")
    told = post(address, f"/tei/{model}/tokenize", {"inputs": texts})
    parts = [(text.encode()[one["start"] : one["stop"]].decode(), one["text"]) for text, all in zip(texts, told) for one in all if not one["special"]]
    expect(all(mine == theirs for mine, theirs in parts), "a token's text is not that of its bytes")
    by_ids = post(address, "/v1/embeddings", {"model": model, "input": [[one["id"] for one in all] for all in told], "normalized": True})
    same([one["embedding"] for one in by_ids["data"]], rows, "the ids of /tokenize")
    read = post(address, f"/tei/{model}/decode", {"ids": [one["id"] for one in told[0]]})
    expect(read == [plain(texts[0])], f"{read} instead of {plain(texts[0])!r}")
    found = post(address, f"/tei/{reranker}/rerank", {"query": "which one", "texts": documents(), "return_text": True})
    ranked([(one["index"], one["score"]) for one in found], due(reranks_as, documents(), 7))
    try:
        post(address, f"/tei/{model}/embed_sparse", {"inputs": "a"})
        expect(False, "sparse vectors were given")
    except urllib.error.HTTPError as error:
        told = json.load(error)
        expect("sparse" in told["error"] and told["error_type"] == "Validation", f"told {told}")
    return f"{len(texts)} texts, {sum(map(len, tokens))} tokens, 7 documents; one refusal"


def tei_grpc(address, model, texts, rows, reranker, reranks_as):
    """grpcio with the published interface."""
    pb, rpc = stubs_grpc.messages("tei")
    name, reranks = [("isomer-encoder", model)], [("isomer-encoder", reranker)]
    with grpc.insecure_channel(address) as channel:
        info = rpc.InfoStub(channel).Info(pb.InfoRequest(), metadata=name, timeout=60)
        expect(info.model_id == model and info.model_type == 0 and info.max_input_length > 0, f"info {info}")
        embed = rpc.EmbedStub(channel)
        one = embed.Embed(pb.EmbedRequest(inputs=texts[0], truncate=True), metadata=name, timeout=60)
        same([one.embeddings], rows[:1], "Embed")
        expect(one.metadata.compute_chars == len(texts[0]) and one.metadata.total_time_ns > 0, f"metadata {one.metadata}")
        streamed = embed.EmbedStream((pb.EmbedRequest(inputs=text) for text in texts), metadata=name, timeout=60)
        same([answer.embeddings for answer in streamed], rows, "EmbedStream")
        tokens = rpc.TokenizeStub(channel)
        told = tokens.Tokenize(pb.EncodeRequest(inputs=texts[0], add_special_tokens=True), metadata=name, timeout=60).tokens
        vectors = embed.EmbedAll(pb.EmbedAllRequest(inputs=texts[0]), metadata=name, timeout=60).token_embeddings
        expect(len(vectors) == len(told), f"{len(vectors)} vectors of {len(told)} tokens")
        read = tokens.Decode(pb.DecodeRequest(ids=[one.id for one in told], skip_special_tokens=True), metadata=name, timeout=60)
        expect(read.text == plain(texts[0]), f"{read.text!r} instead of {plain(texts[0])!r}")
        found = rpc.RerankStub(channel).Rerank(pb.RerankRequest(query="which one", texts=documents()), metadata=reranks, timeout=60)
        ranked([(one.index, one.score) for one in found.ranks], due(reranks_as, documents(), 7))
        try:
            embed.EmbedSparse(pb.EmbedAllRequest(inputs="a"), metadata=name, timeout=60)
            expect(False, "sparse vectors were given")
        except grpc.RpcError as error:
            expect(error.code() == grpc.StatusCode.UNIMPLEMENTED and "sparse" in error.details(), f"told {error}")
    return f"{len(texts)} texts, {len(told)} tokens, 7 documents; one refusal"
