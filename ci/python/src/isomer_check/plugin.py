"""The pytest plugin: the fixture `isomer`, options to say where checks run.

Loaded at the start of every pytest of an environment that has it, so it imports the rest when the fixture is first used.
"""

from __future__ import annotations

import pathlib
import re
from typing import TYPE_CHECKING, Any, Dict, Generator, Optional

import pytest

if TYPE_CHECKING:
    from .checking import Checked

OPTIONS = {
    "server": "address of the gateway that checks [default: ISOMER_SERVER, else the isomer command checks]",
    "binary": "the isomer command [default: beside this Python, else on the path]",
    "report": "folder for the reports of checks, each in a folder named after its test",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("isomer", "robustness checks of text encoders")
    for name, told in OPTIONS.items():
        group.addoption(f"--isomer-{name}", metavar={"server": "ADDRESS", "binary": "FILE", "report": "DIR"}[name], help=told)


class Isomer:
    """The fixture `isomer`: checks, run where pytest's options say, with reports kept where they
    say."""

    def __init__(self, where: Dict[str, Any], reports: Optional[pathlib.Path], name: str) -> None:
        self._where = where
        self._reports = reports
        self._name = re.sub(r"[^\w.-]+", "-", name).strip("-")
        self.checks = 0

    def check(self, models: Any, **arguments: Any) -> "Checked":
        """`isomer_check.check`."""
        from .checking import check

        __tracebackhide__ = True
        return check(models, **self._arguments(arguments))

    def assert_robust(self, models: Any, **arguments: Any) -> "Checked":
        """`isomer_check.assert_robust`."""
        from .asserting import assert_robust

        __tracebackhide__ = True
        return assert_robust(models, **self._arguments(arguments))

    def _arguments(self, given: Dict[str, Any]) -> Dict[str, Any]:
        self.checks += 1
        made = {**self._where, **given}
        # A call that says itself where it runs says it whole.
        if {"server", "client", "binary"} & set(given):
            made = {**{name: value for name, value in self._where.items() if name not in ("server", "binary")}, **given}
        if self._reports is not None and "out" not in given:
            made["out"] = self._reports / (self._name if self.checks == 1 else f"{self._name}-{self.checks}")
        return made


@pytest.fixture
def isomer(request: pytest.FixtureRequest) -> Isomer:
    """Robustness checks: `isomer.assert_robust("all-MiniLM-L6-v2", rules=["max_drop=5,unit=item"])`."""
    config = request.config
    where = {name: value for name in ("server", "binary") if (value := config.getoption(f"isomer_{name}")) is not None}
    if len(where) == 2:
        raise pytest.UsageError("--isomer-server and --isomer-binary are both given: the server checks without the command")
    if "binary" in where:
        # The option goes before ISOMER_SERVER.
        where["server"] = ""
    reports = config.getoption("isomer_report")
    return Isomer(where, pathlib.Path(reports) if reports else None, request.node.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Optional[object], Optional[object]]:
    """A test that asked for the fixture and checked nothing has shown nothing."""
    result = yield
    used = pyfuncitem.funcargs.get("isomer")
    if isinstance(used, Isomer) and used.checks == 0:
        pytest.fail("the test asks for `isomer` and makes no check, so it shows nothing: call isomer.assert_robust or isomer.check", pytrace=False)
    return result
