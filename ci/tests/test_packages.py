"""Packages as they would be published: metadata, licences, wheels in a clean environment, the sdist
of the command."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from typing import Dict, List, Mapping, Optional

import pytest
import samples
from samples import ROBUST, RULE, SUITE, WORSE


def run(command: List[str], **more: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="session")
def command_wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """As `pip install ./cli` makes it, around a binary that exists: compiling one takes too long."""
    out = tmp_path_factory.mktemp("command")
    environment = {**os.environ, "WHEEL_BINARY": samples.binary(), "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(samples.ROOT / "cli")], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.glob("isomer_cli-*.whl")
    return made


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory, wheels: pathlib.Path, command_wheel: pathlib.Path) -> pathlib.Path:
    """An environment with nothing but our three packages, by their files."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    ours = [str(path) for path in (*sorted(wheels.glob("*.whl")), command_wheel)]
    assert len(ours) == 3, ours
    done = run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", *ours])
    assert done.returncode == 0, done.stderr
    return folder


def test_the_command_runs_from_its_wheel(clean: pathlib.Path) -> None:
    done = run([str(clean / "bin/isomer"), "--version"], env={"PATH": ""})
    assert done.returncode == 0 and re.fullmatch(r"isomer \d+\.\d+\.\d+.*\n?", done.stdout), done.stdout


def test_a_pytest_of_the_environment_finds_fixture_and_command(clean: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """By their entry point and their place; pytest and what the client needs come from the environment of these tests."""
    body = "def test_{0}(isomer):\n    isomer.assert_robust({1!r}, suite={2!r}, rules=[{3!r}])\n\n"
    (tmp_path / "test_it.py").write_text("".join(body.format(name, model, SUITE, RULE) for name, model in (("robust", ROBUST), ("worse", WORSE))), encoding="utf-8")
    environment = {"PYTHONPATH": site_packages(), "PATH": "/usr/bin:/bin", **{name: os.environ[name] for name in ("ISOMER_HOME", "ISOMER_OFFLINE")}}
    done = run([str(clean / "bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)], env=environment)
    assert "1 failed, 1 passed" in done.stdout and "breaks" in done.stdout, done.stdout + done.stderr
    shown = run([str(clean / "bin/python"), "-c", "import isomer_check; print(isomer_check.__file__)"], env=environment)
    assert str(clean) in shown.stdout, shown


def site_packages() -> str:
    return str(pathlib.Path(pytest.__file__).resolve().parents[1])


def metadata(text: str) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    for line in text.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(": ")
        found.setdefault(name, []).append(value)
    return found


def inside(package: pathlib.Path, name: str) -> Optional[str]:
    with zipfile.ZipFile(package) as opened:
        found = [one for one in opened.namelist() if re.search(name, one)]
        return opened.read(found[0]).decode("utf-8") if found else None


def test_metadata_is_complete(wheels: pathlib.Path, command_wheel: pathlib.Path) -> None:
    (check,) = wheels.glob("isomer_check-*.whl")
    for package, name in ((check, "isomer-check"), (command_wheel, "isomer-cli")):
        text = inside(package, r"\.dist-info/METADATA$")
        assert text is not None
        told = metadata(text)
        assert told["Name"] == [name] and told["License-Expression"] == ["Apache-2.0"] and told["License-File"] == ["LICENSE", "NOTICE"]
        assert told["Summary"][0] and told["Requires-Python"] == [">=3.10"] and told["Description-Content-Type"][0].startswith("text/markdown")
        for licence in ("LICENSE", "NOTICE"):
            assert inside(package, rf"\.dist-info/licenses/{licence}$") == (samples.ROOT / licence).read_text(encoding="utf-8")
    assert inside(check, r"isomer_check/py\.typed$") is not None
    assert "isomer = isomer_check.plugin" in (inside(check, r"entry_points\.txt$") or "")


def test_versions_are_the_same() -> None:
    """Of the command, which `isomer-check[local]` asks for, and of the packages that a release builds."""
    cargo = re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', (samples.ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.M)
    assert cargo
    for path in ("ci/python/src/isomer_check/_version.py", "clients/python/src/isomer_client/_version.py"):
        assert f'VERSION = "{cargo[1]}"' in (samples.ROOT / path).read_text(encoding="utf-8"), path
    assert json.loads((samples.ROOT / "clients/typescript/package.json").read_text(encoding="utf-8"))["version"] == cargo[1]
    assert f"<version>{cargo[1]}</version>" in (samples.ROOT / "clients/java/pom.xml").read_text(encoding="utf-8").partition("<properties>")[0]


def test_the_sdist_of_the_command_has_what_its_build_reads(tmp_path: pathlib.Path) -> None:
    """Not a build, which takes too long: that its workspace resolves to locked versions, and that each file that is compiled in is there."""
    done = run([sys.executable, "-m", "maturin", "sdist", "--manifest-path", str(samples.ROOT / "cli/Cargo.toml"), "--out", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("isomer_cli-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (root,) = (path for path in tmp_path.iterdir() if path.is_dir())
    locked = packages(root / "Cargo.lock")
    resolved = run(["cargo", "metadata", "--offline", "--format-version", "1", "--manifest-path", str(root / "Cargo.toml")])
    assert resolved.returncode == 0, resolved.stderr
    assert packages(root / "Cargo.lock") <= locked and len(packages(root / "Cargo.lock")) > 300
    missing = [
        (str(source.relative_to(root)), name)
        for source in root.rglob("*.rs")
        if not {"tests", "examples", "benches"} & set(source.relative_to(root).parts) and source.name != "tests.rs"
        for name in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text(encoding="utf-8"))
        if not (source.parent / name).exists()
    ]
    assert missing == []
    assert (root / "LICENSE").exists() and (root / "NOTICE").exists() and (root / "PKG-INFO").exists()


def packages(lock: pathlib.Path) -> "set[tuple[str, str]]":
    return set(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', lock.read_text(encoding="utf-8"), re.M))
