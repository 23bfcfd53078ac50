"""`check` with the command and through a gateway: each end, and what must never pass for one."""

from __future__ import annotations

import os
import pathlib
import re
import stat
import subprocess
from typing import Any, Dict, List, Type

import isomer_client
import pytest
import samples
from isomer_check import (
    Checked,
    CheckError,
    DependencyFailed,
    GateFailed,
    GateInvalid,
    GateUndecided,
    GateVerdict,
    NothingJudged,
    Progress,
    ReportError,
    UsageError,
    check,
)
from isomer_check.local import PASSED, environment, step
from samples import MISSING, ROBUST, RULE, STRICT, SUITE, UNCERTAIN, WORSE


class Ways:
    """A check in one of the two ways; encoders have short names at the gateway."""

    def __init__(self, server: str) -> None:
        self.server = server

    def named(self, model: str) -> str:
        return pathlib.Path(model).name if self.server else model

    def __call__(self, model: str, rules: List[str], **more: Any) -> Checked:
        where: Dict[str, Any] = {"server": self.server} if self.server else {"server": "", "binary": samples.binary()}
        if "baseline" in more:
            more["baseline"] = self.named(more["baseline"])
        return check(self.named(model), rules=rules, **{"suite": SUITE, **where, **more})


@pytest.fixture(params=["command", "gateway"])
def way(request: pytest.FixtureRequest) -> Ways:
    return Ways("" if request.param == "command" else request.getfixturevalue("gateway"))


def test_a_robust_encoder_passes(way: Ways) -> None:
    checked = way(ROBUST, [RULE])
    assert (checked.verdict, checked.exit_code) == (GateVerdict.PASS, 0)
    assert checked.report.gate and checked.report.gate.rules[0].kind == "max_drop" and checked.report.gate.rules[0].max_shared == 1.0


@pytest.mark.parametrize(
    ("model", "rules", "more", "kind", "code", "told"),
    [
        (WORSE, [RULE], {}, GateFailed, 1, r'breaks "stopword_removal drops by at most 5 points".*: drop 2\d\.\d\d points, bounds \d+\.\d\d to \d+\.\d\d \(each at 95 %\), limit 5\.00'),
        (UNCERTAIN, [RULE], {}, GateUndecided, 4, r"the data leave undecided whether .* bounds -\d"),
        (UNCERTAIN, [RULE], {"undecided": "fail"}, GateFailed, 1, "undecided"),
        (WORSE, [STRICT], {}, GateInvalid, 4, "nothing can be said .*(?s:.)*have the vector of a text with other words"),
        (MISSING, [RULE], {}, UsageError, 2, "not_there"),
        (ROBUST, [RULE.replace("of=stopword_removal", "of=nothing")], {}, UsageError, 2, "unknown quantity `nothing`"),
        (ROBUST, [RULE], {"suite": "no-such-suite"}, UsageError, 2, "no-such-suite"),
        (ROBUST, [], {}, NothingJudged, 2, "no rule judged any encoder"),
    ],
)
def test_every_other_end_is_its_exception(
    way: Ways, model: str, rules: List[str], more: Dict[str, Any], kind: Type[CheckError], code: int, told: str
) -> None:
    with pytest.raises(CheckError) as ended:
        way(model, rules, **more)
    assert type(ended.value) is kind and ended.value.exit_code == code, repr(ended.value)
    assert re.search(told, str(ended.value)), str(ended.value)
    assert (ended.value.checked is not None) == (kind in (GateFailed, GateUndecided, GateInvalid, NothingJudged))


def test_undecided_passes_only_where_it_is_told_to(way: Ways) -> None:
    assert way(UNCERTAIN, [RULE], undecided="warn").verdict is GateVerdict.UNDECIDED


def test_without_the_gates_exceptions_the_verdict_is_there(way: Ways) -> None:
    assert way(WORSE, [RULE], gate=False).verdict is GateVerdict.FAIL
    assert way(ROBUST, [], gate=False).verdict is None


