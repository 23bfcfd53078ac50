"""Stand-ins of search engines for tests/search/recipes: each checks a body by the published shape of its engine, and asks
the gateway as its engine does, with the recipe's own templates. None of them is an engine."""

from __future__ import annotations

import http.server
import json
import math
import pathlib
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml

import graphql
import yaml
from jsonschema import Draft202012Validator, ValidationError

SCHEMAS = pathlib.Path(__file__).parent / "schemas"


class Refused(Exception):
    """Errors of an engine for a request that it refuses."""


def asked(url: str, body: dict | str, headers: dict[str, str]) -> object:
    """The answer of the gateway to the request of an engine; a template that is filled to something else than JSON is refused."""
    text = body if isinstance(body, str) else json.dumps(body)
    try:
        json.loads(text)
    except ValueError as error:
        raise Refused(f"the request is no JSON: {error}: {text}") from None
    lower = {name.lower(): value for name, value in {"content-type": "application/json", **headers}.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, text.encode(), lower), timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise Refused(f"the gateway answered {error.code}: {error.read().decode()[:400]}") from None


def rows(answer: dict) -> list[list[float]]:
    return [row["embedding"] for row in sorted(answer["data"], key=lambda row: row["index"])]


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


class Engine:
    """An engine behind HTTP: requests whose bodies fit the schemas of `name` go to `handle`."""

    name = ""

    def __init__(self) -> None:
        self.schemas = json.loads((SCHEMAS / f"{self.name}.json").read_text())["requests"]
        for one in self.schemas:
            Draft202012Validator.check_schema(one["body"])
        self.documents: dict[str, tuple[str, list[float]]] = {}
        self.headers: dict[str, str] = {}
        self.bodies = 0
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"null")
                engine.headers = dict(self.headers)
                try:
                    code, told = 200, engine.take(self.command, self.path, body)
                except (Refused, ValidationError) as error:
                    code, told = 400, {"error": getattr(error, "message", None) or str(error)}
                sent = json.dumps(told).encode()
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def valid(self, method: str, path: str, body: object) -> None:
        for one in self.schemas:
            if one["method"] == method and re.fullmatch(one["path"], path):
                Draft202012Validator(one["body"]).validate(body)
                self.bodies += 1
                return
        raise Refused(f"{method} {path} is no request of {self.name}")

    def take(self, method: str, path: str, body: object) -> object:
        self.valid(method, path, body)
        return self.handle(method, urllib.parse.urlsplit(path).path, body)

    def handle(self, method: str, path: str, body: dict) -> object:
        raise NotImplementedError

    def found(self, query: list[float]) -> list[tuple[str, str, float]]:
        scored = [(key, text, cosine(query, vector)) for key, (text, vector) in self.documents.items()]
        return sorted(scored, key=lambda one: -one[2])

    def index(self, key: str, text: str, vector: list[float], dimensions: int) -> None:
        if len(vector) != dimensions:
            raise Refused(f"a vector of {len(vector)} columns where the index has {dimensions}")
        self.documents[key] = (text, vector)


