"""Isomer as an evaluator of MLflow: `mlflow.models.evaluate(..., evaluators="isomer")`.

MLflow finds it by the entry point `mlflow.model_evaluator` of this package. It is not imported otherwise, and MLflow is
no dependency.
"""

from __future__ import annotations

import importlib
import math
import pathlib
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from .checking import Checked, check
from .errors import UsageError
from .local import FILES
from .report import EncoderProfile, GateVerdict, Moved, Report

PREFIX = "isomer."
# The arguments of `check` that a configuration of the evaluator may have, and `encoder` besides.
SETTINGS = (
    "suite", "rules", "suite_rules", "baseline", "undecided", "generator", "transformations", "seeds", "limit", "server", "binary",
)
FLAVOUR_FOLDERS = ("model.sentence_transformer",)


class IsomerEvaluator:
    """MLflow's evaluator for `evaluators="isomer"`."""

    # MLflow asks for these two methods alone; not subclassed, so that this module is typed without
    # it.

    @classmethod
    def can_evaluate(cls, *, model_type: Optional[str] = None, evaluator_config: Optional[Mapping[str, Any]] = None, **_: Any) -> bool:
        """Any type of model: what is evaluated is the encoder that it carries, or that the configuration names."""
        return True

    def evaluate(
        self,
        *,
        run_id: str,
        evaluator_config: Optional[Mapping[str, Any]] = None,
        model: Any = None,
        model_id: Optional[str] = None,
        **_: Any,
    ) -> Any:
        """Checks an encoder, and logs numbers, tags and the report to the run.

        The data set of `mlflow.models.evaluate` is not looked at: a suite has its own. The configuration has the arguments of
        `isomer_check.check`, and `encoder`: an id or a folder, in place of the one that the model carries.
        """
        config = dict(evaluator_config or {})
        # MLflow adds settings of its own.
        unknown = sorted(name for name in config if name not in (*SETTINGS, "encoder") and not name.startswith("_"))
        if unknown:
            raise UsageError(f"evaluator_config: unknown setting {', '.join(unknown)}; known are encoder, {', '.join(SETTINGS)}")
        encoder = config.pop("encoder", None)
        arguments = {name: value for name, value in config.items() if name in SETTINGS}
        with tempfile.TemporaryDirectory(prefix="isomer-") as folder:
            chosen = encoder if encoder is not None else fetched(model, model_id, pathlib.Path(folder))
            checked = check(chosen, gate=False, **arguments)
        return logged(checked, run_id, model_id)


def fetched(model: Any, model_id: Optional[str], to: pathlib.Path) -> pathlib.Path:
    """The folder of the encoder that a model of MLflow carries. It is not loaded: no pickle is opened."""
    metadata = getattr(model, "metadata", None)
    model_id = model_id or getattr(metadata, "model_id", None)
    run, path = getattr(metadata, "run_id", None), getattr(metadata, "artifact_path", None)
    if model_id:
        uri = f"models:/{model_id}"
    elif run and path:
        uri = f"runs:/{run}/{path}"
    else:
        raise UsageError("evaluator_config: there is no model to take the encoder from; name a folder or an id as `encoder`")
    local = importlib.import_module("mlflow.artifacts").download_artifacts(artifact_uri=uri, dst_path=str(to))
    return located(pathlib.Path(local), uri)


def located(root: pathlib.Path, uri: str) -> pathlib.Path:
    """The one encoder below a folder, as `isomer registry` finds it."""
    for name in FLAVOUR_FOLDERS:
        if (root / name / "modules.json").is_file():
            return root / name
    found = sorted(file.parent for file in root.rglob("modules.json"))
    if not found:
        found = sorted(file.parent for file in root.rglob("config.json") if any(file.parent.glob("*.safetensors")))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            f"{uri} carries no sentence-transformers or Hugging Face folder with weights as safetensors; pickles are never loaded. "
            "Name a folder or an id as `encoder` in evaluator_config"
        )
    names = ", ".join(str(folder.relative_to(root)) for folder in found)
    raise UsageError(f"{uri} carries {len(found)} encoders ({names}): name one as `encoder` in evaluator_config")


