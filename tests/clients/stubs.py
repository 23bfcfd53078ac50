"""One server that stands in for every kind of provider over HTTP (the gRPC ones are in `stubs_grpc.py`, started here too).

Each kind has its routes below its own path. Requests are compared with the provider's public reference, field by field: an unknown
field, a value that is not permitted, more texts than are accepted, a wrong key. An invalid request is answered as by the
provider, and recorded: `GET /seen` returns the requests and their faults. Vectors are those of `expected.py`.
"""

import argparse
import base64
import collections
import http.server
import json
import signal
import sys
import threading

import expected
import stubs_grpc

# The kinds' secrets as configured in the gateway; each kind has its own.
SECRETS = {kind: f"sk-stub-{kind}-42" for kind in ["tei", "openai", "cohere", "voyage", "ollama", "jina", "hf", "vllm", "tei-grpc", "oip"]}


class Wrong(Exception):
    """A request that the provider's reference does not allow."""


class NoEmptyText(Exception):
    """An empty text, which these providers refuse. The gateway must forward it: a check of the provider tests that."""


class Seen:
    """The recorded requests, by kind."""

    def __init__(self):
        self.lock = threading.Lock()
        self.kinds = {}

    def note(self, kind, count, options, wrong=None):
        with self.lock:
            entry = self.kinds.setdefault(
                kind, {"requests": 0, "items": 0, "most": 0, "options": collections.Counter(), "wrong": []}
            )
            entry["requests"] += 1
            entry["items"] += count
            entry["most"] = max(entry["most"], count)
            entry["options"].update(options)
            if wrong:
                entry["wrong"].append(wrong)

    def told(self):
        with self.lock:
            return json.loads(json.dumps(self.kinds))


def hold(condition, message):
    if not condition:
        raise Wrong(message)


def fields(body, required, optional):
    """Checks that every field is known and every required field is present; returns the fields by name."""
    hold(isinstance(body, dict), f"the body is not an object: {body!r}")
    unknown = sorted(set(body) - set(required) - set(optional))
    missing = sorted(set(required) - set(body))
    hold(not unknown, f"unknown fields {unknown}")
    hold(not missing, f"missing fields {missing}")
    for name, value in body.items():
        check = {**required, **optional}[name]
        hold(check(value), f"{name}: {str(value)[:80]!r}")


def no_empty(texts):
    if "" in texts:
        raise NoEmptyText("input: cannot be an empty string")


def text(value):
    return isinstance(value, str)


def flag(value):
    return isinstance(value, bool)


def columns(value):
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= expected.DIMENSIONS


def count(value):
    return isinstance(value, int) and value >= 1


def one_of(*values):
    return lambda value: value in values


def texts(most):
    def check(value):
        fits = isinstance(value, list) and 1 <= len(value) <= most
        return fits and all(isinstance(one, str) for one in value)

    return check


def token_lists(value):
    lists = isinstance(value, list) and all(isinstance(one, list) for one in value)
    return lists and all(isinstance(id, int) and id >= 0 for one in value for id in one)


def floats(row):
    return [float(value) for value in row]


def in_base64(row):
    return base64.b64encode(row.tobytes()).decode()


def listed(model, rows, form, tokens):
    """OpenAI's list in reverse order: clients must go by the index."""
    data = [{"object": "embedding", "index": index, "embedding": form(row)} for index, row in enumerate(rows)]
    return {"object": "list", "data": data[::-1], "model": model, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


def ranks(model, query, documents, most, key):
    scored = [{"index": index, key: expected.stub_score(model, query, one)} for index, one in enumerate(documents)]
    return sorted(scored, key=lambda one: -one[key])[:most]


# https://platform.openai.com/docs/api-reference/embeddings/create
def openai(path, body):
    hold(path == "/v1/embeddings", "path")
    fields(
        body,
        {"model": text, "input": lambda value: texts(2048)(value) or (token_lists(value) and len(value) <= 2048)},
        {"encoding_format": one_of("float", "base64"), "dimensions": columns, "user": text},
    )
    no_empty(body["input"])
    rows = expected.stub_rows(body["model"], None, body["input"], body.get("dimensions"))
    form = in_base64 if body.get("encoding_format") == "base64" else floats
    kinds = ["tokens" if isinstance(body["input"][0], list) else "texts"]
    return listed(body["model"], rows, form, 5 * len(rows)), len(rows), kinds + [f"{body.get('encoding_format')}"]


# https://docs.vllm.ai/en/latest/models/pooling_models/embed/
def vllm(path, body):
    return openai(path, body)


# https://docs.cohere.com/reference/embed and https://docs.cohere.com/reference/rerank
def cohere(path, body):
    if path == "/v2/rerank":
        fields(
            body,
            {"model": text, "query": text, "documents": texts(1000)},
            {"top_n": count, "max_tokens_per_doc": count},
        )
        results = ranks(body["model"], body["query"], body["documents"], body.get("top_n"), "relevance_score")
        answer = {"id": "1", "results": results, "meta": {"billed_units": {"search_units": 1}}}
        return answer, len(body["documents"]), ["rerank"]
    hold(path == "/v2/embed", "path")
    fields(
        body,
        {
            "model": text,
            "input_type": one_of("search_document", "search_query", "classification", "clustering"),
            "texts": texts(96),
            "embedding_types": lambda value: value == ["float"],
        },
        {"truncate": one_of("NONE", "START", "END"), "output_dimension": columns},
    )
    rows = expected.stub_rows(body["model"], body["input_type"], body["texts"], body.get("output_dimension"))
    answer = {
        "id": "1",
        "embeddings": {"float": [floats(row) for row in rows]},
        "texts": body["texts"],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 5.0 * len(rows)}},
    }
    return answer, len(rows), [body["input_type"], f"truncate {body.get('truncate')}"]