class OpenSearch(Engine):
    """ml-commons: `${parameters.…}` in the body and `${credential.…}` in headers; the functions of openai.embedding."""

    name = "opensearch"

    def __init__(self) -> None:
        super().__init__()
        self.trusted: list[str] = []
        self.connectors: dict[str, dict] = {}
        self.models: dict[str, str] = {}
        self.pipelines: dict[str, dict] = {}
        self.indexes: dict[str, dict] = {}

    def predict(self, model: str, texts: list[str]) -> list[list[float]]:
        connector = self.connectors[self.models[model]]
        action = connector["actions"][0]
        if (action.get("pre_process_function"), action.get("post_process_function")) != (
            "connector.pre_process.openai.embedding",
            "connector.post_process.openai.embedding",
        ):
            raise Refused("text_embedding needs the functions that make texts and vectors of the model's own requests")
        parameters = {**connector["parameters"], "input": json.dumps(texts)}
        body = re.sub(r"\$\{parameters\.(\w+)\}", lambda one: parameters[one[1]], action["request_body"])
        headers = {name: re.sub(r"\$\{credential\.(\w+)\}", lambda one: connector["credential"][one[1]], text) for name, text in action["headers"].items()}
        return rows(asked(action["url"], body, headers))

    def handle(self, method: str, path: str, body: dict) -> object:
        match path.strip("/").split("/"):
            case ["_cluster", "settings"]:
                self.trusted = body["persistent"]["plugins.ml_commons.trusted_connector_endpoints_regex"]
                return {"acknowledged": True}
            case ["_plugins", "_ml", "connectors", "_create"]:
                url = body["actions"][0]["url"]
                if not any(re.fullmatch(pattern, url) for pattern in self.trusted):
                    raise Refused(f"Connector URL is not matching the trusted connector endpoint regex, URL is: {url}")
                self.connectors[f"c{len(self.connectors)}"] = body
                return {"connector_id": f"c{len(self.connectors) - 1}"}
            case ["_plugins", "_ml", "models", "_register"]:
                if body["connector_id"] not in self.connectors:
                    raise Refused("Failed to find connector")
                self.models[f"m{len(self.models)}"] = body["connector_id"]
                return {"task_id": "t", "status": "CREATED", "model_id": f"m{len(self.models) - 1}"}
            case ["_ingest" | "_search" as kind, "pipeline", name]:
                processors = body.get("processors") or body["request_processors"]
                for processor in processors:
                    (told,) = processor.values()
                    if (told.get("model_id") or told.get("default_model_id")) not in self.models:
                        raise Refused("there is no such model")
                self.pipelines[f"{kind}/{name}"] = processors[0]
                return {"acknowledged": True}
            case [name, "_doc", key]:
                settings, mapping = self.indexes[name]["settings"]["index"], self.indexes[name]["mappings"]["properties"]
                embedding = self.pipelines[f"_ingest/{settings['default_pipeline']}"]["text_embedding"]
                ((source, target),) = embedding["field_map"].items()
                vector = self.predict(embedding["model_id"], [body[source]])[0]
                self.index(key, body[source], vector, mapping[target]["dimension"])
                return {"_id": key, "result": "created"}
            case [name, "_search"]:
                ((field, neural),) = body["query"]["neural"].items()
                pipeline = self.pipelines[f"_search/{self.indexes[name]['settings']['index']['search']['default_pipeline']}"]
                model = neural.get("model_id") or pipeline["neural_query_enricher"]["default_model_id"]
                hits = self.found(self.predict(model, [neural["query_text"]])[0])
                return {"hits": {"hits": [{"_id": key, "_score": score, "_source": {"text": text}} for key, text, score in hits]}}
            case [name]:
                self.indexes[name] = body
                return {"acknowledged": True}
        raise Refused(path)


