"""The check, and what it says."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Dict, Iterable, List, Optional, Sequence, Tuple, Type, Union

from isomer_client import Client, IsomerError, Tls

from . import local, remote
from .errors import CheckError, GateFailed, GateInvalid, GateUndecided, NothingJudged, ReportError, UsageError, is_expected
from .reading import read_report
from .report import EncoderVerdict, GateReport, GateRule, GateVerdict, OnUndecided, Report, RuleVerdict
from .request import OnProgress, PathLike, Request, requested
from .rules import Rule
from .words import sentences

__tracebackhide__ = is_expected


@dataclasses.dataclass(frozen=True)
class Checked:
    """A check that ended with a report."""

    report: Report
    exit_code: int
    """Exit codes of `isomer check`: 0, 1 or 4."""
    forms: Dict[str, bytes] = dataclasses.field(repr=False)
    """The report as `json`, `html`, `markdown` and `junit`."""

    @property
    def verdict(self) -> Optional[GateVerdict]:
        """Verdict of the gate; None where no rule judged anything."""
        return self.report.gate.verdict if judged(self.report) and self.report.gate else None

    @property
    def markdown(self) -> str:
        return self.forms["markdown"].decode("utf-8")

    def save(self, folder: PathLike) -> pathlib.Path:
        """Writes report.json, report.html, report.md and junit.xml, the same files as the command's."""
        out = pathlib.Path(folder)
        try:
            out.mkdir(parents=True, exist_ok=True)
            for form, name in local.FILES.items():
                (out / name).write_bytes(self.forms[form])
        except OSError as error:
            raise UsageError(f"out: the report cannot be written: {error}") from error
        return out


def check(
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
    gate: bool = True,
    out: Optional[PathLike] = None,
    progress: Optional[OnProgress] = None,
    server: Optional[str] = None,
    key: Optional[str] = None,
    tls: Optional[Tls] = None,
    client: Optional[Client] = None,
    binary: Optional[PathLike] = None,
) -> Checked:
    """Checks how encoders hold up when the words change and the meaning does not.

    Returns where the gate passed. Every other end is an exception, a CheckError, whose `exit_code` is that of `isomer check`.

    Args:
        models: the encoders to check: ids, or (with the command only) folders of models, or `NAME=FOLDER`, which the report then calls NAME.
        suite: a suite that ships with Isomer, or a suite file (`.toml`), which sets everything that is not an argument here.
        rules: rules of the gate, as Rule or as the command line has them: `"max_drop=3,of=length"`.
        suite_rules: False: the suite's own rules are left out.
        baseline: the encoder to compare the others with: as in `models`, or the NAME of one of them.
        undecided: what an undecided gate means: `block`, `warn` or `fail`; None: the suite's, else `block`.
        generator, transformations, seeds, limit: in place of the suite's.
        gate: False: no exception comes from the gate; look at `verdict`, which is None where nothing was judged.
        out: a folder for the report's files. Those of an earlier check are removed first.
        progress: called with each Progress. An exception that it raises ends the check.
        server: the gateway to check through; None: the one in ISOMER_SERVER; "" or neither: the command checks.
        key, tls: as of `isomer_client.Client`; the key is by default the one in ISOMER_API_KEY.
        client: a client of the gateway, in place of the three.
        binary: the command; None: beside this Python, else on the path.
    """
    if out is not None:
        clear(pathlib.Path(out))
    request = requested(models, suite, rules, suite_rules, baseline, undecided, generator, transformations, seeds, limit)
    if client is not None:
        if server or key or tls:
            raise UsageError("client is given, and server, key or tls too: give one of both")
        code, forms = remote.run(client, request, progress)
    else:
        address = os.environ.get("ISOMER_SERVER", "") if server is None else server
        if address and binary is not None:
            raise UsageError("a server and a binary are given: the server checks without one, so leave one of both out")
        if address:
            code, forms = _remotely(address, key, tls, request, progress)
        else:
            code, forms = local.run(local.found(binary), request, progress)
    checked = Checked(read_report(forms["json"]), code, forms)
    if out is not None:
        checked.save(out)
    agreed(checked, request)
    if gate:
        raise_for_gate(checked)
    return checked


def _remotely(address: str, key: Optional[str], tls: Optional[Tls], request: Request, progress: Optional[OnProgress]) -> Tuple[int, Dict[str, bytes]]:
    try:
        made = Client(address, tls=tls, key=key or os.environ.get("ISOMER_API_KEY") or None)
    except IsomerError as error:
        raise UsageError(str(error)) from error
    with made:
        return remote.run(made, request, progress)


