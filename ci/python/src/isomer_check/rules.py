"""Rules of the gate, as the command line and suites write them."""

from __future__ import annotations

import math
from typing import Dict, Union

from isomer_client.proto.eval.v1 import run_pb2

from .errors import UsageError, is_expected

__tracebackhide__ = is_expected

FORBIDDEN = ",;\n\r\0"


class Rule:
    """A rule that every encoder must keep: one limit, and what it is about, e.g. `Rule(max_drop=3, of="length")`.

    The keys are those of a suite's `[[gate.rule]]`: see docs/reference/gate.md. The command or the gateway reads them, so
    that a rule that a newer version has needs no newer package.
    """

    def __init__(self, **keys: Union[str, float]) -> None:
        for key, value in keys.items():
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise UsageError(f"`{key}` should be a text or a number, is `{value!r}`")
            if isinstance(value, str) and (not value.strip() or value != value.strip() or any(mark in value for mark in FORBIDDEN)):
                raise UsageError(f"`{key}` is {value!r}; a text without commas, semicolons and line breaks is needed")
            if not isinstance(value, str) and not math.isfinite(value):
                raise UsageError(f"`{key}` should be a number, is `{value}`")
        if not keys:
            raise UsageError("the rule names no limit, e.g. max_drop=3")
        self._keys: Dict[str, Union[str, float]] = keys

    @staticmethod
    def parse(text: str) -> "Rule":
        """A rule as the command line takes it, e.g. `max_drop=3,of=length`."""
        keys: Dict[str, Union[str, float]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = (word.strip() for word in part.partition("="))
            if not equals:
                raise UsageError(f"rule `{text}`: `{part}` is not a KEY=VALUE, e.g. max_drop=3")
            if key in keys:
                raise UsageError(f"rule `{text}`: `{key}` is there twice")
            keys[key] = value
        try:
            return Rule(**keys)
        except UsageError as error:
            raise UsageError(f"rule `{text}`: {error.message}") from None

    def __str__(self) -> str:
        """As the command line takes it."""
        return ",".join(f"{key}={value}" for key, value in self._keys.items())

    def __repr__(self) -> str:
        return f"Rule({', '.join(f'{key}={value!r}' for key, value in self._keys.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(str(self))

    def message(self) -> run_pb2.GateRule:
        """As a gateway takes it."""
        return run_pb2.GateRule(text=str(self))