def logged(checked: Checked, run_id: str, model_id: Optional[str]) -> Any:
    """Writes a check into a run, and returns it as MLflow's EvaluationResult."""
    mlflow = importlib.import_module("mlflow")
    base = importlib.import_module("mlflow.models.evaluation")
    entities = importlib.import_module("mlflow.entities")
    artifacts = importlib.import_module("mlflow.models.evaluation.artifacts")
    client = mlflow.MlflowClient()
    report = checked.report
    time = int(report.run.finished.timestamp() * 1000)
    numbers = metrics(checked)
    of_model = {"model_id": model_id} if model_id else {}
    entries = [entities.Metric(key, value, time, 0, **of_model) for key, value in numbers.items()]
    verdict = checked.verdict.value if checked.verdict else "none"
    tags = [
        entities.RunTag(f"{PREFIX}verdict", verdict),
        entities.RunTag(f"{PREFIX}run", report.run.id),
        entities.RunTag(f"{PREFIX}suite", f"{report.suite.name} {report.suite.digest}"),
        entities.RunTag(f"{PREFIX}version", report.isomer_version),
    ]
    client.log_batch(run_id, metrics=entries, tags=tags)
    results: Dict[str, Any] = {}
    root = client.get_run(run_id).info.artifact_uri
    for form, name in FILES.items():
        text = checked.forms[form].decode("utf-8")
        client.log_text(run_id, text, f"isomer/{name}")
        results[f"isomer/{name}"] = artifacts.TextEvaluationArtifact(uri=f"{root}/isomer/{name}", content=text)
    return base.EvaluationResult(metrics=numbers, artifacts=results, run_id=run_id)


def metrics(checked: Checked) -> Dict[str, float]:
    """The numbers of a check, named as `isomer registry` names them.

    A number with an interval has `….low` and `….high` beside it. `isomer.passed` is 1 where the gate passed and 0 otherwise,
    also where it is undecided or invalid, or has no rule; so that a threshold on it is the gate.
    """
    report = checked.report
    served = [one for one in report.encoders if one.variant is None]
    judged = [one for one in served if not one.baseline] or served
    encoder = judged[0].id
    numbers: Dict[str, float] = {"passed": float(checked.verdict is GateVerdict.PASS)}
    for profile in report.profile.encoders:
        if profile.encoder == encoder:
            numbers.update(of_profile(profile))
    if report.separation:
        for one in report.separation.encoders:
            if one.encoder == encoder:
                numbers.update(interval("separation", one.overall.separation, one.overall.low, one.overall.high))
    numbers.update(of_rules(report, encoder))
    return {PREFIX + key(name): value for name, value in numbers.items() if math.isfinite(value)}


def of_profile(profile: EncoderProfile) -> Iterator[Tuple[str, float]]:
    yield "score.original", profile.original
    for name, moved in parts(profile):
        yield f"score.{name}", moved.mean
        ends = moved.intervals.items
        # A drop is the difference with the other sign, so its ends change places.
        yield from interval(f"drop.{name}", -moved.delta, -ends.high if ends else None, -ends.low if ends else None)


def parts(profile: EncoderProfile) -> Iterator[Tuple[str, Moved]]:
    if profile.total:
        yield "total", profile.total
    for axis in profile.axes:
        yield axis.axis.value, moved_of(axis)
    for one in profile.transformations:
        yield one.transformation, moved_of(one)
    for dataset in profile.datasets:
        if dataset.total:
            yield f"total.{dataset.dataset}", dataset.total
        for one in dataset.transformations:
            yield f"{one.transformation}.{dataset.dataset}", moved_of(one)


def moved_of(one: Any) -> Moved:
    return Moved(mean=one.mean, sd=one.sd, delta=one.delta, intervals=one.intervals)


def of_rules(report: Report, encoder: str) -> Iterator[Tuple[str, float]]:
    if report.gate is None:
        return
    for judged in report.gate.encoders:
        if judged.encoder != encoder:
            continue
        for number, (rule, said) in enumerate(zip(report.gate.rules, judged.rules), 1):
            yield from interval(f"rule.{number}", said.estimate, said.low, said.high)
            yield f"rule.{number}.limit", rule.limit


def interval(name: str, value: Optional[float], low: Optional[float], high: Optional[float]) -> List[Tuple[str, float]]:
    found = ((name, value), (f"{name}.low", low), (f"{name}.high", high))
    # No negative zero.
    return [(key, number + 0.0) for key, number in found if number is not None]


def key(name: str) -> str:
    """A name that MLflow takes."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-./:") else "_" for letter in name)[:200]
