"""Checks an artifact of W&B's registry, and writes the result into its metadata, with the alias `isomer-passed` if it passed.

    ARTIFACT=ENTITY/PROJECT/NAME:v3 WANDB_API_KEY=… python3 verdict.py --suite minimal --rule max_drop=5
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import facts  # noqa: E402

ALIAS = "isomer-passed"


def write(artifact, told: dict[str, str]) -> None:
    """Sets metadata and alias of an artifact of the library `wandb`."""
    artifact.metadata.update({f"isomer.{name}": value for name, value in told.items()})
    aliases = [alias for alias in artifact.aliases if alias != ALIAS]
    artifact.aliases = [*aliases, ALIAS] if told["verdict"] == "pass" else aliases
    artifact.save()


def main() -> int:
    import wandb

    artifact = wandb.Api().artifact(os.environ["ARTIFACT"])
    with tempfile.TemporaryDirectory() as folder:
        encoder = artifact.download(str(pathlib.Path(folder) / "encoder"))
        out = pathlib.Path(folder) / "isomer-report"
        code = subprocess.run(["isomer", "check", "--model", encoder, "--out", str(out), *sys.argv[1:]]).returncode
        # 0 passed, 1 failed, 4 undecided or invalid; with any other code there is no report.
        if code in (0, 1, 4):
            write(artifact, facts(str(out / "report.json")))
    return code


if __name__ == "__main__":
    sys.exit(main())
