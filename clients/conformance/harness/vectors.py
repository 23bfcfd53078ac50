"""The vectors and scores of the stub server: the same on every machine, so that cases can name their digests."""

import hashlib
import struct

DIMENSIONS = 16


def vector(text, prompt="", dimensions=DIMENSIONS):
    """32-bit floats, little endian. Each value is an exact multiple of 1/32768."""
    digest = hashlib.sha256((prompt + text).encode("utf-8")).digest()
    values = struct.unpack("<16h", digest)
    return struct.pack(f"<{dimensions}f", *(values[column % 16] / 32768 for column in range(dimensions)))


def token_vectors(text):
    """A row for each word."""
    return [vector(word) for word in text.split()]


def sparse_vector(text, most=None):
    """Ids ascending, and their weights: a weight for each distinct word that 32 bits hold exactly."""
    found = {}
    for word in text.split():
        digest = hashlib.sha256(word.encode("utf-8")).digest()
        found[int.from_bytes(digest[:2], "little")] = (digest[2] + 1) / 256
    best = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:most]
    return sorted(best)


def sparse_row(entries):
    """The bytes that a runner takes the digest of: all ids, then all weights."""
    return struct.pack(f"<{len(entries)}I", *(index for index, _ in entries)) + struct.pack(f"<{len(entries)}f", *(value for _, value in entries))


def score(query, document):
    """A relevance in [0, 1) that 32 bits hold exactly."""
    digest = hashlib.sha256(f"{query}\0{document}".encode()).digest()
    return int.from_bytes(digest[:3], "little") / (1 << 24)


def digest(row):
    """Digest of a row that a runner reports: SHA-256 over its bytes, in hexadecimal, the first 16
    digits."""
    return hashlib.sha256(row).hexdigest()[:16]
