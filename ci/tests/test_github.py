"""The GitHub Action: its steps, run as GitHub runs them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
from typing import Any, Callable, Dict, List

import actions
import pytest
import samples
from actions import TOKEN, Ran
from forge import Forge
from samples import MISSING, ROBUST, RULE, STRICT, SUITE, UNCERTAIN, WORSE

ACTION = samples.CI / "github"
Use = Callable[..., Ran]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, requirements: str, on_path: str) -> Ran:
    """A job with every step; the others of this module take what it has installed."""
    folder = tmp_path_factory.mktemp("job")
    inputs = {"model": ROBUST, "suite": SUITE, "rules": RULE, "requirements": requirements}
    ran = actions.run(ACTION, inputs, folder, environment={"PATH": on_path, **surroundings()})
    ran.outputs["folder"] = str(folder)
    return ran


def surroundings() -> Dict[str, str]:
    return {name: os.environ[name] for name in ("ISOMER_HOME", "ISOMER_OFFLINE")}


@pytest.fixture
def use(installed: Ran, tmp_path: pathlib.Path, on_path: str) -> Use:
    (tmp_path / "temp").mkdir()
    (tmp_path / "temp/isomer-check").symlink_to(pathlib.Path(installed.outputs["folder"]) / "temp/isomer-check")

    def used(environment: "Dict[str, str] | None" = None, action: pathlib.Path = ACTION, **inputs: str) -> Ran:
        given = {"model": ROBUST, "suite": SUITE, "rules": RULE, **{name.replace("_", "-"): value for name, value in inputs.items()}}
        given.setdefault("cache", "")
        return actions.run(action, given, tmp_path, environment={"PATH": on_path, **surroundings(), **(environment or {})}, skip=["install"])

    return used


def test_a_robust_model_passes_and_the_whole_job_does_what_it_says(installed: Ran) -> None:
    assert not installed.failed, installed.log
    assert installed.steps == {"install": 0, "check": 0, "export": 0}
    assert {name: installed.outputs[name] for name in ("verdict", "report", "exit-code")} == {"verdict": "pass", "report": "isomer-report", "exit-code": "0"}
    assert installed.uploads == {"isomer-report": ["isomer-report/junit.xml", "isomer-report/report.html", "isomer-report/report.json", "isomer-report/report.md"]}
    report = pathlib.Path(installed.outputs["folder"]) / "workspace/isomer-report/report.md"
    assert installed.summary == report.read_text(encoding="utf-8") and "## Verdict: pass" in installed.summary
    assert installed.commands() == []


def test_a_checkout_is_enough_and_the_next_job_finds_command_and_texts(
    tmp_path: pathlib.Path, repository: pathlib.Path, checkout_only: Dict[str, str], generator: "tuple[str, list[str]]"
) -> None:
    spec, calls = generator
    inputs = {"model": ROBUST, "suite": SUITE, "generator": spec, "transformations": "paraphrase", "limit": "8"}

    def job(name: str) -> Ran:
        return actions.run(repository / "ci/github", inputs, tmp_path / name, environment=checkout_only, caches=tmp_path / "caches")

    first = job("first")
    assert first.outputs["verdict"] == "none" and first.steps == {"install": 0, "check": 2, "export": 0}, first.log
    assert "compiling the command" in first.log and len(calls) > 0
    calls.clear()
    second = job("second")
    assert (second.outputs["verdict"], calls) == ("none", []), second.log
    assert "compiling the command" not in second.log and "warning" not in first.log + second.log


@pytest.mark.parametrize(
    ("inputs", "verdict", "code", "told"),
    [
        ({"model": WORSE}, "fail", 1, "breaks"),
        ({"model": UNCERTAIN}, "undecided", 4, "undecided"),
        ({"model": UNCERTAIN, "undecided": "fail"}, "undecided", 1, "undecided"),
        ({"model": WORSE, "rules": STRICT}, "invalid", 4, "invalid"),
        ({"model": f"{ROBUST}\n{WORSE}"}, "fail", 1, "breaks"),
        ({"rules": ""}, "none", 2, "no rule judged any encoder"),
    ],
)
def test_a_gate_that_does_not_pass_fails_the_job_and_leaves_its_report(use: Use, inputs: Dict[str, str], verdict: str, code: int, told: str) -> None:
    ran = use(**inputs)
    assert ran.failed and ran.steps == {"check": code}
    assert ran.outputs == {"verdict": verdict, "report": "isomer-report", "exit-code": str(code)}
    assert "isomer-report/report.html" in ran.uploads["isomer-report"] and "# Robustness profile: words" in ran.summary
    (error,) = ran.commands()
    assert error[0] == "error" and told in error[1]


def test_undecided_passes_only_where_it_is_told_to(use: Use) -> None:
    ran = use(model=UNCERTAIN, undecided="warn")
    assert not ran.failed and ran.outputs["verdict"] == "undecided" and "warning: an undecided gate blocks nothing here" in ran.log


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"model": MISSING}, 2),
        ({"model": " \n"}, 2),
        ({"rules": "nonsense"}, 2),
        ({"limit": "-5"}, 2),
        ({"limit": "many"}, 2),
        ({"comment": "perhaps"}, 2),
        ({"suite-rules": "no"}, 2),
        ({"server": "127.0.0.1:9", "api-key": "iso_x"}, 3),
    ],
)
def test_a_check_that_cannot_be_made_fails_the_job_without_the_report_of_another(
    use: Use, installed: Ran, tmp_path: pathlib.Path, inputs: Dict[str, str], code: int
) -> None:
    shutil.copytree(pathlib.Path(installed.outputs["folder"]) / "workspace", tmp_path / "workspace")
    ran = use(**inputs)
    assert ran.failed and ran.steps == {"check": code}, ran.log
    assert ran.outputs == {"verdict": "error", "report": "", "exit-code": str(code)}
    assert ran.uploads == {} and not any((tmp_path / "workspace/isomer-report").iterdir()) and "says neither pass nor fail" in ran.summary


def test_a_gateway_checks_without_the_command(use: Use, gateway: str) -> None:
    without = {"PATH": os.environ["PATH"], "ISOMER_SERVER": "127.0.0.1:9"}
    assert use(without, model="mpnet", server=gateway).outputs["verdict"] == "pass"
    ran = use(without, model="word_embeddings", server=gateway)
    assert ran.failed and ran.outputs["verdict"] == "fail"


HOSTILE = [
    "$(touch pwned)`touch pwned`",
    "\"; touch pwned; '; touch pwned; ",
    "x\ntouch pwned\n$(touch pwned)",
    "&& touch pwned",
    "${{ github.token }}",
    "::error::forged",
    "x\n::add-mask::isomer",
    "--server=127.0.0.1:9",
    "%0A::warning::forged",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_stands_in_an_input_is_never_run(use: Use, tmp_path: pathlib.Path, value: str) -> None:
    hidden(use(model=value, baseline=value), tmp_path)


@pytest.mark.parametrize("name", ["suite", "rules", "undecided", "generator", "transformations", "limit", "server", "out", "suite-rules"])
def test_nor_in_any_other(use: Use, tmp_path: pathlib.Path, name: str) -> None:
    hidden(use(**{name: "$(touch pwned)\n::error::forged\n`touch pwned`"}), tmp_path)


def hidden(ran: Ran, folder: pathlib.Path) -> None:
    assert ran.failed and ran.outputs["verdict"] == "error", ran.log
    assert not list(folder.rglob("*pwned*"))
    assert TOKEN not in ran.log + ran.summary
    (error,) = ran.commands()
    assert error[0] == "error" and error[1].startswith("error: "), ran.commands()


def test_the_harness_notices_an_action_that_runs_its_inputs(tmp_path: pathlib.Path) -> None:
    """The same values in an action that puts them into its script: else the test before would show nothing."""
    action = tmp_path / "open"
    action.mkdir()
    text = (ACTION / "action.yml").read_text(encoding="utf-8")
    opened = text[: text.index("  steps:")] + "  steps:\n    - name: check\n      id: check\n      shell: bash\n      run: echo ${{ inputs.model }}\n"
    (action / "action.yml").write_text(opened, encoding="utf-8")
    hit: List[str] = []
    for at, value in enumerate(HOSTILE):
        folder = tmp_path / str(at)
        ran = actions.run(action, {"model": value}, folder)
        if (folder / "workspace/pwned").exists() or ran.commands():
            hit.append(value)
    assert len(hit) >= 4, hit


def test_no_expression_stands_in_a_script() -> None:
    described: Any = actions.read_yaml(ACTION / "action.yml")
    scripts = [step["run"] for step in described["runs"]["steps"] if "run" in step]
    assert len(scripts) == 3 and not any("${{" in script for script in scripts)


def test_modules_of_the_checked_repository_are_not_loaded(use: Use, tmp_path: pathlib.Path) -> None:
    (tmp_path / "workspace/isomer_check").mkdir(parents=True)
    (tmp_path / "workspace/isomer_check/__init__.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    (tmp_path / "workspace/isomer_check/ci.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    (tmp_path / "workspace/sitecustomize.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    ran = use({"PYTHONPATH": str(tmp_path / "workspace")}, model=WORSE)
    assert ran.failed and ran.outputs["verdict"] == "fail"


@pytest.fixture
def pull_request(forge: Forge, tmp_path: pathlib.Path) -> Dict[str, str]:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}), encoding="utf-8")
    return {"GITHUB_API_URL": forge.url, "GITHUB_REPOSITORY": "team/models", "GITHUB_EVENT_PATH": str(event), "GITHUB_WORKFLOW": "ci", "GITHUB_JOB": "robust"}


def test_the_report_is_one_comment_that_is_written_anew(use: Use, forge: Forge, pull_request: Dict[str, str]) -> None:
    forge.comments += [{"id": at, "body": f"<!-- isomer-check of another {at} -->"} for at in range(120)]
    failed = use(pull_request, model=WORSE, comment="true")
    assert failed.steps == {"check": 1} and len(forge.comments) == 121
    first = forge.comments[-1]["body"]
    assert first.partition("\n")[2] == failed.summary and re.match(r"<!-- isomer-check [0-9a-f]{16} -->\n# Robustness profile", first)
    assert {call[2]["authorization"] for call in forge.calls} == {f"Bearer {TOKEN}"}
    again = use(pull_request, model=WORSE, comment="true")
    assert again.failed and len(forge.comments) == 121 and forge.calls[-1][:2] == ("PATCH", "/repos/team/models/issues/comments/1120")
    use(pull_request, model=ROBUST, comment="true")
    assert len(forge.comments) == 122


@pytest.mark.parametrize(("status", "model", "code"), [(403, ROBUST, 0), (302, WORSE, 1), (500, ROBUST, 0)])
def test_a_comment_that_cannot_be_made_changes_no_verdict(
    use: Use, forge: Forge, pull_request: Dict[str, str], status: int, model: str, code: int
) -> None:
    forge.status = status
    ran = use(pull_request, model=model, comment="true")
    assert ran.steps == {"check": code} and "warning: no comment was made" in ran.log and TOKEN not in ran.log
    # A redirect is not followed: it would take the token along.
    assert not any(path == "/elsewhere" for _, path, _ in forge.calls)


def test_outside_of_a_pull_request_nothing_is_called(use: Use, forge: Forge) -> None:
    ran = use({"GITHUB_API_URL": forge.url}, comment="true")
    assert not ran.failed and "this is no job of a pull request" in ran.log and forge.calls == []