class Elasticsearch(Engine):
    """The service `custom`: `${input}` and `${input_type}` as JSON in the request, secrets in headers. An endpoint is tried when it is made."""

    name = "elasticsearch"

    def __init__(self) -> None:
        super().__init__()
        self.endpoints: dict[str, dict] = {}
        self.pipelines: dict[str, dict] = {}
        self.indexes: dict[str, dict] = {}

    def embed(self, endpoint: str, texts: list[str], purpose: str) -> list[list[float]]:
        settings = self.endpoints[endpoint]
        kind = settings.get("input_type", {})
        known = {"input": json.dumps(texts), "input_type": json.dumps(kind.get("translation", {}).get(purpose, kind.get("default", "")))}

        def fill(text: str, known: dict) -> str:
            text = re.sub(r"\$\{(\w+)\}", lambda one: known.get(one[1], one[0]), text)
            if "${" in text:
                raise Refused(f"a placeholder has no value: {text}")
            return text

        headers = {name: fill(text, settings["secret_parameters"]) for name, text in settings["headers"].items()}
        if settings["response"]["json_parser"]["text_embeddings"] != "$.data[*].embedding[*]":
            raise Refused("the path finds no vectors in an answer of the gateway")
        return rows(asked(settings["url"], fill(settings["request"], known), headers))

    def handle(self, method: str, path: str, body: dict) -> object:
        match path.strip("/").split("/"):
            case ["_inference", "text_embedding", name]:
                self.endpoints[name] = body["service_settings"]
                self.embed(name, ["how big"], "ingest")
                return {"inference_id": name, "task_type": "text_embedding", **body}
            case ["_ingest", "pipeline", name]:
                self.pipelines[name] = body["processors"][0]["inference"]
                return {"acknowledged": True}
            case [name, "_doc", key]:
                mapping = self.indexes[name]["mappings"]["properties"]
                text = body["text"]
                if "semantic" in mapping:
                    if mapping["text"].get("copy_to") != ["semantic"]:
                        raise Refused("nothing puts the text into the field `semantic`")
                    vector = self.embed(mapping["semantic"]["inference_id"], [text], "ingest")[0]
                    self.index(key, text, vector, len(vector))
                else:
                    inference = self.pipelines[self.indexes[name]["settings"]["index"]["default_pipeline"]]
                    (field,) = inference["input_output"]
                    vector = self.embed(inference["model_id"], [body[field["input_field"]]], "ingest")[0]
                    self.index(key, text, vector, mapping[field["output_field"]]["dims"])
                return {"_id": key, "result": "created"}
            case [name, "_search"]:
                mapping = self.indexes[name]["mappings"]["properties"]
                if "query" in body:
                    asks = body["query"]["semantic"]
                    field = mapping[asks["field"]]
                    query = self.embed(field.get("search_inference_id", field["inference_id"]), [asks["query"]], "search")[0]
                else:
                    builder = body["knn"]["query_vector_builder"]["text_embedding"]
                    assert body["knn"]["field"] in mapping
                    query = self.embed(builder["model_id"], [builder["model_text"]], "search")[0]
                hits = [{"_id": key, "_score": score, "_source": {"text": text}} for key, text, score in self.found(query)]
                return {"hits": {"hits": hits}}
            case [name]:
                for field in body["mappings"]["properties"].values():
                    for endpoint in (field.get("inference_id"), field.get("search_inference_id")):
                        if endpoint and endpoint not in self.endpoints:
                            raise Refused(f"there is no endpoint {endpoint}")
                self.indexes[name] = body
                return {"acknowledged": True}
        raise Refused(path)


class Weaviate(Engine):
    """text2vec-openai: `baseURL` and /v1/embeddings, the key from a header of the request, a model and texts."""

    name = "weaviate"

    def embed(self, text: str) -> list[float]:
        settings = self.collection["vectorConfig"]["default"]["vectorizer"]["text2vec-openai"]
        key = {name.lower(): value for name, value in self.headers.items()}.get("x-openai-api-key")
        if key is None:
            raise Refused("API Key: no api key found neither in request header: X-OpenAI-Api-Key nor in environment variable")
        return rows(asked(settings["baseURL"] + "/v1/embeddings", {"input": [text], "model": settings["model"]}, {"Authorization": f"Bearer {key}"}))[0]

    def handle(self, method: str, path: str, body: dict) -> object:
        if path == "/v1/schema":
            self.collection = body
            return body
        if path == "/v1/objects":
            assert body["class"] == self.collection["class"]
            vector = self.embed(body["properties"]["text"])
            self.index(body["id"], body["properties"]["text"], vector, len(vector))
            return body
        get = graphql.parse(body["query"]).definitions[0].selection_set.selections[0]
        of_class = get.selection_set.selections[0]
        arguments = {one.name.value: graphql.value_from_ast_untyped(one.value) for one in of_class.arguments}
        assert (get.name.value, of_class.name.value) == ("Get", self.collection["class"])
        query = arguments["nearVector"]["vector"] if "nearVector" in arguments else self.embed(arguments["nearText"]["concepts"][0])
        hits = [{"text": text, "_additional": {"distance": 1 - score}} for _, text, score in self.found(query)]
        return {"data": {"Get": {of_class.name.value: hits}}}


