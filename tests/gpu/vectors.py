"""Vectors and weights in files, with Python's standard library alone: safetensors, .npy, 16-bit floats, cosines."""

import array
import json
import math
import operator
import struct
import sys

CHUNK = 1 << 20


class Unusable(Exception):
    """A file or a setting that cannot be used; the text says what to do."""


def header(path):
    """The tensors of a safetensors file by name (`dtype`, `shape`, `data_offsets`), and where their data begins."""
    with open(path, "rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise Unusable(f"{path} is not safetensors: it holds {len(start)} bytes; fetch the model again")
        (length,) = struct.unpack("<Q", start)
        try:
            tensors = json.loads(file.read(length))
        except ValueError:
            raise Unusable(f"{path} is not safetensors: its header is not JSON; fetch the model again") from None
    tensors.pop("__metadata__", None)
    return tensors, 8 + length


def write_header(file, tensors):
    """Writes a safetensors header that is a multiple of 8 bytes long, as the format asks."""
    text = json.dumps(tensors, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)


def halve(source, target):
    """Writes a copy of a safetensors file with its f32 tensors in f16, rounded to even. Other tensors stay as they are."""
    tensors, begin = header(source)
    order = sorted(tensors, key=lambda name: tensors[name]["data_offsets"][0])
    halved, place = {}, 0
    for name in order:
        tensor = tensors[name]
        size = tensor["data_offsets"][1] - tensor["data_offsets"][0]
        half = tensor["dtype"] == "F32"
        size = size // 2 if half else size
        halved[name] = {"dtype": "F16" if half else tensor["dtype"], "shape": tensor["shape"], "data_offsets": [place, place + size]}
        place += size
    with open(source, "rb") as data, open(target, "wb") as out:
        write_header(out, halved)
        for name in order:
            first, end = tensors[name]["data_offsets"]
            data.seek(begin + first)
            left = end - first
            while left:
                chunk = data.read(min(left, 4 * CHUNK))
                if not chunk:
                    raise Unusable(f"{source} ends inside tensor {name}; fetch the model again")
                left -= len(chunk)
                out.write(to_f16(chunk, name) if tensors[name]["dtype"] == "F32" else chunk)


def to_f16(data, name):
    count = len(data) // 4
    values = struct.unpack(f"<{count}f", data)
    try:
        return struct.pack(f"<{count}e", *values)
    except OverflowError:
        raise Unusable(f"tensor {name} holds values beyond the range of f16 (65504); pack this model in f32") from None


def floats(data):
    """Little-endian f32 as an array."""
    values = array.array("f")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def rows(values, width):
    return [values[first : first + width] for first in range(0, len(values), width)]


def tensor(path, name):
    """An f32 tensor of a safetensors file: its values and its shape."""
    tensors, begin = header(path)
    if name not in tensors or tensors[name]["dtype"] != "F32":
        raise Unusable(f"{path} has no f32 tensor {name}")
    first, end = tensors[name]["data_offsets"]
    with open(path, "rb") as file:
        file.seek(begin + first)
        return floats(file.read(end - first)), tensors[name]["shape"]


def read_npy(path):
    """A two-dimensional f32 .npy file as rows."""
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise Unusable(f"{path} is not a .npy file")
        major = file.read(2)[0]
        (length,) = struct.unpack("<H", file.read(2)) if major == 1 else struct.unpack("<I", file.read(4))
        head = file.read(length).decode()
        if "'<f4'" not in head or "'fortran_order': False" not in head:
            raise Unusable(f"{path} does not hold f32 in C order: {head.strip()}")
        shape = [int(part) for part in head.split("'shape': (")[1].split(")")[0].split(",") if part.strip()]
        return rows(floats(file.read()), shape[1])


def cosine(a, b):
    """NaN where a value is not finite; 1 where both are all zeros."""
    if len(a) != len(b):
        raise Unusable(f"vectors of {len(a)} and {len(b)} elements cannot be compared")
    squares = math.sqrt(sum(map(operator.mul, a, a))) * math.sqrt(sum(map(operator.mul, b, b)))
    if squares == 0:
        return 1.0 if not any(a) and not any(b) else 0.0
    return sum(map(operator.mul, a, b)) / squares


def least_cosine(got, want):
    """The least cosine of rows with their references; NaN if one is NaN."""
    if len(got) != len(want):
        raise Unusable(f"{len(got)} vectors came back, {len(want)} were expected")
    least = 1.0
    for a, b in zip(got, want):
        value = cosine(a, b)
        if math.isnan(value):
            return value
        least = min(least, value)
    return least
