"""The recipes of ../../examples/registries: every body of a request against the published schema of its service, and what is written of a
version. No service is called. Usage: recipes.py, with jsonschema (which moto's server brings)."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import string
import types

from jsonschema import Draft202012Validator, ValidationError

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES, SCHEMAS = ROOT / "examples/registries", ROOT / "tests/registry/schemas"
REPORT = str(ROOT / "eval-svc/fixtures/report/report.json")
# Encoders of that report.
PASSED, FAILED = "paraphrase-MiniLM-L3-v2", "all-mpnet-base-v2"


def loaded(path: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), RECIPES / f"{path}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def valid(schema: dict, body: object) -> None:
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(body)


def refused(schema: dict, body: object) -> None:
    """The schema finds faults."""
    try:
        valid(schema, body)
    except ValidationError:
        return
    raise AssertionError(f"a faulty body is valid: {body}")


def schema(name: str) -> dict:
    return json.loads((SCHEMAS / f"{name}.json").read_text())


def report() -> tuple[dict, dict]:
    facts = loaded("report").facts
    try:
        facts(REPORT)
    except SystemExit as error:
        assert "judges 4 encoders" in str(error), error
    else:
        raise AssertionError("one of several encoders was taken")
    passed, failed = facts(REPORT, PASSED), facts(REPORT, FAILED)
    assert (passed["verdict"], failed["verdict"]) == ("pass", "fail")
    assert re.fullmatch(r"[0-9a-f]{64}", passed["weights_sha256"]) and passed["weights_sha256"] != failed["weights_sha256"]
    return passed, failed


def kubeflow(passed: dict, _failed: dict) -> int:
    known = {"team": {"metadataType": "MetadataStringValue", "string_value": "search"}}
    body = loaded("kubeflow/verdict").body(known, passed)
    valid(schema("kubeflow"), body)
    assert body["customProperties"]["team"] == known["team"]
    assert body["customProperties"]["isomer.verdict"]["string_value"] == "pass"
    refused(schema("kubeflow"), {"customProperties": {"isomer.verdict": {"string_value": "pass"}}})
    return 1


def vertex(passed: dict, failed: dict) -> int:
    recipe, both = loaded("vertex/verdict"), schema("vertex")
    for told in (passed, failed):
        body = recipe.labels({"team": "search"}, told)
        valid(both["labels"], body)
        assert body["labels"]["team"] == "search" and body["labels"]["isomer-verdict"] == told["verdict"]
        valid(both["aliases"], recipe.aliases(told))
    assert recipe.aliases(passed) == {"versionAliases": ["isomer-passed"]}
    assert recipe.aliases(failed) == {"versionAliases": ["-isomer-passed"]}
    refused(both["labels"], {"labels": {"isomer-suite": "Quick 1.0"}})
    refused(both["aliases"], {"versionAliases": ["Isomer.passed"]})
    return 4


def azure(passed: dict, _failed: dict) -> int:
    recipe = loaded("azure/registered")
    event = {"id": "1", "source": "/subscriptions/s", "specversion": "1.0", "type": recipe.REGISTERED}
    for data in ({"ModelName": "enc", "ModelVersion": 20, "ModelTags": {}}, {"modelName": "enc", "modelVersion": 20}):
        valid(schema("azure"), {**event, "data": data})
        assert recipe.registered({**event, "data": data}) == ("enc", "20")
    assert recipe.registered({**event, "type": "Microsoft.MachineLearningServices.RunCompleted", "data": {}}) is None
    assert recipe.registered({"eventType": recipe.REGISTERED, "data": {"ModelName": "enc", "ModelVersion": 1}}) == ("enc", "1")
    refused(schema("azure"), {**event, "data": {"name": "enc"}})
    assert "tags.isomer_verdict=pass" in recipe.tags(passed)
    return 2


def wandb(passed: dict, failed: dict) -> int:
    template = (RECIPES / "wandb/webhook.json").read_text()
    given = {"artifact_version_string": "e/p/enc:v3", "artifact_collection_name": "enc", "entity_name": "e", "project_name": "p",
             "event_author": "ann"}
    body = json.loads(string.Template(template).substitute(given))
    valid(schema("github"), body)
    assert body["client_payload"]["artifact"] == "e/p/enc:v3"
    refused(schema("github"), {"client_payload": {}})
    workflow = (RECIPES / "wandb/workflow.yml").read_text()
    assert f"types: [{body['event_type']}]" in workflow and "verdict.py" in workflow
    assert not re.search(r"run:.*\$\{\{", workflow), "a payload within a command"
    artifact = types.SimpleNamespace(metadata={"team": "search"}, aliases=["latest", "isomer-passed"], save=lambda: None)
    loaded("wandb/verdict").write(artifact, failed)
    assert artifact.aliases == ["latest"] and artifact.metadata["isomer.verdict"] == "fail"
    loaded("wandb/verdict").write(artifact, passed)
    assert artifact.aliases == ["latest", "isomer-passed"] and artifact.metadata["team"] == "search"
    return 1


def main() -> None:
    told = report()
    recipes = [kubeflow, vertex, azure, wandb]
    assert sorted(one.__name__ for one in recipes) == sorted(path.name for path in RECIPES.iterdir() if path.is_dir() and path.name != "__pycache__")
    bodies = sum(recipe(*told) for recipe in recipes)
    print(f"recipes: {bodies} bodies of {len(recipes)} services against their published schemas")


main()
