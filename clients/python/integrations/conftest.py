"""A real server with tiny encoders and the stub generator, for the tests of the extras."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from typing import Any, Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "clients/conformance"))


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    from harness import generator
    from harness.servers import ENCODERS, Isomer

    binary = os.environ.get("ISOMER")
    assert binary, "ISOMER names the command line's binary: start this with clients/python/integrations/run"
    _, url = generator.serve()
    config = f'{ENCODERS}\n[addresses]\nallow = ["127.0.0.1"]\n[transform]\ndefault_generator = "stub"\n[transform.generators.stub]\nmodel = "stub"\nurl = "{url}"\napi_key_env = ""\n'
    with tempfile.TemporaryDirectory(prefix="isomer-integrations-") as folder:
        server = Isomer(str(pathlib.Path(binary).resolve()), pathlib.Path(folder), "integrations", config).start()
        yield server.address
        server.stop()


@pytest.fixture(scope="session")
def client(address: str) -> Any:
    from isomer_client import Client

    with Client(address) as made:
        yield made


@pytest.fixture(scope="session")
def model_folder() -> str:
    """The same encoder as files, for sentence-transformers itself."""
    return str(ROOT / "embed-svc/tests/fixtures/xlm_roberta")
