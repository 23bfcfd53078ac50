"""Build backend of the package isomer-cli: maturin, which compiles the command, or a binary that WHEEL_BINARY names.

Releases build the command once and pack it into an archive, images and this wheel. Tests pack the binary that they test.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import Any, Dict, List, Optional

import maturin
from maturin import *  # noqa: F403  The other hooks are maturin's own.

SYSTEM_LINKER = 3  # PT_INTERP, an ELF program header: the binary is linked when it starts


def get_requires_for_build_wheel(config_settings: Optional[Dict[str, Any]] = None) -> List[str]:
    # maturin asks for a Rust toolchain where none is installed. A binary that exists needs none.
    return [] if os.environ.get("WHEEL_BINARY") else maturin.get_requires_for_build_wheel(config_settings)


def build_wheel(wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None) -> str:
    binary = os.environ.get("WHEEL_BINARY")
    if not binary:
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return packed(pathlib.Path(binary), pathlib.Path(wheel_directory))


def packed(binary: pathlib.Path, out: pathlib.Path) -> str:
    """The name of a wheel as maturin lays it out with `bindings = "bin"`, with maturin's metadata."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run(["maturin", "pep517", "write-dist-info", "--metadata-directory", name], check=True, stdout=sys.stderr)
        (info,) = folder.glob("*.dist-info")
        tag = f"py3-none-{system(binary)}"
        described = [line for line in (info / "WHEEL").read_text(encoding="utf-8").splitlines() if line and not line.startswith("Tag: ")]
        (info / "WHEEL").write_text("\n".join([*described, f"Tag: {tag}", ""]), encoding="utf-8")
        stripped = folder / "isomer"
        shutil.copyfile(binary, stripped)
        subprocess.run(["strip", str(stripped)], check=True)
        stem = info.name.removesuffix(".dist-info")
        files = {f"{stem}.data/scripts/isomer": stripped}
        files.update({str(path.relative_to(folder)): path for path in sorted(info.rglob("*")) if path.is_file()})
        wheel = out / f"{stem}-{tag}.whl"
        records: List[str] = []
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as written:
            for inside, path in files.items():
                content = path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                records.append(f"{inside},sha256={digest},{len(content)}\n")
                entry = zipfile.ZipInfo(inside)
                entry.external_attr = (0o100755 if "/scripts/" in inside else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                written.writestr(entry, content)
            written.writestr(f"{info.name}/RECORD", "".join(records) + f"{info.name}/RECORD,,\n")
        return wheel.name


def system(binary: pathlib.Path) -> str:
    """The platform that a binary of this machine's kind runs on, as a tag of a wheel.

    A static binary runs on every Linux. Another one is known to run on this machine only, and an index refuses `linux_…`.
    """
    machine = platform.machine()
    if sys.platform == "darwin":
        # The oldest release that `ci/release/binary` builds for.
        return f"macosx_11_0_{machine}"
    with binary.open("rb") as opened:
        head = opened.read(4096)
    if is_static(head):
        return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
    return f"linux_{machine}"


def is_static(head: bytes) -> bool:
    """Whether the program headers of an ELF file, which stand at its head, name no linker."""
    if head[:6] != b"\x7fELF\x02\x01":
        raise ValueError("WHEEL_BINARY is not an ELF file of 64 bits, little endian")
    start = int.from_bytes(head[32:40], "little")
    size, count = (int.from_bytes(head[at : at + 2], "little") for at in (54, 56))
    return all(int.from_bytes(head[start + size * n :][:4], "little") != SYSTEM_LINKER for n in range(count))
