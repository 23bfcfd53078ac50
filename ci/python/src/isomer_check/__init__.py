"""Robustness checks of text encoders from Python: `check`, `assert_robust`, and `report.json` as dataclasses."""

from ._version import VERSION as __version__
from .asserting import NotRobust, RobustnessInvalid, RobustnessUndecided, UndecidedWarning, assert_robust
from .checking import Checked, check, raise_for_gate
from .errors import (
    CheckError,
    DependencyFailed,
    GateFailed,
    GateInvalid,
    GateNotPassed,
    GateUndecided,
    NothingJudged,
    ReportError,
    UsageError,
)
from .reading import read_report
from .report import GateVerdict, Report
from .request import Progress
from .rules import Rule

__all__ = [
    "CheckError",
    "Checked",
    "DependencyFailed",
    "GateFailed",
    "GateInvalid",
    "GateNotPassed",
    "GateUndecided",
    "GateVerdict",
    "NotRobust",
    "NothingJudged",
    "Progress",
    "Report",
    "ReportError",
    "RobustnessInvalid",
    "RobustnessUndecided",
    "Rule",
    "UndecidedWarning",
    "UsageError",
    "__version__",
    "assert_robust",
    "check",
    "raise_for_gate",
    "read_report",
]
