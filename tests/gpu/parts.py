"""A folder as parts of bounded size, with a manifest of BLAKE2 digests, and back.

The archive is a gzipped tar whose bytes depend on the files alone: names in order, no times, no owners. `write` splits it,
`read` puts it together and refuses what differs from the manifest.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import tarfile

from vectors import Unusable

MANIFEST = "manifest.json"
BLOCK = 1 << 20


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def files_of(folder):
    return sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())


class Splitter(io.RawIOBase):
    """A file that is written to parts of at most `most` bytes."""

    def __init__(self, folder, most):
        super().__init__()
        self.folder, self.most, self.names, self.part, self.held = folder, most, [], None, 0

    def writable(self):
        return True

    def write(self, data):
        data, written = memoryview(data), 0
        while written < len(data):
            if self.part is None or self.held == self.most:
                self.finish()
                self.names.append(f"part-{len(self.names):03}")
                self.part, self.held = open(self.folder / self.names[-1], "wb"), 0
            piece = data[written : written + self.most - self.held]
            self.part.write(piece)
            self.held += len(piece)
            written += len(piece)
        return written

    def finish(self):
        if self.part:
            self.part.close()
            self.part = None


def write(tree, target, most, facts):
    """Writes the files below `tree` as parts and manifest into the folder `target`, which it empties of older parts."""
    tree, target = pathlib.Path(tree), pathlib.Path(target)
    target.mkdir(parents=True, exist_ok=True)
    # Without a manifest a folder is not taken for whole if this is interrupted.
    (target / MANIFEST).unlink(missing_ok=True)
    for old in target.glob("part-*"):
        old.unlink()
    splitter = Splitter(target, most)
    with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=splitter, mtime=0) as zipped:
        with tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for path in files_of(tree):
                entry = tarfile.TarInfo(str(path.relative_to(tree)))
                entry.size = path.stat().st_size
                entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
                with open(path, "rb") as file:
                    archive.addfile(entry, file)
    splitter.finish()
    manifest = {
        "format": 1,
        **facts,
        "parts": [
            {"name": name, "bytes": (target / name).stat().st_size, "blake2b": digest(target / name)} for name in splitter.names
        ],
        "files": {str(path.relative_to(tree)): digest(path) for path in files_of(tree)},
    }
    unfinished = target / (MANIFEST + ".new")
    unfinished.write_text(json.dumps(manifest, indent=1) + "\n")
    unfinished.rename(target / MANIFEST)
    return manifest


def manifest_of(folder):
    path = pathlib.Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise Unusable(f"{path} is not there: the pack is not whole; run tests/gpu/pack, and copy its whole folder") from None
    except ValueError:
        raise Unusable(f"{path} is not JSON; run tests/gpu/pack again, and copy its folder anew") from None
    if manifest.get("format") != 1:
        raise Unusable(f"{path} has format {manifest.get('format')}, expected 1; take run.py from the same pack")
    return manifest


def check(folder):
    """The manifest, after every part was compared with it."""
    folder, manifest = pathlib.Path(folder), manifest_of(folder)
    for part in manifest["parts"]:
        path = folder / part["name"]
        if not path.is_file():
            raise Unusable(f"{part['name']} is missing from {folder}; copy it from where the pack was made")
        if path.stat().st_size != part["bytes"]:
            raise Unusable(f"{part['name']} has {path.stat().st_size} bytes, expected {part['bytes']}; copy it anew")
        if digest(path) != part["blake2b"]:
            raise Unusable(f"{part['name']} is damaged: its BLAKE2 digest is not the manifest's; copy it anew")
    return manifest


class Joined(io.RawIOBase):
    """The parts as one file."""

    def __init__(self, paths):
        super().__init__()
        self.paths, self.part = list(paths), None

    def readable(self):
        return True

    def readinto(self, buffer):
        while True:
            if self.part is None:
                if not self.paths:
                    return 0
                self.part = open(self.paths.pop(0), "rb")
            count = self.part.readinto(buffer)
            if count:
                return count
            self.part.close()
            self.part = None


def read(folder, tree):
    """Puts the parts of `folder` together below `tree`, which is made anew, and compares every file. Returns the manifest."""
    folder, tree = pathlib.Path(folder), pathlib.Path(tree)
    manifest = check(folder)
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    joined = io.BufferedReader(Joined(folder / part["name"] for part in manifest["parts"]), BLOCK)
    with gzip.GzipFile(fileobj=joined) as zipped, tarfile.open(fileobj=zipped, mode="r|") as archive:
        for entry in archive:
            if entry.name not in manifest["files"] or not entry.isfile() or ".." in pathlib.PurePath(entry.name).parts:
                raise Unusable(f"the parts hold {entry.name}, which the manifest does not name; make the pack again")
            path = tree / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.extractfile(entry) as data, open(path, "wb") as out:
                shutil.copyfileobj(data, out, BLOCK)
            path.chmod(entry.mode)
    for name, wanted in manifest["files"].items():
        if not (tree / name).is_file() or digest(tree / name) != wanted:
            raise Unusable(f"{name} is missing from the parts or differs from the manifest; make the pack again")
    return manifest
