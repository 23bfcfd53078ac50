#!/usr/bin/env python3
"""Renders the chart with every Helm over every case, and validates the objects by Kubernetes'
schemas, the custom resources' schemas and the assertions.
`check.py HELM…`; with `--mutations` it breaks the chart on purpose instead."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import jsonschema
from kubernetes_validate import utils as kubernetes

from baseline import changed_for_ever
from cases import REFUSED, all_cases
from definitions import CHART
from registry import problems
from release import Release, masked

VERSIONS = ("1.32", "1.35", "1.37")
HERE = Path(__file__).parent
kubernetes.schema_contents = cache(kubernetes.schema_contents)


def helm(binary, action, values, chart=CHART):
    """Exit code, stdout and stderr of `helm lint` or `helm template`."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        # JSON: a text stays a text, also `y` and `on`.
        json.dump(values, file)
        file.flush()
        command = {
            "lint": [binary, "lint", "--strict", "--namespace", "ns", "-f", file.name, str(chart)],
            "template": [binary, "template", "rel", str(chart), "--namespace", "ns", "-f", file.name],
        }[action]
        # The user's plugins and repositories play no part.
        environment = {**os.environ, "HELM_CONFIG_HOME": "/nonexistent", "HELM_PLUGINS": "/nonexistent"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout, done.stderr


@cache
def custom_resources():
    return {tuple(path.stem.split("_", 1)): json.loads(path.read_text()) for path in (HERE / "schemas").glob("*.json")}


def against_schemas(text):
    """Errors that the schemas of Kubernetes and of the custom resources report on one object."""
    one = json.loads(text)
    what = f"{one['kind']} {one['metadata']['name']}"
    group = one["apiVersion"].rsplit("/", 1)[0]
    schema = custom_resources().get((one["kind"], group))
    if schema is not None:
        return [f"{what}: {'.'.join(map(str, error.path))}: {error.message}" for error in jsonschema.Draft7Validator(schema).iter_errors(one)]
    found = []
    for version in VERSIONS:
        try:
            kubernetes.validate(one, version, strict=True)
        except kubernetes.ValidationError as error:
            found.append(f"{what} in Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message}")
        except kubernetes.SchemaNotFoundError as error:
            found.append(f"{what}: {error.message}; write a schema in helm/tests/schemas")
    return found


def check_case(binaries, name, values):
    """Problems of a case, and its objects."""
    found, renders = [], []
    for binary in binaries:
        code, _, error = helm(binary, "lint", values)
        if code != 0:
            found.append(f"helm lint: {error.strip()}")
        code, text, error = helm(binary, "template", values)
        if code != 0:
            return [f"{name}: helm template: {error.strip()}"], []
        renders.append(text)
    for text in renders[1:]:
        if masked(text) != masked(renders[0]):
            found.append("the versions of Helm render different objects")
    release = Release(renders[0])
    found += problems(release)
    if name.startswith("baseline"):
        found += changed_for_ever(name.removeprefix("baseline "), release)
    return [f"{name}: {one}" for one in found], [json.dumps(one, sort_keys=True) for one in release.objects]


def refusals(binary):
    for name, (values, says) in REFUSED.items():
        code, _, error = helm(binary, "template", values)
        if code == 0:
            yield f"{name} is accepted"
        elif says not in error:
            yield f"{name} is refused without naming {says}: {error.strip()}"


def main():
    binaries = sys.argv[1:]
    cases = all_cases()
    found, objects = [], set()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for problems_of_case, objects_of_case in threads.map(lambda case: check_case(binaries, *case), cases.items()):
            found += problems_of_case
            objects.update(objects_of_case)
        for told in threads.map(lambda binary: list(refusals(binary)), binaries):
            found += told
    # The same object comes in many cases, and in each with other generated keys.
    distinct = {hashlib.sha256(masked_object(text).encode()).digest(): text for text in objects}
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for told in processes.map(against_schemas, distinct.values(), chunksize=16):
            found += told
    for one in found:
        print(one)
    if found:
        raise SystemExit(f"{len(found)} problems in {len(cases)} cases")
    print(
        f"{len(cases)} cases with {len(binaries)} versions of Helm, {len(distinct)} different objects valid for Kubernetes "
        f"{', '.join(VERSIONS)}, {len(REFUSED)} wrong values refused"
    )


def masked_object(text):
    one = json.loads(text)
    if one["kind"] == "Secret":
        one["data"] = sorted(one["data"])
    return json.dumps(one, sort_keys=True)


if __name__ == "__main__":
    main()
