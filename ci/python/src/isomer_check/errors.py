"""Ends of a check other than a gate that passed: an exception for each exit code of `isomer check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .checking import Checked


class CheckError(Exception):
    """A check that did not end with a gate that passed.

    Attributes:
        exit_code: what `isomer check` exits with in this case.
        checked: the report and its files, where the check got as far.
    """

    exit_code: int = 3

    def __init__(self, message: str, *, checked: Optional["Checked"] = None) -> None:
        super().__init__(message)
        self.message = message
        self.checked = checked


class GateFailed(CheckError):
    """An encoder breaks a rule; or the gate is undecided, and `undecided="fail"` counts that as failed."""

    exit_code = 1


class UsageError(CheckError, ValueError):
    """An argument, a rule, the suite or the configuration cannot be meant."""

    exit_code = 2


class NothingJudged(UsageError):
    """The check ended, but no rule judged any encoder, so that it says nothing for or against one."""


class DependencyFailed(CheckError):
    """A model, a server, a generator or a file failed: there is no report."""

    exit_code = 3


class ReportError(DependencyFailed):
    """A report that cannot be read: of another version, or not as its schema says.

    Attributes:
        field: path of the field to blame, e.g. `gate.encoders[0].verdict`; empty where it is the whole.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class GateNotPassed(CheckError):
    """The gate says neither yes nor no, and that blocks."""

    exit_code = 4


class GateUndecided(GateNotPassed):
    """The bounds of a rule lie on both sides of its limit. More data would decide: see the rule's note."""


class GateInvalid(GateNotPassed):
    """The scores cannot answer the question, e.g. since too many texts were not rewritten."""


def is_expected(shown: Any) -> bool:
    """`__tracebackhide__` of modules that raise these: pytest then shows the test and the message, without our frames.

    Other exceptions are faults of this package, and keep their frames.
    """
    return bool(shown.errisinstance((CheckError, AssertionError)))