# https://docs.voyageai.com/reference/embeddings-api and
# https://docs.voyageai.com/reference/reranker-api
def voyage(path, body):
    if path == "/v1/rerank":
        fields(
            body,
            {"model": text, "query": text, "documents": texts(1000)},
            {"top_k": count, "return_documents": flag, "truncation": flag},
        )
        data = ranks(body["model"], body["query"], body["documents"], body.get("top_k"), "relevance_score")
        answer = {"object": "list", "data": data, "model": body["model"], "usage": {"total_tokens": 9}}
        return answer, len(body["documents"]), ["rerank"]
    hold(path == "/v1/embeddings", "path")
    fields(
        body,
        {"model": text, "input": texts(1000)},
        {
            "input_type": one_of("query", "document", None),
            "truncation": flag,
            "output_dimension": columns,
            "output_dtype": one_of("float"),
            "encoding_format": one_of("base64", None),
        },
    )
    no_empty(body["input"])
    rows = expected.stub_rows(body["model"], body.get("input_type"), body["input"], body.get("output_dimension"))
    form = in_base64 if body.get("encoding_format") == "base64" else floats
    return listed(body["model"], rows, form, 5 * len(rows)), len(rows), [f"input_type {body.get('input_type')}"]


# https://api.jina.ai/openapi.json
def jina(path, body):
    if path == "/v1/rerank":
        fields(
            body,
            {"model": text, "query": text, "documents": texts(2048)},
            {"top_n": count, "return_documents": flag},
        )
        results = ranks(body["model"], body["query"], body["documents"], body.get("top_n"), "relevance_score")
        return {"model": body["model"], "results": results, "usage": {"total_tokens": 9}}, len(body["documents"]), ["rerank"]
    hold(path == "/v1/embeddings", "path")
    fields(
        body,
        {"model": text, "input": texts(2048)},
        {
            "task": one_of("retrieval.query", "retrieval.passage", "text-matching", "classification", "separation"),
            "truncate": flag,
            "dimensions": columns,
            "normalized": flag,
            "embedding_type": one_of("float", "base64", "binary", "ubinary"),
        },
    )
    rows = expected.stub_rows(body["model"], body.get("task"), body["input"], body.get("dimensions"))
    form = in_base64 if body.get("embedding_type") == "base64" else floats
    return listed(body["model"], rows, form, 5 * len(rows)), len(rows), [f"task {body.get('task')}"]


# https://docs.ollama.com/api
def ollama(path, body):
    if path == "/api/show":
        fields(body, {"model": text}, {"verbose": flag})
        info = {"general.architecture": "bert", "bert.context_length": 512, "bert.embedding_length": expected.DIMENSIONS}
        details = {"family": "bert", "quantization_level": "F16"}
        return {"details": details, "model_info": info, "capabilities": ["embedding"]}, 0, ["show"]
    hold(path == "/api/embed", "path")
    fields(
        body,
        {"model": text, "input": texts(4096)},
        {"truncate": flag, "dimensions": columns, "keep_alive": text, "options": lambda value: isinstance(value, dict)},
    )
    rows = expected.stub_rows(body["model"], None, body["input"], body.get("dimensions"))
    answer = {"model": body["model"], "embeddings": [floats(row) for row in rows], "prompt_eval_count": 5 * len(rows)}
    return answer, len(rows), ["embed"]


