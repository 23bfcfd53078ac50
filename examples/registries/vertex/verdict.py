"""Writes the result of a check into Vertex AI's Model Registry: labels, and the alias `isomer-passed` of a version.

    isomer check --model ./encoder --suite minimal --rule max_drop=5
    VERTEX_TOKEN="$(gcloud auth print-access-token)" python3 verdict.py --report isomer-report/report.json \
        --model projects/PROJECT/locations/europe-west4/models/MODEL@3
"""

import argparse
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import facts, send  # noqa: E402

ALIAS = "isomer-passed"


def label(text: str) -> str:
    """A value that a label may have: up to 63 lower-case letters, digits, `_` and `-`."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63]


def labels(known: dict, told: dict[str, str]) -> dict:
    """The body of the request that sets the labels: those that are there, and ours."""
    return {"labels": {**known, **{f"isomer-{name}": label(value) for name, value in told.items()}}}


def aliases(told: dict[str, str]) -> dict:
    """The body of the request that gives the alias to what passed and takes it from everything else."""
    return {"versionAliases": [ALIAS if told["verdict"] == "pass" else f"-{ALIAS}"]}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", required=True, help="projects/…/locations/…/models/MODEL@VERSION")
    arguments.add_argument("--report", default="isomer-report/report.json")
    arguments.add_argument("--encoder", help="id in the report, if its gate judges several")
    given = arguments.parse_args()
    region = given.model.split("/")[3]
    url, token = f"https://{region}-aiplatform.googleapis.com/v1/{given.model}", os.environ["VERTEX_TOKEN"]
    told = facts(given.report, given.encoder)
    if told["verdict"] != "pass":
        # Before the labels, so that no moment shows a version that failed at the alias.
        send("POST", f"{url}:mergeVersionAliases", token, aliases(told))
    known = send("GET", url, token).get("labels") or {}
    send("PATCH", f"{url}?updateMask=labels", token, labels(known, told))
    if told["verdict"] == "pass":
        send("POST", f"{url}:mergeVersionAliases", token, aliases(told))


if __name__ == "__main__":
    main()
