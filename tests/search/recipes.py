"""The recipes of ../../examples/search against stand-ins of their engines and a real gateway. See tests/search/recipes."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import urllib.error
import urllib.request
from collections.abc import Callable

from engines import Elasticsearch, Engine, Milvus, OpenSearch, Refused, Solr, Vespa, Weaviate, cosine
from jsonschema import ValidationError

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "examples/search"
sys.path[:0] = [str(ROOT / "clients/conformance"), str(ROOT / "clients/python/src")]
from harness import generator  # noqa: E402
from harness.servers import ENCODERS, Isomer  # noqa: E402

DIMENSIONS = 32
DOCUMENT, QUERY = "The gardener watered the \"old\" roses\nin the evening.", "Who looked after the flowers in the garden?"
AUGMENT = ["paraphrase"]


def loaded(path: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, RECIPES / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


apply = loaded("apply.py")


class Gateway:
    """A real gateway that asks for keys, with an encoder that has prompts of its own, and a stub of a generator."""

    def __init__(self, isomer: str, folder: pathlib.Path):
        self.generator, url = generator.serve()
        stub = f'default_generator = "stub"\n[transform.generators.stub]\nmodel = "stub"\nurl = "{url}"\napi_key_env = ""\n'
        named = f'[augmented_models.tiny-gase]\nencoder = "tiny"\nprompt_name = "passage"\naugment = {{ transformations = {json.dumps(AUGMENT)}, mode = "always", missing_variants = "fail" }}\n'
        config = f'{ENCODERS}\n[access]\nmode = "required"\n[addresses]\nallow = ["127.0.0.1"]\n{named}[transform]\n{stub}'
        self.server = Isomer(isomer, folder, "gateway", config)
        self.key = self.server.key("engine", ["encode", "transform"])
        self.plain_key = self.server.key("plain engine", ["encode"])
        self.server.start()
        self.url = f"http://{self.server.address}"

    def vector(self, text: str, **fields: object) -> list[float]:
        body = json.dumps({"model": "tiny", "input": text, **fields}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.key}"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/v1/embeddings", body, headers), timeout=60) as answer:
            return json.load(answer)["data"][0]["embedding"]

    def stop(self) -> None:
        self.server.stop()


SCORES: dict[str, Callable[[object], float]] = {
    "hits.hits": lambda found: found[0]["_score"],
    "data.Get": lambda found: 1 - found["Docs"][0]["_additional"]["distance"],
    "data": lambda found: found[0]["distance"],
    "response.docs": lambda found: found[0]["score"],
    "root.children": lambda found: found[0]["relevance"],
}


def score(recipe: dict, engine: Engine, known: dict) -> tuple[float, dict]:
    """The similarity of the recipe's query and its document, as the engine reports it, with all other known values."""
    told: list[str] = []
    known = apply.run(recipe, engine.url, known, {}, told.append)
    return SCORES[recipe["requests"][-1]["show"]](json.loads(told[-1])), known


def queries(recipe: dict) -> dict:
    """Request for a single query."""
    last = recipe["requests"][-2:]
    return {**recipe, "requests": last if last[0].get("to") == "isomer" else last[1:]}


FAILED: list[str] = []


