"""Verdicts of a rule on an encoder, as sentences."""

from __future__ import annotations

from typing import Iterator

from .report import GATE_RULE_KINDS, GateRule, GateVerdict, RuleVerdict, Unit

UNITS = {"points": " points", "percent": " %", "share": ""}


def number(value: float) -> str:
    return f"{value:.2f}".removeprefix("-") if abs(value) < 0.005 else f"{value:.2f}"


def measured(rule: GateRule, said: RuleVerdict) -> str:
    """The estimate, its bounds and the limit, e.g. `drop 12.65 points, bounds 6.40 to 18.91 (each at 95 %), limit 5.00`."""
    # A later version of Isomer may have further kinds.
    what = GATE_RULE_KINDS.get(rule.kind, rule.kind)
    if said.estimate is None:
        return f"no {what}, limit {number(rule.limit)}"
    parts = [f"{what} {number(said.estimate)}{UNITS.get(rule.unit, '')}"]
    level = f"at {100 * (1 - said.alpha):g} %"
    if said.low is not None and said.high is not None:
        parts.append(f"bounds {number(said.low)} to {number(said.high)} (each {level})")
    elif said.high is not None:
        parts.append(f"at most {number(said.high)} ({level})")
    elif said.low is not None:
        parts.append(f"at least {number(said.low)} ({level})")
    return ", ".join([*parts, f"limit {number(rule.limit)}"])


def sentences(encoder: str, rule: GateRule, said: RuleVerdict) -> Iterator[str]:
    verdicts = {
        GateVerdict.PASS: f"{encoder} keeps",
        GateVerdict.FAIL: f"{encoder} breaks",
        GateVerdict.UNDECIDED: f"the data leave undecided whether {encoder} keeps",
        GateVerdict.INVALID: f"nothing can be said about whether {encoder} keeps",
    }
    yield f'{verdicts[said.verdict]} "{rule.title}" ({rule.kind} of {rule.of}): {measured(rule, said)}'
    if said.note:
        yield f"  {said.note}"
    if said.verdict == GateVerdict.UNDECIDED and said.units_needed is not None:
        what = "items" if said.over == Unit.ITEM else "texts" if said.over is None else "groups of data sets"
        yield f"  about {said.units_needed} {what} (now {said.units}) would decide, if the estimate stays"
