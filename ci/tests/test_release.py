"""The scripts of a release, on a binary that exists, and the workflow that runs them."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
from typing import Any, Dict, List

import actions
import pytest
import samples

RELEASE = samples.CI / "release"
WORKFLOW = samples.ROOT / ".github/workflows/release.yml"


def run(*command: str, **environment: str) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_archive_and_wheel_of_a_binary_run(tmp_path: pathlib.Path, checkout_only: Dict[str, str]) -> None:
    run(str(RELEASE / "binary"), str(tmp_path), samples.binary(), **checkout_only)
    assert [re.sub(r"0\.1\.0-.*?(\.tar\.gz|\.whl)$", r"*\1", path.name) for path in sorted(tmp_path.iterdir())] == ["isomer-*.tar.gz", "isomer_cli-*.whl"]
    assert "the archive and the wheel" in run(str(RELEASE / "smoke"), str(tmp_path))


def test_packages_of_the_clients_are_built(tmp_path: pathlib.Path) -> None:
    run(str(RELEASE / "packages"), str(tmp_path))
    version = run(str(RELEASE / "version")).strip()
    python = [f"{name}-{version}{end}" for name in ("isomer_check", "isomer_client") for end in ("-py3-none-any.whl", ".tar.gz")]
    assert {path.name for path in tmp_path.iterdir()} == {*python, f"isomer-client-{version}.tgz", f"isomer-client-{version}.jar"}


def test_a_tag_of_another_version_is_refused() -> None:
    version = run(str(RELEASE / "version")).strip()
    assert run(str(RELEASE / "version"), f"v{version}").strip() == version
    assert subprocess.run([str(RELEASE / "version"), "v9.9.9"], capture_output=True).returncode == 1


def test_every_script_is_a_step_of_the_workflow() -> None:
    jobs: Dict[str, Any] = actions.read_yaml(WORKFLOW)["jobs"]
    steps = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    assert set(re.findall(r"ci/release/(\w+)", steps)) == {path.name for path in RELEASE.iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
def test_only_a_static_binary_is_said_to_run_on_every_linux(tmp_path: pathlib.Path) -> None:
    described = importlib.util.spec_from_file_location("backend", samples.ROOT / "cli/wheel/backend.py")
    assert described and described.loader
    backend: Any = importlib.util.module_from_spec(described)
    described.loader.exec_module(backend)
    assert backend.system(pathlib.Path(samples.binary())).startswith("linux_")
    source = tmp_path / "main.c"
    tags: List[str] = []
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    for flags in (["-static"], []):
        run("cc", *flags, "-o", str(tmp_path / "main"), str(source))
        tags.append(backend.system(tmp_path / "main").partition("_")[0])
    assert tags == ["manylinux", "linux"]
