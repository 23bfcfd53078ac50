"""The GitLab template: its script, run as GitLab runs it."""

from __future__ import annotations

import os
import pathlib
from typing import Callable, Dict

import pipelines
import pytest
import samples
from forge import Forge
from pipelines import Ran
from samples import MISSING, ROBUST, RULE, SUITE, UNCERTAIN, WORSE

TEMPLATE = samples.CI / "gitlab/check.yml"
Use = Callable[..., Ran]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, requirements: str, on_path: str, repository: pathlib.Path) -> "tuple[Ran, pathlib.Path]":
    folder = tmp_path_factory.mktemp("gitlab")
    variables = {"CHECK_MODEL": ROBUST, "CHECK_SUITE": SUITE, "CHECK_RULES": RULE, "CHECK_REQUIREMENTS": requirements, "CHECK_SOURCE": repository.as_uri()}
    return pipelines.run(TEMPLATE, variables, folder, environment=surroundings(on_path)), folder


def surroundings(path: str) -> Dict[str, str]:
    return {"PATH": path, "ISOMER_OFFLINE": "1"}


@pytest.fixture
def use(installed: "tuple[Ran, pathlib.Path]", tmp_path: pathlib.Path, on_path: str) -> Use:
    (tmp_path / "project/.isomer").mkdir(parents=True)
    for name in ("environment", "source"):
        (tmp_path / "project/.isomer" / name).symlink_to(installed[1] / "project/.isomer" / name)

    def used(environment: "Dict[str, str] | None" = None, **variables: str) -> Ran:
        given = {"CHECK_MODEL": ROBUST, "CHECK_SUITE": SUITE, "CHECK_RULES": RULE, **variables}
        return pipelines.run(TEMPLATE, given, tmp_path, environment={**surroundings(on_path), **(environment or {})}, skip=("git ", "ci/install", "ci/texts"))

    return used


def test_a_robust_model_passes(installed: "tuple[Ran, pathlib.Path]") -> None:
    ran, _ = installed
    assert ran.code == 0, ran.log
    assert ran.dotenv == {"CHECK_VERDICT": "pass", "CHECK_EXIT_CODE": "0", "CHECK_REPORT": "isomer-report"}
    assert ran.artifacts == ["isomer-report/junit.xml", "isomer-report/report.html", "isomer-report/report.json", "isomer-report/report.md"] and ran.junit


@pytest.mark.parametrize(
    ("variables", "verdict", "code"),
    [
        ({"CHECK_MODEL": WORSE}, "fail", 1),
        ({"CHECK_MODEL": UNCERTAIN}, "undecided", 4),
        ({"CHECK_MODEL": UNCERTAIN, "CHECK_UNDECIDED": "warn"}, "undecided", 0),
        ({"CHECK_RULES": ""}, "none", 2),
    ],
)
def test_a_gate_ends_the_job_as_it_says(use: Use, variables: Dict[str, str], verdict: str, code: int) -> None:
    ran = use(**variables)
    assert (ran.code, ran.dotenv["CHECK_VERDICT"], ran.junit) == (code, verdict, True), ran.log


def test_a_check_that_cannot_be_made_fails_without_the_report_of_another(use: Use) -> None:
    assert use().code == 0
    ran = use(CHECK_MODEL=MISSING)
    assert (ran.code, ran.dotenv, ran.artifacts) == (2, {"CHECK_VERDICT": "error", "CHECK_EXIT_CODE": "2", "CHECK_REPORT": ""}, [])


@pytest.mark.parametrize("value", ["$(touch pwned)`touch pwned`", "\"; touch pwned; ';touch pwned;", "x\ntouch pwned", "${IFS}; touch pwned"])
def test_what_stands_in_a_variable_is_never_run(use: Use, tmp_path: pathlib.Path, value: str) -> None:
    ran = use(CHECK_MODEL=value, CHECK_BASELINE=value)
    assert not list(tmp_path.rglob("*pwned*")) and ran.code != 0 and ran.dotenv["CHECK_VERDICT"] == "error", ran.log


def test_a_checkout_is_enough_and_the_next_job_finds_command_and_texts(
    tmp_path: pathlib.Path, repository: pathlib.Path, checkout_only: Dict[str, str], generator: "tuple[str, list[str]]"
) -> None:
    spec, calls = generator
    variables = {
        **{"CHECK_MODEL": ROBUST, "CHECK_SUITE": SUITE, "CHECK_SOURCE": repository.as_uri()},
        **{"CHECK_GENERATOR": spec, "CHECK_TRANSFORMATIONS": "paraphrase", "CHECK_LIMIT": "8"},
    }
    first = pipelines.run(TEMPLATE, variables, tmp_path / "first", environment=checkout_only, caches=tmp_path / "caches")
    assert (first.code, first.dotenv["CHECK_VERDICT"]) == (2, "none"), first.log
    assert "compiling the command" in first.log and len(calls) > 0
    calls.clear()
    second = pipelines.run(TEMPLATE, variables, tmp_path / "second", environment=checkout_only, caches=tmp_path / "caches")
    assert (second.code, calls) == (2, []), second.log
    assert "compiling the command" not in second.log and "warning" not in first.log + second.log


def test_the_harness_notices_a_script_that_runs_its_variables(tmp_path: pathlib.Path) -> None:
    template = tmp_path / "open.yml"
    text = TEMPLATE.read_text(encoding="utf-8")
    start, end = text.index("  script:"), text.index("  artifacts:")
    template.write_text(text[:start] + "  script:\n    - eval echo $CHECK_MODEL\n" + text[end:], encoding="utf-8")
    pipelines.run(template, {"CHECK_MODEL": "$(touch pwned)"}, tmp_path)
    assert (tmp_path / "project/pwned").exists()


def test_the_report_is_one_note_of_the_merge_request(use: Use, forge: Forge) -> None:
    merge_request = {"CI_API_V4_URL": forge.url, "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7", "CI_JOB_NAME": "robust"}
    for _ in range(2):
        assert use(merge_request, CHECK_MODEL=WORSE, CHECK_COMMENT="true", CHECK_TOKEN="secret").code == 1
        assert len(forge.comments) == 1 and "## Verdict: fail" in forge.comments[0]["body"]
    assert forge.calls[-1][0] == "PUT" and forge.calls[-1][2]["private-token"] == "secret"
    assert "there is no token" in use(merge_request, CHECK_COMMENT="true").log
