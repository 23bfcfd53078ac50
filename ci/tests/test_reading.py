"""`report.json` as dataclasses: what is read, and what is refused rather than guessed."""

from __future__ import annotations

import copy
import json
import pathlib
import subprocess
import sys
import typing
from datetime import datetime, timezone
from typing import Any, Callable, Dict

import jsonschema
import pytest
import samples
from isomer_check import GateVerdict, ReportError, read_report
from isomer_check.reading import value_read
from isomer_check.report import Report

FIXTURE = samples.ROOT / "eval-svc/fixtures/report/report.json"
SCHEMA = samples.ROOT / "eval-svc/schema/report-1.json"
(RELEASED,) = samples.ROOT.glob("tests/fixtures/0.1.0/home/runs/*/report.json")


@pytest.fixture
def report() -> Dict[str, Any]:
    made: Dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))
    return made


def test_a_report_is_read_with_its_types() -> None:
    read = read_report(FIXTURE)
    assert read.gate is not None and read.gate.verdict is GateVerdict.FAIL and read.gate.encoders[0].rules[0].low == 4.8
    assert read.run.created == datetime(2026, 11, 21, 10, tzinfo=timezone.utc)
    assert read.encoders and isinstance(read.scores[0].scores, dict)


def test_a_report_of_the_first_release_is_read() -> None:
    read = read_report(RELEASED)
    assert read.isomer_version == "0.1.0" and read.run.created.microsecond == 631629


def test_what_the_schema_takes_is_read_and_what_it_refuses_is_refused(report: Dict[str, Any]) -> None:
    """The generated code against the schema itself, on every value of a report taken away or changed in turn."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    counted = {"refused": 0, "read": 0}
    for part, whole in shortened(report).items():
        validator = jsonschema.Draft202012Validator({**schema["properties"][part], "$defs": schema["$defs"]})
        kind = typing.get_type_hints(Report)[part]
        assert validator.is_valid(whole), part
        for path in places_of(whole):
            for change in (removed, of_another_type, null):
                changed = copy.deepcopy(whole)
                change(changed, path)
                valid = validator.is_valid(changed)
                try:
                    value_read(changed, kind, part)
                    read = True
                except ReportError:
                    read = False
                # Reports of older versions lack what has a default; so what is read may be more,
                # never less.
                assert read or not valid, (part, path, change.__name__)
                assert valid or not read or change is removed, (part, path, change.__name__)
                counted["read" if read else "refused"] += 1
    assert counted["refused"] > 500 and counted["read"] > 50, counted


def places_of(value: Any, path: "tuple[Any, ...]" = ()) -> "list[tuple[Any, ...]]":
    """Paths of all values."""
    if isinstance(value, dict):
        found: Dict[str, Any] = {str(key): one for key, one in as_items(value)}
        return [place for key, one in found.items() for place in ((*path, key), *places_of(one, (*path, key)))]
    return places_of(value[0], (*path, 0)) if isinstance(value, list) and value else []


def shortened(value: Any) -> Any:
    """With one entry in each list: entries of a list have one type."""
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in as_items(value)}
    return [shortened(value[0])] if isinstance(value, list) and value else value


def as_items(value: Any) -> Any:
    return value.items()


def within(report: Any, path: "tuple[Any, ...]") -> Any:
    for key in path[:-1]:
        report = report[key]
    return report


def removed(report: Any, path: "tuple[Any, ...]") -> None:
    del within(report, path)[path[-1]]


def of_another_type(report: Any, path: "tuple[Any, ...]") -> None:
    holder = within(report, path)
    holder[path[-1]] = 1.5 if isinstance(holder[path[-1]], (str, bool, list, dict)) else "text"


def null(report: Any, path: "tuple[Any, ...]") -> None:
    within(report, path)[path[-1]] = None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.update(schema="isomer.report/2"), "is of version 'isomer.report/2'; this version of isomer-check reads 'isomer.report/1'"),
        (lambda r: r.pop("schema"), "has no version"),
        (lambda r: r["gate"]["encoders"][0].update(verdict="maybe"), "`gate.encoders[0].verdict` is 'maybe'; expected one of pass, undecided"),
        (lambda r: r["gate"]["encoders"][0]["rules"][0].pop("verdict"), "`gate.encoders[0].rules[0].verdict` is missing"),
        (lambda r: r["gate"].update(blocked=1), "`gate.blocked` is a whole number, not true or false"),
        (lambda r: r["gate"].update(alpha=True), "`gate.alpha` is true or false, not a number"),
        (lambda r: r["gate"]["encoders"][0]["rules"][0].update(units=-1), "`gate.encoders[0].rules[0].units` is -1; expected 0 to"),
        (lambda r: r["run"].update(created="yesterday"), "`run.created` is 'yesterday', not a time"),
        (lambda r: r["suite"]["transformations"][0].update(transformation={"name": "rot13"}), "is 'rot13'; expected one of paraphrase, backtranslation, "),
    ],
)
def test_a_refusal_names_the_field_and_the_remedy(report: Dict[str, Any], change: Callable[[Dict[str, Any]], Any], told: str) -> None:
    change(report)
    with pytest.raises(ReportError) as refused:
        read_report(report)
    assert told in str(refused.value) and "install a version of isomer-check that is as new" in str(refused.value)
    assert refused.value.exit_code == 3


def test_a_field_of_a_later_version_is_passed_over(report: Dict[str, Any]) -> None:
    report["gate"]["later"] = {"any": 1}
    assert read_report(report) == read_report(FIXTURE)


def test_a_transformation_keeps_its_parameters(report: Dict[str, Any]) -> None:
    report["suite"]["transformations"][0]["transformation"] = {"name": "worded", "of": {"name": "paraphrase"}, "prompt": "paraphrase-b"}
    read = read_report(report).suite.transformations[0].transformation
    assert read.name == "worded" and read.of is not None and read.of.name == "paraphrase"


def test_what_is_no_json_of_a_report_is_refused(tmp_path: pathlib.Path) -> None:
    for content in (b"", b"[]", b"\xff", b'{"schema": NaN}', b'{"schema": "isomer.report/1", "schema": "isomer.report/1"}'):
        with pytest.raises(ReportError):
            read_report(content)
    with pytest.raises(ReportError, match="cannot be read"):
        read_report(tmp_path / "none.json")


def test_generated_code_that_is_out_of_date_is_noticed(tmp_path: pathlib.Path) -> None:
    """The drift check of `ci/check`, on a copy of the tree with another schema."""
    tool, schema, code = tmp_path / "ci/python/tools/generate.py", tmp_path / "eval-svc/schema/report-1.json", tmp_path / "ci/python/src/isomer_check/report.py"
    for target in (tool, schema, code):
        target.parent.mkdir(parents=True)
        target.write_bytes((samples.ROOT / target.relative_to(tmp_path)).read_bytes())

    def drift() -> int:
        return subprocess.run([sys.executable, tool, "--check"], capture_output=True).returncode

    assert drift() == 0
    changed = json.loads(schema.read_text(encoding="utf-8"))
    changed["$defs"]["GateVerdict"]["oneOf"].append({"type": "string", "const": "later", "description": "New."})
    schema.write_text(json.dumps(changed), encoding="utf-8")
    assert drift() != 0
    # A keyword that the generator does not follow is not passed over.
    changed["$defs"]["RunInfo"]["properties"]["id"]["pattern"] = "x"
    schema.write_text(json.dumps(changed), encoding="utf-8")
    told = subprocess.run([sys.executable, tool], capture_output=True, text=True)
    assert told.returncode != 0 and "`pattern` is not known" in told.stderr
