"""Encoders as MLflow logs them: each flavour, made by MLflow's own client."""

from __future__ import annotations

import pathlib
import shutil
import tempfile

import mlflow
from mlflow.models import Model


class Encodes(mlflow.pyfunc.PythonModel):
    """A model whose code would have to be unpickled."""

    def predict(self, context, model_input, params=None):
        return model_input


def as_artifacts(client, name: str, folder: pathlib.Path) -> str:
    """The folder as it is, among the artifacts of a run."""
    with mlflow.start_run() as run:
        mlflow.log_artifacts(str(folder), "encoder")
    return client.create_model_version(name, f"runs:/{run.info.run_id}/encoder", run.info.run_id).version


def as_pyfunc(client, name: str, folder: pathlib.Path | None) -> str:
    """A pyfunc with a pickle, and the folder among its artifacts."""
    artifacts = {"encoder": str(folder)} if folder else None
    with mlflow.start_run():
        info = mlflow.pyfunc.log_model(name="model", python_model=Encodes(), artifacts=artifacts, pip_requirements=[])
    return mlflow.register_model(f"models:/{info.model_id}", name).version


def as_flavour(client, name: str, flavour: str, files: dict[str, pathlib.Path], **settings) -> str:
    """A model of a flavour whose library is not installed here: the files and the MLmodel that MLflow would write."""
    with tempfile.TemporaryDirectory() as made, mlflow.start_run() as run:
        root = pathlib.Path(made)
        for to, folder in files.items():
            shutil.copytree(folder, root / to)
        model = Model(artifact_path="model", run_id=run.info.run_id)
        model.add_flavor("python_function", loader_module=f"mlflow.{flavour}", data=next(iter(files)))
        model.add_flavor(flavour, **settings)
        model.save(str(root / "MLmodel"))
        mlflow.log_artifacts(made, "model")
    return client.create_model_version(name, f"{run.info.artifact_uri}/model", run.info.run_id).version


def as_sentence_transformers(client, name: str, folder: pathlib.Path) -> str:
    return as_flavour(client, name, "sentence_transformers", {"model.sentence_transformer": folder})


def as_transformers(client, name: str, model: pathlib.Path, tokenizer: pathlib.Path) -> str:
    files = {"model": model, "components/tokenizer": tokenizer}
    return as_flavour(client, name, "transformers", files, model_binary="model", task="feature-extraction",
                      source_model_name="org/name", components=["tokenizer"])
