"""A wheel of the isomer command around a binary that is there, as maturin lays it out with `bindings = "bin"`.

For the tests: maturin takes no binary, and building one in the profile `dist` takes too long for each run of CI. The metadata is maturin's own.

    python ci/tests/wheel.py BINARY FOLDER
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from typing import List

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "cli"


def metadata(folder: pathlib.Path) -> pathlib.Path:
    """The `.dist-info` folder that maturin makes of cli/pyproject.toml."""
    command = [sys.executable, "-m", "maturin", "pep517", "write-dist-info", "--metadata-directory", str(folder)]
    done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"maturin does not take cli/pyproject.toml:\n{done.stderr}")
    (made,) = folder.glob("*.dist-info")
    return made


def built(binary: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        info = metadata(folder)
        stem = info.name.removesuffix(".dist-info")
        (tag,) = (line.removeprefix("Tag: ") for line in (info / "WHEEL").read_text(encoding="utf-8").splitlines() if line.startswith("Tag: "))
        stripped = folder / "isomer"
        subprocess.run(["strip", "-o", str(stripped), str(binary)], check=True)
        files = [(f"{stem}.data/scripts/isomer", stripped)]
        files += [(str(path.relative_to(folder)), path) for path in sorted(info.rglob("*")) if path.is_file()]
        out.mkdir(parents=True, exist_ok=True)
        wheel = out / f"{stem}-{tag}.whl"
        records: List[str] = []
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as written:
            for inside, path in files:
                content = path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                records.append(f"{inside},sha256={digest},{len(content)}\n")
                entry = zipfile.ZipInfo(inside)
                entry.external_attr = (0o100755 if "/scripts/" in inside else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                written.writestr(entry, content)
            written.writestr(f"{info.name}/RECORD", "".join(records) + f"{info.name}/RECORD,,\n")
        return wheel


if __name__ == "__main__":
    print(built(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
