"""Rules of the gate, as the command line and suites write them."""

from __future__ import annotations

import dataclasses
import difflib
import math
from typing import Dict, List, Optional, Union

from isomer_client.proto.eval.v1 import run_pb2

from .errors import UsageError

LIMITS = ("max_drop", "max_drop_percent", "min_score", "margin", "min_separation", "worst", "max_negative_flips", "min_overlap")
SHARES = ("max_unchanged", "max_near_copies", "max_cut", "max_shared", "min_accepted", "max_zero", "max_same_rewrites", "max_guarded", "max_leak", "max_at_chance")
# Our names, and the fields of the message.
TEXTS = {"of": "quantity", "task": "task_type", "dataset": "dataset", "name": "name"}
CHOICES: Dict[str, Dict[str, int]] = {
    "basis": {
        "point": run_pb2.GATE_BASIS_POINT,
        "bounded": run_pb2.GATE_BASIS_BOUNDED,
        "studentised-bootstrap": run_pb2.GATE_BASIS_STUDENTISED_BOOTSTRAP,
        "signed-rank": run_pb2.GATE_BASIS_SIGNED_RANK,
        "student": run_pb2.GATE_BASIS_STUDENT,
        "bootstrap": run_pb2.GATE_BASIS_BOOTSTRAP,
    },
    "unit": {"item": run_pb2.GATE_UNIT_ITEM, "group": run_pb2.GATE_UNIT_GROUP},
    "texts": {"all": run_pb2.GATE_TEXTS_ALL, "changed": run_pb2.GATE_TEXTS_CHANGED, "accepted": run_pb2.GATE_TEXTS_ACCEPTED},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule that every encoder must keep: one limit, and what it is about. See docs/reference/gate.md."""

    max_drop: Optional[float] = None
    """Largest drop against the original, in points (main score x 100)."""
    max_drop_percent: Optional[float] = None
    """Largest drop in percent of the original score."""
    min_score: Optional[float] = None
    """Least score, in points."""
    margin: Optional[float] = None
    """Most points below the baseline (non-inferiority)."""
    min_separation: Optional[float] = None
    """Least share of texts told from a change of meaning, 0 to 1."""
    worst: Optional[float] = None
    """Largest drop of the worst data set, in points."""
    max_negative_flips: Optional[float] = None
    """Most items, in percent, that the baseline has right and the encoder has wrong."""
    min_overlap: Optional[float] = None
    """Least share of the first documents, in percent, that both the baseline and the encoder find."""
    of: str = ""
    """`total` (also when empty), an axis, a transformation, or `original`."""
    task: str = ""
    """Only data sets of this kind of task."""
    dataset: str = ""
    """Only this data set."""
    basis: str = ""
    """What is held against the limit, e.g. `bounded`, `point`."""
    unit: str = ""
    """What counts as drawn: `item` or `group`."""
    texts: str = ""
    """Which rewrites it looks at: `all`, `changed`, `accepted`."""
    max_unchanged: Optional[float] = None
    max_near_copies: Optional[float] = None
    max_cut: Optional[float] = None
    max_shared: Optional[float] = None
    min_accepted: Optional[float] = None
    max_zero: Optional[float] = None
    max_same_rewrites: Optional[float] = None
    max_guarded: Optional[float] = None
    max_leak: Optional[float] = None
    max_at_chance: Optional[float] = None
    name: str = ""
    """Shown in reports; empty: the rule in words."""

    def __post_init__(self) -> None:
        limits = [name for name in LIMITS if getattr(self, name) is not None]
        if not limits:
            raise UsageError(f"the rule names no limit: one of {', '.join(LIMITS)}, e.g. max_drop=3")
        if len(limits) > 1:
            raise UsageError(f"`{limits[1]}` is a second limit; write a rule for each")
        for key in (*LIMITS, *SHARES):
            value = getattr(self, key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)):
                raise UsageError(f"`{key}` should be a number, is `{value}`")
        for key in (*TEXTS, *CHOICES):
            value = getattr(self, key)
            if not isinstance(value, str) or value != value.strip() or any(mark in value for mark in ",;\n\r\0"):
                raise UsageError(f"`{key}` is {value!r}; a text without commas, semicolons and line breaks is needed")
        for key, known in CHOICES.items():
            value = getattr(self, key)
            if value and value not in known:
                raise UsageError(f"unknown {key} `{value}`; allowed: {', '.join(known)}")

    @staticmethod
    def parse(text: str) -> "Rule":
        """Reads a rule as the command line takes it, e.g. `max_drop=3,of=length`."""
        given: Dict[str, Union[str, float]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = (word.strip() for word in part.partition("="))
            if not equals:
                raise UsageError(f"rule `{text}`: `{part}` is not a KEY=VALUE, e.g. max_drop=3")
            if key not in KEYS:
                near = difflib.get_close_matches(key, KEYS, 1)
                raise UsageError(f"rule `{text}`: unknown key `{key}`; " + (f"did you mean `{near[0]}`?" if near else f"allowed: {', '.join(KEYS)}"))
            if key in given:
                raise UsageError(f"rule `{text}`: `{key}` is there twice")
            if not value:
                raise UsageError(f"rule `{text}`: `{key}` has no value")
            given[key] = _number(text, key, value) if key in (*LIMITS, *SHARES) else value
        try:
            made: Rule = Rule(**given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except UsageError as error:
            raise UsageError(f"rule `{text}`: {error.message}") from None
        return made

    def __str__(self) -> str:
        """As the command line takes it."""
        parts: List[str] = []
        for key in KEYS:
            value = getattr(self, key)
            if value is not None and value != "":
                parts.append(f"{key}={value if isinstance(value, str) else repr(float(value))}")
        return ",".join(parts)

    def message(self) -> run_pb2.GateRule:
        """As a gateway takes it."""
        made = run_pb2.GateRule()
        for key in (*LIMITS, *SHARES):
            value = getattr(self, key)
            if value is None:
                continue
            # Newer limits are in a map.
            if key in made.DESCRIPTOR.fields_by_name:
                setattr(made, key, float(value))
            else:
                made.validity[key] = float(value)
        for key, field in TEXTS.items():
            setattr(made, field, getattr(self, key))
        for key, known in CHOICES.items():
            if getattr(self, key):
                setattr(made, key, known[getattr(self, key)])
        return made


KEYS = (*LIMITS, *TEXTS, *CHOICES, *SHARES)


def _number(text: str, key: str, value: str) -> float:
    # `float` takes more than the command does: `1_0`, other alphabets' digits.
    try:
        number = float(value) if value.isascii() and "_" not in value else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"rule `{text}`: `{key}` should be a number, is `{value}`")
    return number
