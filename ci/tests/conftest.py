"""A home without models for all checks, and a gateway with the sample encoders under names."""

from __future__ import annotations

import importlib
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Tuple

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
    # Found at run time only: the suite is not a package.
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
    """Packages that pip installs without a network."""
    return f"--no-index\n--find-links {wheels}\n--find-links {os.environ['ISOMER_TEST_WHEELS']}\nisomer-check\n"


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A repository with this checkout's files as its branch main, changed and new ones too."""
    folder = tmp_path_factory.mktemp("repository")
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=samples.ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().rstrip("\0").split("\0"):
        if (samples.ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(samples.ROOT / name, folder / name)
    author = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    for command in (["init", "--quiet", "--initial-branch=main"], ["add", "--all"], [*author, "commit", "--quiet", "--message=tests"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def checkout_only() -> Dict[str, str]:
    """A job with nothing but a checkout: no published package, no command on the path, and a compiler that is done at once."""
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (pathlib.Path(folder) / "isomer").exists()]
    cargo, rustup = ((name, os.environ.get(name, str(pathlib.Path.home() / folder))) for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")))
    return {
        "PATH": os.pathsep.join(folders),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": os.environ["ISOMER_TEST_WHEELS"],
        "WHEEL_BINARY": str(pathlib.Path(samples.binary()).resolve()),
        **dict((cargo, rustup)),
    }


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tuple[str, List[str]]]:
    """A language model, and the paths that it was called at."""
    stub: Any = importlib.import_module("harness.generator")
    calls: List[str] = []
    answer = stub._Handler.do_POST

    def counted(handler: Any) -> None:
        calls.append(handler.path)
        answer(handler)

    monkeypatch.setattr(stub._Handler, "do_POST", counted)
    server, url = stub.serve()
    yield f"openai:stub@{url}", calls
    server.shutdown()


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
