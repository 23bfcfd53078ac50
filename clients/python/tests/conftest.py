"""A stub server for the tests: that of the conformance suite."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import Any, Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "conformance"))


@pytest.fixture(scope="session")
def stub() -> Iterator[Any]:
    # Found at run time only: the suite is not a package.
    module: Any = importlib.import_module("harness.stub")
    server: Any = module.Stub()
    yield server
    server.stop()
