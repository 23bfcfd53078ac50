"""Requests for checks, validated before anything runs."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Callable, Iterable, List, Optional, Sequence, Tuple, Union

from .errors import UsageError, is_expected
from .rules import Rule

__tracebackhide__ = is_expected

UNDECIDED = ("block", "warn", "fail")
PathLike = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a check is."""

    stage: str
    """`plan`, `transform`, `encode`, `score`, `judge`, `report`; empty for a message to people, which is in `detail`."""
    done: int = 0
    total: int = 0
    cached: int = 0
    """Of `done`, how many came from a store."""
    remaining: Optional[float] = None
    """Seconds left at the present rate, if known."""
    detail: str = ""


OnProgress = Callable[[Progress], object]


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of `check` that both ways of checking share."""

    models: Tuple[str, ...]
    suite: str
    rules: Tuple[Rule, ...]
    suite_rules: bool
    baseline: Optional[str]
    undecided: Optional[str]
    generator: Optional[str]
    transformations: Tuple[str, ...]
    seeds: Tuple[int, ...]
    limit: Optional[int]

    def judged(self) -> List[str]:
        """The encoders that the gate judges: the baseline is not, where there are others."""
        named = list(dict.fromkeys(name(model) for model in self.models))
        return [one for one in named if self.baseline is None or one != name(self.baseline)] or named


def requested(
    models: Union[PathLike, Iterable[PathLike]],
    suite: PathLike,
    rules: Iterable[Union[str, Rule]],
    suite_rules: bool,
    baseline: Optional[PathLike],
    undecided: Optional[str],
    generator: Optional[str],
    transformations: Sequence[str],
    seeds: Sequence[int],
    limit: Optional[int],
) -> Request:
    named = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    if not named:
        raise UsageError("no model is named: name the encoder to check")
    for what, texts in (("rules", rules), ("transformations", transformations)):
        if isinstance(texts, str):
            raise UsageError(f"{what} is one text; give a list")
    if undecided is not None and undecided not in UNDECIDED:
        raise UsageError(f"undecided is `{undecided}`; expected one of {', '.join(UNDECIDED)}")
    if limit is not None and (isinstance(limit, bool) or not 0 < limit < 2**32):
        raise UsageError(f"limit is {limit}; expected 1 or more rows of each data set")
    if any(isinstance(seed, bool) or not 0 <= seed < 2**64 for seed in seeds):
        raise UsageError(f"seeds are {list(seeds)}; expected whole numbers from 0")
    return Request(
        models=tuple(text("model", model) for model in named),
        suite=text("suite", suite),
        rules=tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in rules),
        suite_rules=suite_rules,
        baseline=None if baseline is None else text("baseline", baseline),
        undecided=undecided,
        generator=None if generator is None else text("generator", generator),
        transformations=tuple(text("transformations", one) for one in transformations),
        seeds=tuple(seeds),
        limit=limit,
    )


NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=")


def name(model: str) -> str:
    """The name in `NAME=FOLDER`, else the text itself. A path that is there may have the sign."""
    named = NAMED.match(model)
    return model if named is None or os.path.exists(model) else named[1]


def text(name: str, value: PathLike) -> str:
    """A name or a path as one line of text, or an error that names the argument."""
    found = os.fspath(value)
    if not found.strip() or found != found.strip() or any(ord(mark) < 32 for mark in found):
        raise UsageError(f"{name} is {found!r}; a name or a path is needed, in one line")
    return found