TEI = {
    "inputs": texts(32),
    "normalize": flag,
    "truncate": flag,
    "truncation_direction": one_of("Left", "Right"),
    "prompt_name": one_of("query", "document", None),
}
TEI_MODEL = "stub/tei"


# https://huggingface.github.io/text-embeddings-inference/
def tei(path, body):
    if path == "/rerank":
        raise Wrong("this server has an embedding model")
    hold(path == "/embed", "path")
    fields(body, {"inputs": TEI["inputs"]}, {**TEI, "dimensions": columns})
    rows = expected.stub_rows(TEI_MODEL, body.get("prompt_name"), body["inputs"], body.get("dimensions"))
    return [floats(row) for row in rows], len(rows), [f"prompt_name {body.get('prompt_name')}"]


# https://huggingface.co/docs/inference-providers/tasks/feature-extraction
def hugging_face(path, body):
    model = path.removeprefix("/models/").removesuffix("/pipeline/feature-extraction")
    hold(path == f"/models/{model}/pipeline/feature-extraction" and model.count("/") == 1, "path")
    fields(body, {"inputs": TEI["inputs"]}, TEI)
    rows = expected.stub_rows(model, body.get("prompt_name"), body["inputs"])
    return [floats(row) for row in rows], len(rows), [f"prompt_name {body.get('prompt_name')}"]


KINDS = {
    "tei": tei,
    "openai": openai,
    "vllm": vllm,
    "cohere": cohere,
    "voyage": voyage,
    "ollama": ollama,
    "jina": jina,
    # The router's own path: an address with a path would be one model's endpoint.
    "hf-inference": hugging_face,
}
# Answers to requests without a body.
TOLD = {
    "/tei/info": {
        "model_id": TEI_MODEL,
        "model_sha": "0123abcd",
        "model_dtype": "float32",
        "model_type": {"embedding": {"pooling": "cls"}},
        "max_concurrent_requests": 512,
        "max_input_length": 512,
        "max_batch_tokens": 16384,
        "max_client_batch_size": 32,
        "version": "1.9.0",
    },
    "/ollama/api/tags": {"models": [{"name": "stub:latest", "digest": "1b226e2802db"}]},
    "/ollama/api/version": {"version": "0.13.0"},
    "/openai/v1/models": {"object": "list", "data": [{"id": "stub-small", "object": "model"}]},
    "/vllm/health": {},
    "/cohere/v1/models": {"models": [{"name": "stub-embed"}]},
}


def handler(seen):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer(self, status, body, headers=()):
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in [("content-type", "application/json"), ("content-length", len(data)), *headers]:
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        def refuse(self, why):
            """The error's text, in the field in which each kind has it."""
            self.answer(400, {"error": {"message": str(why)}, "message": str(why), "detail": str(why)})

        def do_GET(self):
            if self.path == "/seen":
                return self.answer(200, seen.told())
            return self.answer(200, TOLD[self.path]) if self.path in TOLD else self.answer(404, {"error": "no such path"})

        def do_POST(self):
            name, _, rest = self.path.lstrip("/").partition("/")
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if name not in KINDS:
                return self.answer(404, {"error": "no such path"})
            kind = "hf" if name == "hf-inference" else name
            try:
                hold(self.headers.get("content-type") == "application/json", f"content-type {self.headers.get('content-type')}")
                hold(self.headers.get_all("authorization") == [f"Bearer {SECRETS[kind]}"], "another key than this provider's")
                hold(self.headers.get("x-project") == "clients", "the provider's extra header is missing")
                answer, items, options = KINDS[name]("/" + rest, json.loads(body))
            except NoEmptyText as refused:
                seen.note(kind, 0, ["an empty text refused"])
                return self.refuse(refused)
            except (Wrong, ValueError) as wrong:
                seen.note(kind, 0, [], f"POST {self.path}: {wrong}")
                return self.refuse(wrong)
            seen.note(kind, items, options)
            self.answer(200, answer, [("x-compute-tokens", 5 * items)] if kind == "tei" else [])

    return Handler


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    seen = Seen()
    server = Server(("127.0.0.1", 0), handler(seen))
    rpc, port = stubs_grpc.start(seen, SECRETS)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on 127.0.0.1:{server.server_address[1]} 127.0.0.1:{port}", flush=True)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    rpc.stop(grace=1).wait()
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