def row(engine: str, what: str, holds: bool, numbers: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {engine:14} {what:74} {numbers}", flush=True)
    if not holds:
        FAILED.append(what)


def near(a: float, b: float) -> bool:
    return abs(a - b) < 2e-6


def plain(gateway: Gateway, engine: Engine, name: str, known: dict, prompts: bool) -> None:
    recipe = apply.load(RECIPES / engine.name / f"{name}.json")
    found, _ = score(recipe, engine, {**known, "key": gateway.plain_key})
    purposes = ({"input_type": "document"}, {"input_type": "query"}) if prompts else ({}, {})
    due = cosine(gateway.vector(DOCUMENT, **purposes[0]), gateway.vector(QUERY, **purposes[1]))
    row(engine.name, f"{name}: document and query have their vectors{' and prompts' if prompts else ''}", near(found, due), f"{found:.6f} {due:.6f}")


def gase(gateway: Gateway, engine: Engine, name: str, known: dict) -> None:
    """Documents have their variants; a query has those that are cached: none at first, all of them after a warm-up."""
    recipe = apply.load(RECIPES / engine.name / f"{name}.json")
    query = f"{QUERY} ({engine.name} {name})"
    values = {**known, "key": gateway.key, "query": query, "document_prompt": "passage", "query_prompt": "query", "transformations": AUGMENT}
    values = {name: value for name, value in {**values, "documents_model": "tiny-gase"}.items() if name in recipe["needs"]}
    augmented = {"transformations": AUGMENT}
    document = gateway.vector(DOCUMENT, prompt_name="passage", augment=augmented)
    assert cosine(document, gateway.vector(DOCUMENT, prompt_name="passage")) < 0.9999, "the variants changed nothing"
    found, then = score(recipe, engine, values)
    due = cosine(document, gateway.vector(query, prompt_name="query"))
    row(engine.name, f"{name}: documents wait for variants, a new query is plain", near(found, due), f"{found:.6f} {due:.6f}")
    whole = gateway.vector(query, prompt_name="query", augment=augmented)
    found, _ = score(queries(recipe), engine, then)
    due = cosine(document, whole)
    row(engine.name, f"{name}: a query whose variants are cached has them", near(found, due), f"{found:.6f} {due:.6f}")


def values(gateway: Gateway) -> dict:
    return {"isomer": gateway.url, "model": "tiny", "dimensions": DIMENSIONS, "document": DOCUMENT, "query": QUERY, "private": True}


def of_needs(recipe: str, engine: str, known: dict) -> dict:
    needs = apply.load(RECIPES / engine / f"{recipe}.json")["needs"]
    return {name: value for name, value in known.items() if name in needs}


def recipes(gateway: Gateway, make: Callable[[], Engine], pairs: list[tuple[str, str]], prompts: bool) -> int:
    bodies = 0
    for without, augmented in pairs:
        for name in (without, augmented):
            engine = make()
            try:
                known = of_needs(name, engine.name, values(gateway))
                if name == without:
                    plain(gateway, engine, name, known, prompts)
                else:
                    gase(gateway, engine, name, known)
                bodies += engine.bodies
            finally:
                engine.stop()
    return bodies


def milvus_settings(gateway: Gateway) -> str:
    text = (RECIPES / "milvus/milvus.yaml").read_text()
    return text.replace("iso_…", gateway.key).replace("https://isomer.example", gateway.url)


def vespa(gateway: Gateway) -> Vespa:
    services = (RECIPES / "vespa/services.xml").read_text()
    services = services.replace("https://isomer.example", gateway.url).replace("all-MiniLM-L6-v2", "tiny").replace(">384<", f">{DIMENSIONS}<")
    schema = (RECIPES / "vespa/schemas/doc.sd").read_text().replace("[384]", f"[{DIMENSIONS}]")
    return Vespa(services, schema, {"isomer-key": gateway.key})


def pymilvus_check(gateway: Gateway) -> None:
    """Milvus' own client makes the collection's schema of the recipe's fields and function, and finds it sound."""
    from pymilvus import CollectionSchema, DataType, FieldSchema, Function, FunctionType

    types = {"Int64": DataType.INT64, "VarChar": DataType.VARCHAR, "FloatVector": DataType.FLOAT_VECTOR}
    for name in ("plain", "gase"):
        recipe = apply.load(RECIPES / f"milvus/{name}.json")
        body = apply.filled(recipe["requests"][0]["body"], {**recipe["defaults"], **values(gateway), "documents_model": "tiny-gase"})
        told = body["schema"]
        fields = [FieldSchema(one["fieldName"], types[one["dataType"]], is_primary=one.get("isPrimary", False), **one.get("elementTypeParams", {})) for one in told["fields"]]
        functions = [Function(one["name"], FunctionType.TEXTEMBEDDING, one["inputFieldNames"], one["outputFieldNames"], params=one["params"]) for one in told["functions"]]
        CollectionSchema(fields, functions=functions).verify()
        row("milvus", f"{name}: pymilvus finds the schema and its function sound", True)
    functions[0].output_field_names[0] = "text"
    try:
        CollectionSchema(fields, functions=functions).verify()
    except Exception as error:  # noqa: BLE001
        row("milvus", "pymilvus finds a function into its own input", True, type(error).__name__)
    else:
        row("milvus", "pymilvus finds a function into its own input", False)


def redis_script(gateway: Gateway, folder: pathlib.Path) -> None:
    """redis/vectors.py, against REDIS_URL where that is set, else against fakeredis, which has vector sets of its own."""
    url, what = os.environ.get("REDIS_URL"), "Redis of REDIS_URL"
    if not url:
        from fakeredis import TcpFakeServer

        TcpFakeServer.allow_reuse_address = True
        server = TcpFakeServer(("127.0.0.1", 0), server_type="redis", server_version=(8, 0))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url, what = f"redis://127.0.0.1:{server.server_address[1]}", "fakeredis"
    texts = {f"d{n}": text for n, text in enumerate([DOCUMENT, "Our train to Lisbon was cancelled.", "She plays the cello."])}
    file = folder / "docs.jsonl"
    file.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()))

    def command(*arguments: str, code: int = 0) -> str:
        line = [sys.executable, str(RECIPES / "redis/vectors.py"), *arguments, "--isomer", gateway.url, "--model", "tiny"]
        done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "REDIS_URL": url, "ISOMER_API_KEY": gateway.key}, timeout=120)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def ranked(query: list[float], vectors: dict[str, list[float]]) -> list[str]:
        return sorted(vectors, key=lambda key: -cosine(query, vectors[key]))

    def keys(printed: str) -> list[str]:
        return [line.split()[1] for line in printed.splitlines() if line[:1].isdigit()]

    def similarity(printed: str) -> float:
        # Redis reports (1 + cosine) / 2.
        return 2 * float(printed.split()[0]) - 1

    command("load", str(file), "--set", "plain")
    printed = command("find", QUERY, "--set", "plain")
    vectors, query = {key: gateway.vector(text, input_type="document") for key, text in texts.items()}, gateway.vector(QUERY, input_type="query")
    order = ranked(query, vectors)
    due = cosine(query, vectors[order[0]])
    row("redis", f"plain: {what} ranks as the vectors do", keys(printed) == order and abs(similarity(printed) - due) < 2e-4, f"{similarity(printed):.4f} {due:.4f}")
    gase = ["--set", "gase", "--augment", ",".join(AUGMENT), "--document-prompt", "passage", "--query-prompt", "query"]
    command("load", str(file), *gase)
    augmented = {"transformations": AUGMENT}
    vectors = {key: gateway.vector(text, prompt_name="passage", augment=augmented) for key, text in texts.items()}
    asked = f"{QUERY} (redis)"
    for state, query in (("a new query is plain", gateway.vector(asked, prompt_name="query")), ("a query whose variants are cached has them", None)):
        query = query or gateway.vector(asked, prompt_name="query", augment=augmented)
        printed, order = command("find", asked, *gase), ranked(query, vectors)
        due = cosine(query, vectors[order[0]])
        row("redis", f"gase: {state}", keys(printed) == order and abs(similarity(printed) - due) < 2e-4, f"{similarity(printed):.4f} {due:.4f}")
    refused = command("load", str(file), "--set", "plain", "--augment", "paraphrase", code=1)
    row("redis", "vectors of another space are refused", "of the space" in refused)


