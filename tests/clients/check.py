#!/usr/bin/env python3
"""Real clients against a running gateway; see README.md. `tests/clients/run` installs what this needs and starts it.

Exit code 0: every check passes. 1: one failed, or a process did not start (the reason is on stderr).
"""

import argparse
import base64
import json
import pathlib
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import numpy  # noqa: E402

import dialect_clients as dialects  # noqa: E402
import encoders  # noqa: E402
import expected  # noqa: E402
import isomer_stubs  # noqa: E402
import more_clients as more  # noqa: E402
import python_clients as clients  # noqa: E402
from harness import Failed, Harness, ROOT  # noqa: E402
from table import Table  # noqa: E402

MODEL = "paraphrase-MiniLM-L3-v2"
# Two services offer this encoder, as replicas.
SHARED = "shared-minilm"
ORIGIN = "https://app.example"
OPENAI, AZURE, LANGCHAIN, GRPC, RERANK = "openai (PyPI)", "AzureOpenAI (PyPI)", "LangChain", "grpcio", "HTTP"
COHERE, OLLAMA, VOYAGE, HUB, TEI = "cohere", "ollama", "voyageai", "huggingface_hub", "text-embeddings-inference"


def start(harness):
    """Two services, a gateway in front of them, the provider in Python and the stub servers, and a gateway that requires keys."""
    replicas = [harness.serve(f"embed-{number}", "--model", MODEL) for number in (1, 2)]
    (harness.folder / "secrets").mkdir()
    config = harness.write(
        "gateway.toml",
        f"""
        [addresses]
        allow = ["127.0.0.1"]
        [providers]
        file_dirs = ["{harness.folder / 'secrets'}"]
        [web]
        allowed_origins = ["{ORIGIN}"]
        """,
    )
    gateway = harness.serve("gateway", "--config", config)
    for number, replica in enumerate(replicas, 1):
        harness.run(
            "gateway",
            *("providers", "--server", gateway, "create", f"embed-{number}", "--kind", "isomer"),
            *("--address", f"grpc://{replica}", "--encoder", f"{SHARED}={MODEL}"),
        )
    harness.python_provider(gateway)
    http, grpc = harness.stubs()
    for stubbed in encoders.STUBBED:
        encoders.register(harness, "gateway", gateway, stubbed, http, grpc)
    return gateway, http


def start_keyed(harness):
    config = harness.write("keyed.toml", '[access]\nmode = "required"\n[server.limits]\nmax_message_bytes = 1048576\n')

    def key(name, scope):
        printed = harness.run("keyed", "keys", "create", "--config", config, "--name", name, "--scope", scope)
        return next(word for word in printed.split() if word.startswith("iso_") and len(word) > 60)

    keys = {"good": key("search", "encode"), "evaluate": key("report", "evaluate"), "revoked": key("gone", "encode")}
    harness.run("keyed", "keys", "revoke", "--config", config, keys["revoked"].split("_")[1])
    return harness.serve("keyed", "--config", config, "--model", MODEL), keys


