"""A home without models for all checks, and a gateway with the sample encoders under names."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
from typing import Any, Iterator

import pytest
import samples
from forge import Forge

pytest_plugins = ["pytester"]
sys.path.insert(0, str(samples.ROOT / "clients/conformance"))


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """No variable of this shell is a part of a test."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("ISOMER_", "GITHUB_", "CI_", "CHECK_")) and not name.startswith("ISOMER_TEST_"):
                patch.delenv(name)
        patch.setenv("ISOMER_HOME", str(home))
        patch.setenv("ISOMER_OFFLINE", "1")
        yield home


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # Found at run time only: the suite is no package.
    servers: Any = importlib.import_module("harness.servers")
    encoders = "".join(f'{pathlib.Path(folder).name} = "{folder}"\n' for folder in (samples.ROBUST, samples.WORSE, samples.UNCERTAIN))
    server: Any = servers.Isomer(samples.binary(), tmp_path_factory.mktemp("gateway"), "checks", f"[embed.encoders]\n{encoders}")
    try:
        yield str(server.start().address)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Our two pure packages as wheels. Their dependencies are in ISOMER_TEST_WHEELS."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in ("clients/python", "ci/python"):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(samples.ROOT / package)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def requirements(wheels: pathlib.Path) -> str:
    """What pip installs without a network."""
    return f"--no-index\n--find-links {wheels}\n--find-links {os.environ['ISOMER_TEST_WHEELS']}\nisomer-check\n"


@pytest.fixture
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def on_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A path with the command on it."""
    folder = tmp_path_factory.mktemp("path")
    (folder / "isomer").symlink_to(pathlib.Path(samples.binary()).resolve())
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
