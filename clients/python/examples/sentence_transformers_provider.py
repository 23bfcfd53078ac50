"""A model of sentence-transformers behind a gateway: `python sentence_transformers_provider.py MODEL [--register]`."""

from __future__ import annotations

import hashlib
import sys
from typing import Any, List

import numpy.typing as npt
from isomer_client import Client
from isomer_client.provider import Description, Provider, serve


class SentenceTransformers(Provider):
    def __init__(self, name: str) -> None:
        import sentence_transformers

        self._name = name
        models: Any = sentence_transformers
        self._model: Any = models.SentenceTransformer(name)

    def describe(self) -> Description:
        # The weights are part of the vector space: other weights under this name are another one.
        digest = hashlib.sha256()
        for key, value in sorted(self._model.state_dict().items()):
            digest.update(key.encode())
            digest.update(value.cpu().numpy().tobytes())
        return Description(
            id=self._name.rpartition("/")[2],
            version=f"sentence-transformers/{digest.hexdigest()[:16]}",
            dimensions=self._model.get_embedding_dimension(),
            prompts={name: text for name, text in self._model.prompts.items() if text},
        )

    def encode(self, texts: List[str]) -> npt.ArrayLike:
        # One by one: in a batch, padding changes the last bits of a text's vector.
        rows: npt.ArrayLike = self._model.encode(texts, batch_size=1, prompt="", normalize_embeddings=False, convert_to_numpy=True)
        return rows

    def count_tokens(self, texts: List[str]) -> List[int]:
        return [len(ids) for ids in self._model.tokenizer(texts)["input_ids"]]


if __name__ == "__main__":
    gateway = Client.from_environment() if "--register" in sys.argv[2:] else None
    serve(SentenceTransformers(sys.argv[1]), register=gateway)