def embed(harness, texts, *more):
    """The command line's own vectors."""
    source = harness.write("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
    output = str(harness.folder / "vectors.npy")
    harness.run("alone", "embed", "--model", MODEL, "--input", source, "--output", output, *more)
    return numpy.load(output)


def probed(harness, gateway, name):
    return harness.run("gateway", "providers", "--server", gateway, "check", name).splitlines()[0]


def seen(http):
    with urllib.request.urlopen(f"http://{http}/seen", timeout=10) as answer:
        return json.load(answer)


def sent_as_documented(http, stubbed):
    """The stub refused no request, and received every option."""
    told = seen(http).get(stubbed.kind)
    isomer_stubs.expect(told, "it was never called")
    isomer_stubs.expect(not told["wrong"], f"{len(told['wrong'])} requests do not fit the reference: {told['wrong'][:3]}")
    isomer_stubs.expect(told["most"] <= stubbed.most, f"{told['most']} texts at once, {stubbed.most} are accepted")
    for name in stubbed.types.values():
        isomer_stubs.expect(any(name in option for option in told["options"]), f"`{name}` was never sent: {told['options']}")
    options = ", ".join(sorted(told["options"]))
    return f"{told['requests']} requests, {told['items']} items, at most {told['most']} at once: {options}"


def rerank(address, encoder_id, model):
    documents = [f"document number {k} of some" for k in range(7)]
    body = json.dumps({"model": encoder_id, "query": "which one", "documents": documents, "top_n": 4})
    request = urllib.request.Request(f"http://{address}/v1/rerank", body.encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = [(one["index"], one["relevance_score"]) for one in json.load(answer)["results"]]
    due = [(index, expected.stub_score(model, "which one", document)) for index, document in enumerate(documents)]
    due = sorted(due, key=lambda one: -one[1])[:4]
    isomer_stubs.expect([(index, float(numpy.float32(score))) for index, score in found] == due, f"{found} instead of {due}")
    return "4 best of 7, scores equal"


def in_python(table, harness, gateway, keyed, keys, due, stubs):
    texts = encoders.texts()
    for name, rows in due.items():
        table.check(OPENAI, f"vectors of {name}", clients.openai_vectors, gateway, name, texts, rows())
        table.check(AZURE, f"vectors of {name}", clients.azure_vectors, gateway, name, texts, rows())
        table.check(LANGCHAIN, f"vectors of {name}", clients.langchain_texts, gateway, name, texts, rows())
        table.check(GRPC, f"vectors of {name}", clients.grpc_vectors, gateway, stubs, name, texts, rows())
    few = texts[:12]
    local = lambda n: embed(harness, few, "--dimensions", str(n))  # noqa: E731
    table.check(OPENAI, f"dimensions of {SHARED}", clients.openai_dimensions, gateway, SHARED, few, local)
    for stubbed in encoders.STUBBED:
        if stubbed.dimensions:
            narrow = lambda n, one=stubbed: one.rows(few, dimensions=n)  # noqa: E731
            table.check(OPENAI, f"dimensions of {stubbed.id}", clients.openai_dimensions, gateway, stubbed.id, few, narrow)
        if stubbed.types:
            table.check(OPENAI, f"prompt of {stubbed.id}", clients.openai_prompt, gateway, stubbed.id, few, stubbed.rows(few, "query"))
        if stubbed.reranker:
            table.check(RERANK, f"rerank by {stubbed.kind}", rerank, gateway, f"{stubbed.kind}-rerank", stubbed.reranker)
    table.check(OPENAI, "models", clients.openai_models, gateway, list(due))
    table.check(OPENAI, "errors", clients.openai_errors, gateway, SHARED)
    table.check(OPENAI, "augment (GASE)", clients.openai_augmented, gateway, SHARED, [text for text in texts if text.isascii()][6:14])
    first = due[SHARED]()[:12]
    table.check(OPENAI, "keys, sizes", clients.openai_keys, keyed, keys, MODEL, few, first)
    table.check(AZURE, "keys, errors", clients.azure_keys, keyed, keys, MODEL, few, first)
    tokenizer = clients.cl100k(harness.folder)
    table.check(LANGCHAIN, f"default (token ids) at {SHARED}", clients.langchain_tokens_refused, gateway, SHARED, few)
    openai = next(one for one in encoders.STUBBED if one.kind == "openai")
    table.check(
        LANGCHAIN, f"default (token ids) at {openai.id}", clients.langchain_tokens_taken, gateway, openai.id, few, openai.rows, tokenizer
    )
    table.check(GRPC, "reflection, health", clients.grpc_served, gateway, stubs)
    table.check(GRPC, "keys", clients.grpc_keys, keyed, stubs, keys, MODEL, few, first)


def in_dialects(table, harness, gateway, due):
    """Clients of other servers' APIs."""
    texts = encoders.texts()[:12]
    few = lambda name: due[name]()[: len(texts)]  # noqa: E731
    own = few(SHARED)
    prompted = next(one for one in encoders.STUBBED if one.kind == "cohere")
    queries = prompted.rows(texts, "query")
    table.check(COHERE, f"vectors of {SHARED}", dialects.cohere_vectors, gateway, SHARED, texts, own, own)
    table.check(COHERE, f"vectors of {prompted.id}", dialects.cohere_vectors, gateway, prompted.id, texts, few(prompted.id), queries)
    table.check(VOYAGE, f"vectors of {SHARED}", dialects.voyage_vectors, gateway, SHARED, texts, own, own)
    table.check(VOYAGE, f"vectors of {prompted.id}", dialects.voyage_vectors, gateway, prompted.id, texts, few(prompted.id), queries)
    table.check(OLLAMA, f"vectors of {SHARED}", dialects.ollama_vectors, gateway, SHARED, texts, own)
    # text-embeddings-inference scales to unit length by default.
    unit = embed(harness, texts, "--normalise", "true")
    table.check(HUB, f"vectors of {SHARED}", dialects.hub_vectors, gateway, SHARED, texts, unit)
    reranker = f"{prompted.kind}-rerank"
    table.check(COHERE, f"rerank by {prompted.kind}", dialects.cohere_rerank, gateway, reranker, prompted.reranker)
    table.check(VOYAGE, f"rerank by {prompted.kind}", dialects.voyage_rerank, gateway, reranker, prompted.reranker)
    for client, what, call in (
        (AZURE, "at its current address", more.azure_current),
        ("mistralai", "vectors", more.mistral_vectors),
        ("groq", "vectors", more.groq_vectors),
        ("LiteLLM", "vectors", more.litellm_vectors),
        ("HTTP", "no media type", more.untyped),
    ):
        table.check(client, f"{what} of {SHARED}", call, gateway, SHARED, texts, own)
    for client, call in (("LiteLLM", more.litellm_rerank), ("rerankers", more.rerankers_rank)):
        table.check(client, f"rerank by {prompted.kind}", call, gateway, reranker, prompted.reranker)
    table.check(TEI, "paths", dialects.tei_paths, gateway, SHARED, texts, unit, reranker, prompted.reranker)
    table.check(TEI, "gRPC", dialects.tei_grpc, gateway, SHARED, texts, unit, reranker, prompted.reranker)


def in_node(table, harness, gateway, keyed, keys, due):
    texts = encoders.texts()

    def one(name, some):
        rows = due[name]()[: len(some)]
        return {"id": name, "texts": some, "rows": base64.b64encode(rows.tobytes()).decode()}

    plan = {
        "address": gateway,
        "origin": ORIGIN,
        "protos": str(ROOT / "proto"),
        "descriptors": isomer_stubs.descriptors(harness.folder / "descriptors.bin"),
        "reranker": "cohere-rerank",
        "encoders": [one(name, texts) for name in due],
        "keyed": {"address": keyed, "keys": keys, "encoder": {**one(SHARED, texts[:12]), "id": MODEL}},
    }
    path = harness.write("plan.json", json.dumps(plan))
    for script in ("clients.mjs", "connect_clients.mjs"):
        done = subprocess.run(["node", str(HERE / script), path], capture_output=True, text=True, timeout=300)
        for line in done.stdout.splitlines():
            row = json.loads(line)
            table.add(row["client"], row["what"], row["holds"], row["detail"])
        if done.returncode != 0:
            table.add("Node", script, False, done.stderr.strip()[-400:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the binary")
    arguments = parser.parse_args()
    table = Table()
    try:
        with Harness(arguments.isomer) as harness, isomer_stubs.generated_stubs() as stubs:
            gateway, http = start(harness)
            keyed, keys = start_keyed(harness)
            texts = encoders.texts()
            alone = embed(harness, texts)
            module = expected.python_provider()
            due = {SHARED: lambda: alone, module.ENCODER: lambda: expected.provider_rows(module, texts)}
            due |= {one.id: (lambda one=one: one.rows(texts)) for one in encoders.STUBBED}
            for one in encoders.STUBBED:
                name = f"stub-{one.kind}"
                table.check("isomer providers check", name, probed, harness, gateway, name)
            in_python(table, harness, gateway, keyed, keys, due, stubs)
            in_dialects(table, harness, gateway, due)
            in_node(table, harness, gateway, keyed, keys, due)
            for one in encoders.STUBBED:
                table.check(f"stub of {one.provider_kind}", "sent what its reference says", sent_as_documented, http, one)
    except (Failed, isomer_stubs.CheckFailed) as failure:
        print(f"tests/clients: {failure}", file=sys.stderr)
        return 1
    table.show()
    return 1 if table.misses() else 0


if __name__ == "__main__":
    sys.exit(main())
