"""An encoder of one's own: two methods, and `serve` does the rest.

    python examples/provider.py                    serves it
    ISOMER_SERVER=127.0.0.1:50051 python examples/provider.py --register

Words and their trigrams are hashed into 256 columns: no model, no file. Put yours in their place.
"""

from __future__ import annotations

import hashlib
import sys
from typing import List

import numpy as np
import numpy.typing as npt
from isomer_client import Client
from isomer_client.provider import Description, Provider, serve


class Hashing(Provider):
    def describe(self) -> Description:
        return Description(
            id="hashing-256",
            version="hashing/1",
            dimensions=256,
            prompts={"query": "query: "},
            matryoshka_dimensions=[64, 128],
        )

    def encode(self, texts: List[str]) -> npt.ArrayLike:
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> npt.NDArray[np.float32]:
        row = np.zeros(256, np.float32)
        # A text without words has a vector too, of unit length.
        for word in text.lower().split() or [""]:
            marked = f"<{word}>"
            for part in [word, *(marked[start : start + 3] for start in range(len(marked) - 2))]:
                digest = hashlib.blake2b(part.encode("utf-8", "surrogatepass"), digest_size=4).digest()
                row[digest[0]] += 1 if digest[1] & 1 else -1
        if not row.any():
            row[0] = 1
        return row


if __name__ == "__main__":
    gateway = Client.from_environment() if "--register" in sys.argv[1:] else None
    serve(Hashing(), register=gateway)
