"""Runs the script of a GitLab job as its documentation says, as far as our template needs it."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Sequence

from actions import copied, read_yaml

VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclasses.dataclass
class Ran:
    code: int
    log: str
    artifacts: List[str]
    dotenv: Dict[str, str]
    junit: bool


def expanded(value: str, known: Mapping[str, str]) -> str:
    """`$NAME` in a value is another variable; it is not run."""
    return VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), value)


def run(
    template: pathlib.Path,
    variables: Mapping[str, str],
    folder: pathlib.Path,
    *,
    environment: Optional[Mapping[str, str]] = None,
    skip: Sequence[str] = (),
    caches: Optional[pathlib.Path] = None,
) -> Ran:
    """A job that extends the template's, with these variables. Lines that hold one of `skip` are left out. `caches` outlives the job."""
    job: Any = read_yaml(template)[".isomer-check"]
    assert set(variables) <= set(job["variables"]) | {"CHECK_TOKEN"}, variables
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    known = {"CI_PROJECT_DIR": str(project), "GITLAB_CI": "true", **(environment or {})}
    made = {**job["variables"], **variables}
    known.update({name: expanded(str(value), {**known, **made}) for name, value in made.items()})
    cache = caches or folder / "caches"
    assert job["cache"]["when"] == "always"
    for path in job["cache"]["paths"]:
        copied(cache / job["cache"]["key"] / path, project / path)

    def shell(lines: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Each line is run in one shell, which the first failure ends."""
        script = "\n".join(["set -eo pipefail", *(line for line in lines if not any(one in line for one in skip))])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", script],
            cwd=project,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **known},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    done = shell(job["script"])
    # Its failure is none of the job's.
    after = shell(job.get("after_script", ()))
    for path in job["cache"]["paths"]:
        copied(project / path, cache / job["cache"]["key"] / path)
    artifacts = job["artifacts"]
    assert artifacts["when"] == "always"
    found = [path for pattern in artifacts["paths"] for path in (project / expanded(pattern, known)).rglob("*")]
    dotenv = project / artifacts["reports"]["dotenv"]
    lines = dotenv.read_text(encoding="utf-8").splitlines() if dotenv.exists() else []
    return Ran(
        done.returncode,
        done.stdout + after.stdout,
        sorted(str(path.relative_to(project)) for path in found if path.is_file()),
        dict(line.split("=", 1) for line in lines),
        (project / expanded(artifacts["reports"]["junit"], known)).is_file(),
    )