def test_both_ways_judge_alike_and_say_how_far_they_are(gateway: str) -> None:
    ends: List[Checked] = []
    for way in (Ways(""), Ways(gateway)):
        seen: List[Progress] = []
        ends.append(way(WORSE, [RULE], gate=False, baseline=ROBUST, progress=seen.append))
        assert {"plan", "transform", "encode", "score", "report"} <= {one.stage for one in seen}
        assert any(one.stage == "score" and one.done == one.total == 4 for one in seen), seen
        assert any(one.stage == "" and "1 transformation" in one.detail for one in seen)
    first, second = (one.report.gate for one in ends)
    assert first and second and first.rules == second.rules and first.encoders[0].rules == second.encoders[0].rules
    assert first.baseline and second.baseline and pathlib.Path(first.baseline).name == second.baseline


def test_a_folder_has_the_name_that_it_is_given(gateway: str) -> None:
    named = [f"new={WORSE}", f"old={ROBUST}"]
    ended = check(named, suite=SUITE, rules=[RULE], baseline="old", gate=False, server="", binary=samples.binary())
    assert [one.id for one in ended.report.encoders] == ["new", "old"]
    assert ended.report.gate and [one.encoder for one in ended.report.gate.encoders] == ["new"]
    with pytest.raises(UsageError, match="new="):
        check(named, suite=SUITE, server=gateway)


def test_lines_of_progress_are_read() -> None:
    assert step("transform    5/10  3 from cache, about 2 minutes left, paraphrase, seed 1") == Progress("transform", 5, 10, 3, 120.0, "paraphrase, seed 1")
    assert step("all-MiniLM-L6-v2 1.2 MiB/90 MiB  ") == Progress("", detail="all-MiniLM-L6-v2 1.2 MiB/90 MiB  ")


def test_reports_are_written_and_those_of_an_earlier_check_are_gone(way: Ways, tmp_path: pathlib.Path) -> None:
    way(ROBUST, [RULE], out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "report.html", "report.json", "report.md"]
    with pytest.raises(UsageError):
        way(MISSING, [RULE], out=tmp_path)
    assert list(tmp_path.iterdir()) == []
    way(ROBUST, [RULE], out=tmp_path)
    with pytest.raises(UsageError):
        way(ROBUST, ["nonsense"], out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_callback_raises_ends_the_check_and_the_run(way: Ways, gateway: str) -> None:
    class Enough(Exception):
        pass

    def stop(progress: Progress) -> None:
        raise Enough

    with pytest.raises(Enough):
        way(ROBUST, [RULE], progress=stop)
    if way.server:
        with isomer_client.Client(gateway) as client:
            newest = next(iter(client.runs.list()))
            ended = client.runs.wait(newest.id)
            assert "the caller ended the check" in ended.error or ended.state == 3, ended


@pytest.mark.parametrize("name", ["UNDECIDED", "NO_SUITE_RULES", "SERVER", "RULES", "BASELINE", "CHECK_MODEL", "CHECK_LIMIT"])
def test_a_variable_of_the_shell_is_no_part_of_the_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"UNDECIDED": "warn", "NO_SUITE_RULES": "true", "SERVER": "127.0.0.1:9", "RULES": "max_drop=200,of=stopword_removal", "CHECK_LIMIT": "1"}.get(name, MISSING)
    monkeypatch.setenv(f"ISOMER_{name}", value)
    with pytest.raises(GateUndecided):
        Ways("")(UNCERTAIN, [RULE])


@pytest.mark.parametrize("columns", ["30", "80", "100000"])
def test_only_places_and_bounds_of_cost_pass_to_the_command(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100000")
    shown = subprocess.run([samples.binary(), "check", "--help"], capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"\[env:\s+ISOMER_(\w+)=", shown))
    assert PASSED <= named
    given = {f"ISOMER_{name}": "a long value " * 9 for name in named} | {"PATH": "/bin", "ISOMER_OPENAI_KEY": "secret", "ISOMER_EMBED__DEVICE": "cpu", "COLUMNS": columns}
    passed = {f"ISOMER_{name}" for name in PASSED} | {"PATH", "ISOMER_OPENAI_KEY", "ISOMER_EMBED__DEVICE", "COLUMNS"}
    assert set(environment(samples.binary(), given)) == passed


