"""A check by the `isomer` command of this machine."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from typing import Dict, List, Mapping, Optional, Tuple

from .errors import CheckError, DependencyFailed, UsageError, is_expected
from .request import OnProgress, PathLike, Progress, Request

__tracebackhide__ = is_expected

FILES = {"json": "report.json", "html": "report.html", "markdown": "report.md", "junit": "junit.xml"}
STAGES = ("plan", "transform", "encode", "score", "judge", "report")
STEP = re.compile(rf"({'|'.join(STAGES)}) +(\d+)/(\d+)  (.*)")
CACHED = re.compile(r"(\d+) from cache(?:, |$)")
REMAINING = re.compile(r"about (\d+) (second|minute|hour|day|week|year)s? left(?:, |$)")
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "year": 31557600}
# Variables of the command that name places and bounds of cost. All other variables of its flags are
# withheld from it: a check is what the call and the suite say, whatever a shell happens to have.
PASSED = {
    *("API_KEY_OVER_PLAIN_TEXT", "CA_FILE", "CERTIFICATE_FILE", "CERTIFICATE_KEY_FILE", "CONFIG", "HOME", "OFFLINE", "DATA_ROOTS", "LOG"),
    *("DEVICE", "BACKEND", "ENGINE", "STORE", "ATTEST", "ITEMS", "MAX_CALLS", "MAX_COST"),
}


def found(binary: Optional[PathLike]) -> str:
    """The command: as given, beside this Python (where pip puts it), or on the path."""
    if binary is not None:
        path = shutil.which(os.fspath(binary))
        if path is None:
            raise UsageError(f"binary: `{os.fspath(binary)}` is not a program that can be run")
        return path
    beside = pathlib.Path(sysconfig.get_path("scripts")) / ("isomer.exe" if os.name == "nt" else "isomer")
    path = str(beside) if os.access(beside, os.X_OK) else shutil.which("isomer")
    if path is None:
        raise UsageError("there is no `isomer` command: pip install ./cli in a clone of Isomer, name it with binary=, or a gateway with server= (ISOMER_SERVER)")
    return path


def arguments(request: Request, out: str) -> List[str]:
    """`--flag=value` throughout, so that no value is taken for a flag."""
    given = [f"--suite={request.suite}", f"--out={out}", *(f"--model={model}" for model in request.models)]
    given += [f"--rule={rule}" for rule in request.rules]
    given += [f"--transformation={one}" for one in request.transformations]
    if request.seeds:
        given.append(f"--seeds={','.join(map(str, request.seeds))}")
    for flag, value in (("baseline", request.baseline), ("undecided", request.undecided), ("generator", request.generator), ("limit", request.limit)):
        if value is not None:
            given.append(f"--{flag}={value}")
    return given if request.suite_rules else [*given, "--no-suite-rules"]


def environment(binary: str, given: Mapping[str, str]) -> Dict[str, str]:
    plain = {name: value for name, value in given.items() if not name.startswith("ISOMER_")}
    shown = subprocess.run([binary, "check", "--help"], env=plain, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    # The help is wrapped to the width of the terminal, so any space may be a line break.
    flags = set(re.findall(r"\[env:\s+ISOMER_(\w+)=", shown.stdout))
    if not flags:
        raise DependencyFailed(f"{binary} check --help ended with {shown.returncode} and named no variable: {shown.stderr.strip()}")
    withheld = {f"ISOMER_{name}" for name in flags - PASSED}
    return {name: value for name, value in given.items() if name not in withheld}


def run(binary: str, request: Request, progress: Optional[OnProgress]) -> Tuple[int, Dict[str, bytes]]:
    """The exit code and every form of the report. Raises for the codes that go with no report."""
    with tempfile.TemporaryDirectory(prefix="isomer-check-") as folder:
        command = [binary, "check", *arguments(request, folder)]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(binary, os.environ)
        )
        lines: List[str] = []
        try:
            assert child.stderr is not None
            for raw in child.stderr:
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                lines = [*lines[-199:], line]
                if progress is not None and not line.startswith("error:"):
                    progress(step(line))
            code = child.wait()
        except BaseException:
            _stop(child)
            raise
        finally:
            if child.stderr is not None:
                child.stderr.close()
        if code not in (0, 1, 4):
            raise _failed(code, lines)
        forms: Dict[str, bytes] = {}
        for form, name in FILES.items():
            try:
                forms[form] = (pathlib.Path(folder) / name).read_bytes()
            except OSError as error:
                raise DependencyFailed(f"isomer check ended with {code} and left no {name}: {error}") from error
        return code, forms


def step(line: str) -> Progress:
    """A line of the command's progress."""
    parts = STEP.fullmatch(line)
    if not parts:
        return Progress("", detail=line)
    tail, cached, remaining = parts[4], 0, None
    if told := CACHED.match(tail):
        cached, tail = int(told[1]), tail[told.end() :]
    if told := REMAINING.match(tail):
        remaining, tail = float(int(told[1]) * SECONDS[told[2]]), tail[told.end() :]
    return Progress(parts[1], int(parts[2]), int(parts[3]), cached, remaining, tail)


def _failed(code: int, lines: List[str]) -> CheckError:
    start = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].startswith("error:")), None)
    message = "\n".join(lines[-10:] if start is None else lines[start:]).removeprefix("error:").strip()
    if code == 2:
        return UsageError(message)
    if code == 3:
        return DependencyFailed(message)
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return DependencyFailed(f"isomer check {how}, which says neither pass nor fail: {message}")


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """As an interrupt at the command line does: the run is cancelled, and what was generated is kept."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
