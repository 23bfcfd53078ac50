"""A pair of keys that attestations are signed with."""

from __future__ import annotations

import pathlib
import typing

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Pair(typing.NamedTuple):
    private: pathlib.Path
    public: pathlib.Path


def pair(folder: pathlib.Path) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    files = Pair(folder / "key.pem", folder / "key.pub")
    files.private.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    files.public.write_bytes(key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    return files