def fake(folder: pathlib.Path, script: str) -> str:
    """A command that ends otherwise than it should."""
    path = folder / "fake"
    path.write_text(f"#!/bin/sh\nfor one; do case $one in --help) echo '[env: ISOMER_SUITE=]'; exit;; --out=*) out=${{one#--out=}};; esac; done\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_command_that_contradicts_its_report_is_not_believed(tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(GateFailed):
        check(WORSE, suite=SUITE, rules=[RULE], server="", binary=samples.binary(), out=kept)

    def ends(script: str, models: List[str], kind: Type[CheckError], told: str) -> None:
        with pytest.raises(kind, match=told) as ended:
            check(models, suite=SUITE, rules=[RULE], server="", binary=fake(tmp_path, script))
        assert type(ended.value) is kind

    copied = f"cp {kept}/* $out; exit "
    # The same report with the code that goes with it, for comparison.
    ends(copied + "1", [WORSE], GateFailed, "breaks")
    ends(copied + "0", [WORSE], ReportError, "ended with 0, and its report says fail")
    ends(copied + "4", [WORSE], ReportError, "ended with 4")
    ends(copied + "1", [WORSE, ROBUST], ReportError, "asked to judge 2 encoders")
    ends("exit 0", [WORSE], DependencyFailed, "left no report.json")
    ends("kill -9 $$", [WORSE], DependencyFailed, "was ended by SIGKILL")
    ends("echo oh >&2; exit 101", [WORSE], DependencyFailed, "ended with 101, which says neither pass nor fail: oh")
    # One rule's verdict turned round.
    report = kept / "report.json"
    text = report.read_text(encoding="utf-8")
    start = text.index('"encoders"', text.index('"gate"'))
    at = text.rindex('"fail"', start, text.index('"estimate"', start))
    report.write_text(text[:at] + '"pass"' + text[at + len('"fail"') :], encoding="utf-8")
    ends(copied + "1", [WORSE], ReportError, "does not follow from its rules")


def test_variants_of_a_suite_are_judged_beside_their_encoder(tmp_path: pathlib.Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text('forms = ["f16"]\n' + pathlib.Path(SUITE).read_text(encoding="utf-8"), encoding="utf-8")
    found = check(ROBUST, suite=suite, rules=[RULE], undecided="warn", server="", binary=samples.binary())
    assert [one.variant is not None for one in found.report.encoders] == [False, True]
    assert found.report.gate is not None and len(found.report.gate.encoders) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"models": []}, "no model is named"),
        ({"models": ""}, "model is ''"),
        ({"models": "a\nb"}, "in one line"),
        ({"rules": "max_drop=3"}, "rules is one text; give a list"),
        ({"undecided": "ignore"}, "expected one of block, warn, fail"),
        ({"limit": 0}, "limit is 0"),
        ({"seeds": [-1]}, "seeds are"),
        ({"binary": "/nowhere/isomer"}, "binary: "),
        ({"server": "127.0.0.1:9", "binary": "isomer"}, "a server and a binary are given"),
        ({"server": "example.org"}, "it has no port"),
        ({"server": "gateway.example:80", "key": "iso_x"}, "plain text"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_named(arguments: Dict[str, Any], told: str) -> None:
    given: Dict[str, Any] = {"models": ROBUST, "suite": SUITE, "server": "", **arguments}
    with pytest.raises(UsageError) as refused:
        check(**given)
    assert told in str(refused.value)


def test_without_a_command_or_a_server_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(UsageError, match="pip install ./cli"):
        check(ROBUST, server="")


def test_a_server_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    client = isomer_client.Client("127.0.0.1:9", retries=isomer_client.NO_RETRIES)
    with pytest.raises(DependencyFailed):
        check("mpnet", suite=SUITE, rules=[RULE], client=client)
