"""`mlflow.models.evaluate(..., evaluators="isomer")` and `validate_evaluation_results`, against a real MLflow server.

See tests/registry/run.
"""

from __future__ import annotations

import argparse
import logging
import os
import pathlib
import shutil
import sys
import tempfile
import warnings

os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "1"
os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
warnings.filterwarnings("ignore")

import encoders  # noqa: E402
import mlflow  # noqa: E402
import models  # noqa: E402
import pandas  # noqa: E402
from accept import REPORTS, Table  # noqa: E402
from mlflow.models import MetricThreshold  # noqa: E402
from mlflow.models.evaluation.validation import ModelValidationFailedException  # noqa: E402
from servers import Mlflow  # noqa: E402

DATA = pandas.DataFrame({"text": ["MLflow asks for data, and a suite has its own"]})


def pyfunc(folder: pathlib.Path) -> str:
    with mlflow.start_run():
        info = mlflow.pyfunc.log_model(name="model", python_model=models.Encodes(), artifacts={"encoder": str(folder)},
                                       pip_requirements=[])
    return info.model_uri


def refused(thresholds, candidate, baseline=None) -> bool:
    try:
        mlflow.validate_evaluation_results(validation_thresholds=thresholds, candidate_result=candidate, baseline_result=baseline)
    except ModelValidationFailedException:
        return True
    return False


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--isomer", required=True)
    isomer = arguments.parse_args().isomer
    logging.disable(logging.CRITICAL)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="isomer-evaluator-"))
    os.environ.update(ISOMER_HOME=str(folder / "home"), ISOMER_OFFLINE="1")
    table, server, generator = Table(), Mlflow(folder), encoders.generator()
    print(f"\nIsomer as an evaluator of MLflow {mlflow.__version__}", flush=True)
    try:
        server.start()
        mlflow.set_tracking_uri(server.url)
        mlflow.set_experiment("evaluation")
        config = {"suite": str(encoders.SUITE), "generator": generator.spec, "binary": isomer, "rules": encoders.RULES[1::2]}

        def evaluate(kind: str, **more):
            with mlflow.start_run():
                uri = pyfunc_of[kind]
                return mlflow.models.evaluate(model=uri, data=DATA, model_type="encoder", evaluators="isomer",
                                              evaluator_config={**config, **more})

        made = {kind: getattr(encoders, kind)(folder / kind) for kind in ("good", "worse", "undecided")}
        pyfunc_of = {kind: pyfunc(path) for kind, path in made.items()}
        results = {kind: evaluate(kind) for kind in made}
        table.row("isomer.passed", {"good": 1.0, "worse": 0.0, "undecided": 0.0},
                  {kind: result.metrics["isomer.passed"] for kind, result in results.items()})
        good, worse = results["good"], results["worse"]
        table.row("artifacts of the result", REPORTS, sorted(good.artifacts))
        client = mlflow.MlflowClient()
        run = client.get_run(good._run_id)
        kept = {name: value for name, value in run.data.metrics.items() if name.startswith("isomer.")}
        table.row(f"the {len(kept)} numbers in the run are those of the result", True, kept == good.metrics)
        table.row("verdict of the run", "pass", run.data.tags["isomer.verdict"])
        table.row("artifacts in the run", REPORTS, sorted(file.path for file in client.list_artifacts(run.info.run_id, "isomer")))
        drop = {"isomer.drop.total": MetricThreshold(threshold=20, greater_is_better=False)}
        table.row("validate_evaluation_results: a drop of at most 20 (good, worse)", (False, True), (refused(drop, good), refused(drop, worse)))
        gate = {"isomer.passed": MetricThreshold(threshold=1, greater_is_better=True)}
        table.row("validate_evaluation_results: the gate (good, worse, undecided)", (False, True, True),
                  tuple(refused(gate, result) for result in results.values()))
        change = {"isomer.score.total": MetricThreshold(min_absolute_change=1, greater_is_better=True)}
        table.row("validate_evaluation_results: better than a baseline (good than worse, worse than good)", (False, True),
                  (refused(change, good, worse), refused(change, worse, good)))
        saved = folder / "saved"
        good.save(str(saved))
        table.row("a result that was saved is read back", True, type(good).load(str(saved)).metrics == good.metrics)
        named = evaluate("worse", encoder=str(made["good"]))
        table.row("an encoder that the configuration names is taken instead", 1.0, named.metrics["isomer.passed"])
        try:
            evaluate("good", rule=["max_drop=1"])
            told = "was taken"
        except Exception as error:  # noqa: BLE001: whatever MLflow makes of it
            told = "unknown setting rule" in str(error)
        table.row("a setting that is misspelt is refused", True, told)
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{table.failed} FAILED" if table.failed else "all as it should be")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
