"""Builds the wheel and the sdist, installs each into a clean environment, and runs the README's first example there."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile
import venv
from typing import Any, Dict, List

HERE = pathlib.Path(__file__).resolve().parents[1]
ENCODER = "all-MiniLM-L6-v2"


def first_example() -> str:
    found = re.search(r"^```python\n(.*?)^```", (HERE / "README.md").read_text(encoding="utf-8"), re.S | re.M)
    assert found, "README.md has no example"
    return found[1]


def run(command: List[str], **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:6])} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    printed: str = done.stdout
    return printed


def tried(package: pathlib.Path, folder: pathlib.Path, environment: Dict[str, str]) -> None:
    """In an environment that has nothing but this package and what it asks for."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(package)])
    # Not from the repository: from what was installed.
    printed = run([python, "-I", "-c", first_example()], env=environment, cwd=folder)
    assert re.search(r"\(2, 32\) float32\ncosine -?\d\.\d\d, space [0-9a-f]{12}", printed), printed
    typed = run([python, "-I", "-c", "import isomer_client, pathlib; print((pathlib.Path(isomer_client.__file__).parent / 'py.typed').exists())"])
    assert typed.strip() == "True", "py.typed is not in the package"
    print(f"{package.name}: {printed.splitlines()[-1]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    servers: Any = importlib.import_module("harness.servers")
    with tempfile.TemporaryDirectory(prefix="isomer-packages-") as name:
        folder = pathlib.Path(name)
        run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(HERE)])
        model = servers.FIXTURES / "xlm_roberta"
        config = f'[embed.encoders]\n"{ENCODER}" = "{model}"\n'
        server = servers.Isomer(parser.parse_args().isomer, folder, "packages", config).start()
        try:
            environment = {"ISOMER_SERVER": server.address, "PATH": "/usr/bin:/bin"}
            packages = sorted((folder / "dist").iterdir())
            assert [package.suffix for package in packages] == [".whl", ".gz"], packages
            for package in packages:
                tried(package, folder / package.suffix[1:], environment)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