def twins(gateway: Gateway) -> None:
    """The checks find faults: their greens say something."""
    recipe = json.dumps(apply.load(RECIPES / "opensearch/plain.json"))
    for what, wrong, right in (
        ("a misspelt name of a connector", '"request_body"', '"request_bodies"'),
        ("a template that is no JSON", "${parameters.input}", "${parameters.model}"),
        ("a request to another address than the trusted one", "{{isomer:regex}}", "https://other.example"),
        ("an index of another number of columns", '"dimension": "{{dimensions}}"', '"dimension": 31'),
    ):
        engine = OpenSearch()
        assert wrong in recipe
        try:
            score(json.loads(recipe.replace(wrong, right)), engine, {**of_needs("plain", "opensearch", values(gateway)), "key": gateway.plain_key})
        except apply.Fault as fault:
            row("opensearch", f"refused: {what}", True, str(fault)[:60].replace("\n", " "))
        else:
            row("opensearch", f"refused: {what}", False)
        finally:
            engine.stop()
    engine = Elasticsearch()
    try:
        score(apply.load(RECIPES / "elasticsearch/gase.json"), engine, {"isomer": gateway.url, "model": "tiny", "key": gateway.plain_key})
    except apply.Fault as fault:
        row("elasticsearch", "refused: augmented vectors for a key without the scope transform", "403" in str(fault), str(fault)[:60])
    else:
        row("elasticsearch", "refused: augmented vectors for a key without the scope transform", False)
    finally:
        engine.stop()
    services = (RECIPES / "vespa/services.xml").read_text().replace("<dimensions>384</dimensions>", "", 1)
    try:
        Vespa(services, (RECIPES / "vespa/schemas/doc.sd").read_text(), {})
    except (Refused, ValidationError) as error:
        row("vespa", "refused: an embedder without dimensions", "elements" in str(error))
    else:
        row("vespa", "refused: an embedder without dimensions", False)


def complete() -> None:
    """Each folder of the examples is checked here."""
    engines = sorted(path.name for path in RECIPES.iterdir() if path.is_dir() and path.name != "__pycache__")
    assert engines == ["elasticsearch", "milvus", "opensearch", "redis", "solr", "vespa", "weaviate"], engines


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    given = parser.parse_args()
    complete()
    with tempfile.TemporaryDirectory(prefix="isomer-recipes-") as name:
        folder = pathlib.Path(name)
        gateway = Gateway(given.isomer, folder)
        try:
            bodies = recipes(gateway, OpenSearch, [("plain", "gase")], True)
            bodies += recipes(gateway, Elasticsearch, [("plain", "gase"), ("pipeline-plain", "pipeline-gase")], True)
            bodies += recipes(gateway, Weaviate, [("plain", "gase")], False)
            bodies += recipes(gateway, lambda: Milvus(milvus_settings(gateway)), [("plain", "gase")], False)
            bodies += recipes(gateway, Solr, [("plain", "gase")], False)
            bodies += recipes(gateway, lambda: vespa(gateway), [("plain", "gase")], False)
            pymilvus_check(gateway)
            redis_script(gateway, folder)
            twins(gateway)
        finally:
            gateway.stop()
    print(f"{bodies} bodies against the published shapes; {f'{len(FAILED)} failed' if FAILED else 'all hold'}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
