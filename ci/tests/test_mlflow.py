"""The parts of the evaluator that need no MLflow. With it: tests/registry/run."""

from __future__ import annotations

import pathlib

import pytest
from samples import ROOT

from isomer_check import Checked, UsageError, read_report
from isomer_check.mlflow_evaluator import IsomerEvaluator, located, metrics

REPORT = ROOT / "eval-svc/fixtures/report/report.json"


def files(root: pathlib.Path, *names: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")


def test_numbers_have_plain_names_and_lie_within_their_intervals() -> None:
    report = read_report(REPORT.read_bytes())
    numbers = metrics(Checked(report, 0, {}))
    assert numbers["isomer.passed"] == float(report.gate is not None and report.gate.verdict.value == "pass")
    pairs = [name for name in numbers if f"{name}.low" in numbers and f"{name}.high" in numbers]
    assert pairs
    for name in pairs:
        assert numbers[f"{name}.low"] <= numbers[f"{name}.high"], name
    assert all(name.startswith("isomer.") and "(" not in name and " " not in name for name in numbers)


def test_the_encoder_of_a_model_is_found_wherever_it_lies(tmp_path: pathlib.Path) -> None:
    files(tmp_path, "MLmodel", "python_model.pkl", "artifacts/enc/modules.json", "artifacts/enc/0/config.json", "artifacts/enc/0/model.safetensors")
    assert located(tmp_path, "uri") == tmp_path / "artifacts/enc"


def test_a_model_without_an_encoder_or_with_two_is_refused(tmp_path: pathlib.Path) -> None:
    files(tmp_path, "MLmodel", "python_model.pkl", "config.json")
    with pytest.raises(UsageError, match="never loaded"):
        located(tmp_path, "uri")
    files(tmp_path, "a/modules.json", "b/modules.json")
    with pytest.raises(UsageError, match="2 encoders"):
        located(tmp_path, "uri")


def test_a_misspelt_setting_is_named() -> None:
    with pytest.raises(UsageError, match="unknown setting rule;"):
        IsomerEvaluator().evaluate(run_id="", evaluator_config={"rule": []})