class Milvus(Engine):
    """The text embedding function of the provider `openai`: address and key from milvus.yaml, model from the function."""

    name = "milvus"

    def __init__(self, settings: str) -> None:
        super().__init__()
        self.settings = yaml.safe_load(settings)

    def embed(self, text: str) -> list[float]:
        (function,) = self.collection["schema"]["functions"]
        provider = self.settings["function"]["textEmbedding"]["providers"][function["params"]["provider"]]
        key = self.settings["credential"][function["params"].get("credential", provider["credential"])]["apikey"]
        body = {"model": function["params"]["model_name"], "input": [text], "encoding_format": "float"}
        return rows(asked(provider["url"], body, {"Authorization": f"Bearer {key}"}))[0]

    def handle(self, method: str, path: str, body: dict) -> object:
        if path.endswith("collections/create"):
            self.collection = body
            return {"code": 0, "data": {}}
        assert body["collectionName"] == self.collection["collectionName"]
        if path.endswith("insert"):
            dimensions = next(field["elementTypeParams"]["dim"] for field in self.collection["schema"]["fields"] if field["dataType"] == "FloatVector")
            for row in body["data"]:
                self.index(str(row["id"]), row["text"], self.embed(row["text"]), dimensions)
            return {"code": 0, "data": {"insertCount": len(body["data"])}}
        (asks,) = body["data"]
        query = self.embed(asks) if isinstance(asks, str) else asks
        return {"code": 0, "data": [{"id": int(key), "text": text, "distance": score} for key, text, score in self.found(query)]}


class Solr(Engine):
    """LangChain4j's OpenAiEmbeddingModel behind the model store; local parameters of the query parsers."""

    name = "solr"

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, dict] = {}

    def embed(self, model: str, text: str) -> list[float]:
        told = self.models[model]
        body = {"model": told["modelName"], "input": [text], **{name: told[name] for name in ("dimensions", "user") if name in told}}
        return rows(asked(told["baseUrl"] + "/embeddings", body, {"Authorization": f"Bearer {told['apiKey']}"}))[0]

    def handle(self, method: str, path: str, body: dict) -> object:
        match path.strip("/").split("/")[2:]:
            case ["schema", "text-to-vector-model-store"]:
                self.models[body["name"]] = body["params"]
            case ["schema"]:
                self.types = {body["add-field-type"]["name"]: body["add-field-type"]["vectorDimension"]}
                self.fields = {field["name"]: field["type"] for field in body["add-field"]}
            case ["config"]:
                self.parser, self.processor = body["add-queryparser"]["name"], body["add-updateprocessor"]
            case ["update", "json", "docs"]:
                vector = self.embed(self.processor["model"], body[self.processor["inputField"]])
                self.index(body["id"], body["text"], vector, self.types[self.fields[self.processor["outputField"]]])
            case ["query"]:
                local = re.fullmatch(r"\{!(\w+) ((?:\w+=[^ }]+ ?)+)\}", body["query"])
                if not local:
                    raise Refused(f"no local parameters: {body['query']}")
                given = dict(pair.split("=") for pair in local[2].split())
                text = body["params"][given["v"].removeprefix("$")]
                assert given["f"] == self.processor["outputField"]
                if local[1] == self.parser:
                    query = self.embed(given["model"], text)
                elif local[1] == "knn":
                    query = json.loads(text)
                else:
                    raise Refused(f"there is no query parser {local[1]}")
                return {"response": {"docs": [{"id": key, "text": text, "score": score} for key, text, score in self.found(query)]}}
        return {"responseHeader": {"status": 0}}


