"""A check as an assertion of a test."""

from __future__ import annotations

import warnings
from typing import Any, Dict, Iterable, Optional, Sequence, Type, Union

from .checking import Checked, check, explained, raise_for_gate
from .errors import NothingJudged, is_expected
from .report import GateVerdict
from .request import OnProgress, PathLike
from .rules import Rule

__tracebackhide__ = is_expected


class NotRobust(AssertionError):
    """An encoder breaks a rule. `checked` has the report."""

    def __init__(self, message: str, checked: Checked) -> None:
        super().__init__(message)
        self.checked = checked


class RobustnessUndecided(NotRobust):
    """The data leave a rule undecided: they show neither that the encoder is robust nor that it is not."""


class RobustnessInvalid(NotRobust):
    """The scores cannot answer the question."""


class UndecidedWarning(UserWarning):
    """A gate that is undecided, where `undecided="warn"` lets it pass."""


def assert_robust(
    models: Union[PathLike, Iterable[PathLike]],
    *,
    suite: PathLike = "quick",
    rules: Iterable[Union[str, Rule]] = (),
    suite_rules: bool = True,
    baseline: Optional[PathLike] = None,
    undecided: Optional[str] = None,
    generator: Optional[str] = None,
    transformations: Sequence[str] = (),
    seeds: Sequence[int] = (),
    limit: Optional[int] = None,
    out: Optional[PathLike] = None,
    progress: Optional[OnProgress] = None,
    **where: Any,
) -> Checked:
    """Checks, and raises an AssertionError (NotRobust) where the gate does not pass.

    The arguments are those of `check`; `where` are `server`, `key`, `tls`, `client`, `binary`. A
    check that cannot be made, e.g. since a model is missing, does not fail an assertion: its
    CheckError comes through.
    """
    checked = check(
        models,
        suite=suite,
        rules=rules,
        suite_rules=suite_rules,
        baseline=baseline,
        undecided=undecided,
        generator=generator,
        transformations=transformations,
        seeds=seeds,
        limit=limit,
        gate=False,
        out=out,
        progress=progress,
        **where,
    )
    gate = checked.report.gate
    if gate is None or checked.verdict is None:
        raise_for_gate(checked)
        raise NothingJudged("no rule judged any encoder", checked=checked)
    if gate.blocked:
        kinds: Dict[GateVerdict, Type[NotRobust]] = {GateVerdict.UNDECIDED: RobustnessUndecided, GateVerdict.INVALID: RobustnessInvalid}
        raise kinds.get(gate.verdict, NotRobust)(explained(gate), checked)
    if gate.verdict != GateVerdict.PASS:
        warnings.warn(explained(gate), UndecidedWarning, stacklevel=2)
    return checked
