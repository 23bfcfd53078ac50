"""Checks a model of Azure Machine Learning named by an Event Grid event, and writes the result into
its tags.

Subscribe a queue to `Microsoft.MachineLearningServices.ModelRegistered` of the workspace, and give each event to this script. It needs
`az` with the extension `ml`, logged in with an identity that may read and update models.

    python3 registered.py --group GROUP --workspace WORKSPACE event.json --suite minimal --rule max_drop=5
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import facts  # noqa: E402

REGISTERED = "Microsoft.MachineLearningServices.ModelRegistered"


def registered(event: dict) -> tuple[str, str] | None:
    """Name and version of a model that an event says was registered, in Event Grid's schema or as a CloudEvent."""
    if event.get("type", event.get("eventType")) != REGISTERED:
        return None
    # Its schema writes modelName, its events ModelName.
    data = {name.lower(): value for name, value in event["data"].items()}
    return str(data["modelname"]), str(data["modelversion"])


def encoder(folder: pathlib.Path) -> pathlib.Path:
    """The one folder of an encoder among the files of a model."""
    for name in ("modules.json", "config.json"):
        if found := sorted(file.parent for file in folder.rglob(name)):
            # `modules.json` is in the folder above those of its modules.
            return min(found, key=lambda path: len(path.parts))
    raise SystemExit(f"{folder}: no sentence-transformers or Hugging Face folder")


def tags(told: dict[str, str]) -> list[str]:
    """The arguments that set the tags."""
    return [f"tags.isomer_{name}={value}" for name, value in told.items()]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("event", type=pathlib.Path)
    arguments.add_argument("--group", required=True)
    arguments.add_argument("--workspace", required=True)
    given, of_check = arguments.parse_known_args()
    found = registered(json.loads(given.event.read_text()))
    if found is None:
        return 0
    name, version = found
    where = ["--name", name, "--version", version, "--resource-group", given.group, "--workspace-name", given.workspace]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["az", "ml", "model", "download", *where, "--download-path", folder], check=True)
        out = pathlib.Path(folder) / "isomer-report"
        code = subprocess.run(["isomer", "check", "--model", str(encoder(pathlib.Path(folder))), "--out", str(out), *of_check]).returncode
        # 0 passed, 1 failed, 4 undecided or invalid; with any other code there is no report.
        if code in (0, 1, 4):
            subprocess.run(["az", "ml", "model", "update", *where, "--set", *tags(facts(str(out / "report.json")))], check=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
