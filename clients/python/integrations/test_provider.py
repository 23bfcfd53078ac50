"""The provider that wraps a model of sentence-transformers, behind a gateway."""

from __future__ import annotations

import importlib.util
import pathlib
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")
from isomer_client import NotFound
from isomer_client.provider import Server

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "examples/sentence_transformers_provider.py"
TEXTS = ["The gardener watered the roses.", "", "river"]


def test_a_model_of_sentence_transformers_is_served_and_passes_the_probe(client: Any, model_folder: str) -> None:
    spec: Any = importlib.util.spec_from_file_location("example", EXAMPLE)
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    server = Server(example.SentenceTransformers(model_folder))
    try:
        # A lease of 3 s that is renewed: it is still there after 4 s.
        server.register(client, "wrapped", lease=3.0)
        checked = client.providers.check("wrapped", timeout=60)
        assert checked.usable and not [one.detail for one in checked.findings if not one.passed], checked
        found = client.encode(TEXTS, encoder="xlm_roberta", role="query")
        np.testing.assert_allclose(found.vectors, client.encode(TEXTS, encoder="tiny", role="query").vectors, rtol=0, atol=2e-5)
        time.sleep(4)
        assert client.providers.get("wrapped").id == "wrapped"
    finally:
        server.stop()
    with pytest.raises(NotFound):
        client.providers.get("wrapped")