class Vespa(Engine):
    """The component openai-embedder of services.xml, and the fields and rank profiles of doc.sd."""

    name = "vespa"
    # OpenAIEmbedder in common.rnc: required elements, and those that may be there.
    REQUIRED, OPTIONAL = {"model", "dimensions"}, {"api-key-secret-ref", "endpoint", "prepend", "batching"}

    def __init__(self, services: str, schema: str, secrets: dict[str, str]) -> None:
        super().__init__()
        self.secrets, self.embedders = secrets, {}
        root = xml.fromstring(services)
        for component in root.iter("component"):
            assert component.get("type") == "openai-embedder"
            names = [element.tag for element in component]
            if len(set(names)) != len(names) or not self.REQUIRED <= set(names) <= self.REQUIRED | self.OPTIONAL:
                raise Refused(f"an openai-embedder with the elements {names}")
            for batching in component.iter("batching"):
                if set(batching.attrib) != {"max-size", "max-delay"}:
                    raise Refused(f"batching with {batching.attrib}")
            self.embedders[component.get("id")] = {element.tag: (element.text or "").strip() for element in component}
        assert root.find("container/document-api") is not None and root.find("container/search") is not None
        assert root.find("content/documents/document").get("type") == re.search(r"schema (\w+)", schema)[1]
        self.fields = {}
        for field, columns, embedder in re.findall(r"field (\w+) type tensor<float>\(x\[(\d+)\]\) \{\s+indexing: input text \| embed ([\w-]+) \|", schema):
            if embedder not in self.embedders:
                raise Refused(f"the field {field} is embedded by {embedder}, which services.xml does not have")
            self.fields[field] = (int(columns), embedder)
        profiles = re.findall(r"rank-profile (\w+) \{\s+inputs \{\s+query\(q\) tensor<float>\(x\[(\d+)\]\)\s+\}\s+first-phase \{\s+expression: closeness\(field, (\w+)\)", schema)
        assert sorted(profiles) == sorted((name, str(columns), name) for name, (columns, _) in self.fields.items()), profiles
        self.vectors: dict[str, dict[str, list[float]]] = {name: {} for name in self.fields}

    def embed(self, name: str, text: str) -> list[float]:
        import base64
        import struct

        told = self.embedders[name]
        body = {"input": [text], "model": told["model"], "dimensions": int(told["dimensions"]), "encoding_format": "base64"}
        headers = {"Authorization": f"Bearer {self.secrets[told['api-key-secret-ref']]}"} if "api-key-secret-ref" in told else {}
        packed = base64.b64decode(rows(asked(told["endpoint"], body, headers))[0])
        return list(struct.unpack(f"<{len(packed) // 4}f", packed))

    def handle(self, method: str, path: str, body: dict) -> object:
        if path.startswith("/document/"):
            key, text = path.rsplit("/", 1)[1], body["fields"]["text"]
            for field, (columns, embedder) in self.fields.items():
                vector = self.embed(embedder, text)
                if len(vector) != columns:
                    raise Refused(f"a vector of {len(vector)} columns for the field {field} of {columns}")
                self.vectors[field][key] = vector
                self.documents[key] = (text, vector)
            return {"id": f"id:docs:doc::{key}"}
        field, name = re.search(r"nearestNeighbor\((\w+), (\w+)\)", body["yql"]).groups()
        assert (name, body["ranking"]) == ("q", field), "the rank profile of another field"
        asks = body["input.query(q)"]
        if isinstance(asks, str):
            asks = self.embed(re.fullmatch(r"embed\(([\w-]+), @text\)", asks)[1], body["text"])
        self.documents = {key: (text, self.vectors[field][key]) for key, (text, _) in self.documents.items()}
        hits = [{"id": key, "relevance": score, "fields": {"text": text}} for key, text, score in self.found(asks)]
        return {"root": {"children": hits}}