def clear(out: pathlib.Path) -> None:
    """A report of an earlier check is not to be taken for this one's."""
    for name in local.FILES.values():
        try:
            (out / name).unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"out: {out / name} of an earlier check cannot be removed: {error}") from error


def judged(report: Report) -> bool:
    """Whether a rule judged each of the gate's encoders, and there is one."""
    gate = report.gate
    return gate is not None and bool(gate.rules) and bool(gate.encoders) and all(one.rules for one in gate.encoders)


def overall(verdicts: Iterable[GateVerdict]) -> GateVerdict:
    found = set(verdicts)
    return next(one for one in (GateVerdict.FAIL, GateVerdict.INVALID, GateVerdict.UNDECIDED, GateVerdict.PASS) if one in found)


def agreed(checked: Checked, request: Request) -> None:
    """Raises where a report contradicts itself, the exit code or what was asked: then none of it can be relied on."""
    gate = checked.report.gate
    if gate is None or not judged(checked.report):
        if checked.exit_code != 0 or (gate is not None and gate.blocked):
            raise ReportError(f"the check ended with {checked.exit_code}, and its report has no rule that says why", field="gate")
        return
    wanted, variants = request.judged(), {one.id for one in checked.report.encoders if one.variant is not None}
    own = [one.encoder for one in gate.encoders if one.encoder not in variants]
    # A baseline alone is judged by its variants.
    if len(own) != len(wanted) and not (variants and not own and wanted == [request.baseline]):
        raise ReportError(f"asked to judge {len(wanted)} encoders ({', '.join(wanted)}), and the report judges {len(own)} ({', '.join(own)})", field="gate.encoders")
    for at, one in enumerate(gate.encoders):
        if len(one.rules) != len(gate.rules) or one.verdict != overall(rule.verdict for rule in one.rules):
            raise ReportError(f"the verdict on {one.encoder} does not follow from its rules", field=f"gate.encoders[{at}]")
    if gate.verdict != overall(one.verdict for one in gate.encoders) or gate.blocked != _blocks(gate) or checked.exit_code != _code(gate):
        raise ReportError(
            f"the check ended with {checked.exit_code}, and its report says {gate.verdict.value}{', which blocks' if gate.blocked else ''}", field="gate.verdict"
        )


def _blocks(gate: GateReport) -> bool:
    return gate.verdict in (GateVerdict.FAIL, GateVerdict.INVALID) or (gate.verdict == GateVerdict.UNDECIDED and gate.undecided != OnUndecided.WARN)


def _code(gate: GateReport) -> int:
    if not gate.blocked:
        return 0
    return 1 if gate.verdict == GateVerdict.FAIL or (gate.verdict == GateVerdict.UNDECIDED and gate.undecided == OnUndecided.FAIL) else 4


def raise_for_gate(checked: Checked) -> None:
    """Raises the exception of the gate's verdict, and NothingJudged if there is no verdict."""
    gate = checked.report.gate
    if gate is None or not judged(checked.report):
        raise NothingJudged(
            "no rule judged any encoder, so the check says nothing for or against one: give rules, or a suite that has some; gate=False takes the report alone",
            checked=checked,
        )
    if not gate.blocked:
        return
    kinds: Dict[GateVerdict, Type[CheckError]] = {GateVerdict.UNDECIDED: GateUndecided, GateVerdict.INVALID: GateInvalid}
    kind = GateFailed if checked.exit_code == 1 else kinds.get(gate.verdict, GateFailed)
    raise kind(explained(gate), checked=checked)


def explained(gate: GateReport) -> str:
    """Each encoder that does not pass, with each rule that it does not keep."""
    told: List[str] = [_heading(gate)]
    for one in gate.encoders:
        told += [f"  {line}" for rule, said in unmet(gate, one) for line in sentences(one.encoder, rule, said)]
    return "\n".join(told)


def unmet(gate: GateReport, one: EncoderVerdict) -> List[Tuple[GateRule, RuleVerdict]]:
    return [(rule, said) for rule, said in zip(gate.rules, one.rules) if said.verdict != GateVerdict.PASS]


def _heading(gate: GateReport) -> str:
    names = ", ".join(one.encoder for one in gate.encoders if one.verdict == gate.verdict)
    return {
        GateVerdict.PASS: f"the gate passed: {names}",
        GateVerdict.FAIL: f"the gate failed: {names}",
        GateVerdict.UNDECIDED: f"the gate is undecided, which is neither a pass nor a failure of the encoder: {names}",
        GateVerdict.INVALID: f"the gate is invalid: these scores cannot answer the question for {names}",
    }[gate.verdict]
