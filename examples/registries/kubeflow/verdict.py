"""Writes the result of a check into Kubeflow's Model Registry, as custom properties of a model version.

    isomer check --model ./encoder --suite minimal --rule max_drop=5
    KUBEFLOW_TOKEN=… python3 verdict.py --server https://registry.example.com --version-id 3 --report isomer-report/report.json
"""

import argparse
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import facts, send  # noqa: E402

PATH = "/api/model_registry/v1alpha3/model_versions/"


def body(properties: dict, told: dict[str, str]) -> dict:
    """The body of the request: the properties that are there, and ours."""
    own = {f"isomer.{name}": {"metadataType": "MetadataStringValue", "string_value": value} for name, value in told.items()}
    return {"customProperties": {**properties, **own}}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--version-id", required=True, help="the registry's id of the model version")
    arguments.add_argument("--report", default="isomer-report/report.json")
    arguments.add_argument("--encoder", help="id in the report, if its gate judges several")
    given = arguments.parse_args()
    url, token = given.server.rstrip("/") + PATH + given.version_id, os.environ["KUBEFLOW_TOKEN"]
    # An update may replace the whole map.
    known = send("GET", url, token).get("customProperties") or {}
    send("PATCH", url, token, body(known, facts(given.report, given.encoder)))


if __name__ == "__main__":
    main()
