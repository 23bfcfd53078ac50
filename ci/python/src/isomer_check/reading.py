"""`report.json`, read strictly: another version, a missing field or a value out of range is an error, not a guess.

Fields that this package does not know are passed over: they may be added within a version.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import os
import pathlib
import re
import types
import typing
from datetime import datetime
from typing import Any, Dict, Mapping, NoReturn, Optional, Union

from . import report
from .errors import ReportError, is_expected
from .report import SCHEMA, Report

__tracebackhide__ = is_expected

# RFC 3339, with more digits of a second than `datetime` keeps.
TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")
NEWER = "install a version of isomer-check that is as new as the isomer that wrote it"


def read_report(source: Union[str, bytes, "os.PathLike[str]", Mapping[str, Any]]) -> Report:
    """A report: the path of a `report.json`, its content as bytes, or what `json.loads` made of it."""
    if isinstance(source, (str, os.PathLike)):
        try:
            source = pathlib.Path(source).read_bytes()
        except OSError as error:
            raise ReportError(f"the report cannot be read: {error}") from error
    if isinstance(source, bytes):
        try:
            source = json.loads(source.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
        except ValueError as error:
            raise ReportError(f"the report is not JSON: {error}") from error
    if not isinstance(source, Mapping):
        raise ReportError(f"the report is {_named(source)}, not an object")
    version = source.get("schema")
    if version != SCHEMA:
        told = "has no version (`schema`)" if version is None else f"is of version {version!r}"
        raise ReportError(f"the report {told}; this version of isomer-check reads {SCHEMA!r}: {NEWER}, or an older one for an older report")
    read: Report = value_read(source, Report, "")
    return read


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _once(pairs: typing.List[typing.Tuple[str, Any]]) -> Dict[str, Any]:
    """Of two equal names in an object readers keep one or the other: neither can be relied on."""
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(name for at, (name, _) in enumerate(pairs) if name in dict(pairs[:at]))
        raise ValueError(f"the name {twice!r} is there twice in one object")
    return made


def _refused(path: str, why: str) -> NoReturn:
    raise ReportError(f"report.json: `{path or '.'}` {why}; if it is of a newer isomer, {NEWER}", field=path)


def _named(value: Any) -> str:
    names: Dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a whole number", float: "a number", type(None): "null"}
    return next((told for kind, told in names.items() if type(value) is kind), "something else")


def value_read(value: Any, kind: Any, path: str, limits: Optional[Mapping[str, Any]] = None) -> Any:
    """A value of JSON as this type, or ReportError that names its path."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _optional(value, inner, path, limits)
    if origin is list:
        if not isinstance(value, list):
            _refused(path, f"is {_named(value)}, not a list")
        return [value_read(one, inner[0], f"{path}[{at}]", limits) for at, one in enumerate(_any(value))]
    if origin is dict:
        return {key: value_read(one, inner[1], f"{path}.{key}", limits) for key, one in _object(value, path).items()}
    if dataclasses.is_dataclass(kind):
        return _record(_object(value, path), typing.cast(type, kind), path)
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            _refused(path, f"is {_named(value)}, not a number" if not isinstance(value, float) else "is not a finite number")
        return _within(float(value), limits, path)
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            _refused(path, f"is {_named(value)}, not a whole number")
        return _within(value, limits, path)
    if kind is datetime:
        return _time(value, path)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        if not isinstance(value, str) or value not in {one.value for one in kind}:
            _refused(path, f"is {value!r}; expected one of {', '.join(str(one.value) for one in kind)}")
        return kind(value)
    if not isinstance(value, kind):
        _refused(path, f"is {_named(value)}, not {'a text' if kind is str else 'true or false'}")
    return value


def _any(value: Any) -> typing.List[Any]:
    return list(value)


def _optional(value: Any, kinds: typing.Tuple[Any, ...], path: str, limits: Optional[Mapping[str, Any]]) -> Any:
    (kind,) = (kind for kind in kinds if kind is not type(None))
    return None if value is None else value_read(value, kind, path, limits)


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _refused(path, f"is {_named(value)}, not an object")
    return typing.cast(Mapping[str, Any], value)


@functools.lru_cache(maxsize=None)
def _hints(kind: type) -> Dict[str, Any]:
    return typing.get_type_hints(kind, dict(vars(report)))


def _record(found: Mapping[str, Any], kind: type, path: str) -> Any:
    given: Dict[str, Any] = {}
    hints = _hints(kind)
    for field in dataclasses.fields(kind):
        here = f"{path}.{field.name}" if path else field.name
        if field.name in found:
            if "const" in field.metadata and found[field.name] != field.metadata["const"]:
                _refused(here, f"is {found[field.name]!r}, not {field.metadata['const']!r}")
            given[field.name] = value_read(found[field.name], hints[field.name], here, field.metadata)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            _refused(here, "is missing")
    return kind(**given)


def _within(value: Any, limits: Optional[Mapping[str, Any]], path: str) -> Any:
    low, high = (limits or {}).get("minimum"), (limits or {}).get("maximum")
    if low is not None and value < low or high is not None and value > high:
        _refused(path, f"is {value}; expected {f'{low} to {high}' if high is not None else f'{low} or more'}")
    return value


def _time(value: Any, path: str) -> datetime:
    found = TIME.fullmatch(value) if isinstance(value, str) else None
    if not found:
        _refused(path, f"is {value!r}, not a time as in 2026-11-21T10:00:00Z")
    second, fraction, zone = found.groups()
    try:
        return datetime.fromisoformat(second + ((fraction or ".") + "000000")[:7] + ("+00:00" if zone == "Z" else zone))
    except ValueError as error:
        _refused(path, f"is {value!r}: {error}")
