"""A check as a job of GitHub Actions or GitLab CI: `python -m isomer_check.ci github|gitlab`.

Settings come in variables (CHECK_MODEL and so on) and go nowhere near a shell. Printed text, and
parts of it from models and data, cannot be taken for a command to the runner.
A comment that cannot be made is a warning: it changes no verdict.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import secrets
import signal
import sys
import traceback
from typing import Dict, List, Mapping, Optional, Tuple

from .checking import Checked, check, clear, explained, raise_for_gate
from .errors import CheckError, NothingJudged, UsageError
from .report import GateVerdict
from .request import Progress, text
from .thread import Forge, GitHub, GitLab, Unposted

# Maximum number of bytes that GitHub accepts in a step's summary, and of characters that both
# accept in a comment.
SUMMARY_BYTES = 1024 * 1024
COMMENT_CHARACTERS = 60_000


@dataclasses.dataclass(frozen=True)
class Ended:
    """Result of the job."""

    exit_code: int
    verdict: str
    """`pass`, `fail`, `undecided`, `invalid`, `none` (nothing was judged), or `error`."""
    message: str
    checked: Optional[Checked] = None


def main() -> int:
    if sys.argv[1:] not in (["github"], ["gitlab"]):
        print(__doc__, file=sys.stderr)
        return 2
    # A job that is cancelled ends its run, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    on, environment = sys.argv[1], dict(os.environ)
    out = environment.get("CHECK_OUT") or "isomer-report"
    ended = checked(environment, out)
    for line in ended.message.splitlines():
        say(line)
    outputs = {"verdict": ended.verdict, "exit-code": str(ended.exit_code), "report": out if ended.checked else ""}
    body = described(ended)
    if on == "github":
        told_to_github(environment, outputs, ended, body)
    else:
        told_to_gitlab(environment, outputs)
    if environment.get("CHECK_COMMENT", "").strip().lower() == "true":
        commented(GitHub(environment) if on == "github" else GitLab(environment), body, environment)
    return ended.exit_code


def say(line: str) -> None:
    """A line that starts with `::` would be a command to GitHub's runner; no line of ours does."""
    print(f"isomer: {line}", flush=True)


def checked(environment: Mapping[str, str], out: str) -> Ended:
    try:
        done = _check(environment, out)
    except CheckError as error:
        return Ended(error.exit_code, "error", f"error: {error}")
    except Exception:
        # Not 1, which would say that the gate failed.
        return Ended(3, "error", f"error: {traceback.format_exc()}")
    gate = done.report.gate
    try:
        raise_for_gate(done)
    except NothingJudged as error:
        return Ended(error.exit_code, "none", f"error: {error}", done)
    except CheckError as error:
        return Ended(error.exit_code, gate.verdict.value if gate else "none", str(error), done)
    assert gate is not None
    warning = "warning: an undecided gate blocks nothing here; " if gate.verdict != GateVerdict.PASS else ""
    return Ended(0, gate.verdict.value, warning + explained(gate), done)


def _check(environment: Mapping[str, str], out: str) -> Checked:
    # First of all: a report of an earlier check is not to become this job's artifact.
    clear(pathlib.Path(text("out", out)))
    flag(environment, "CHECK_COMMENT")

    def one(name: str) -> Optional[str]:
        return environment.get(f"CHECK_{name}", "").strip() or None

    models = lines(environment.get("CHECK_MODEL", ""))
    if not models:
        raise UsageError("model is empty: name the encoder to check, one a line")
    limit = one("LIMIT")
    if limit is not None and not (limit.isascii() and limit.isdigit()):
        raise UsageError(f"limit is `{limit}`; expected 1 or more rows of each data set")
    return check(
        models,
        suite=one("SUITE") or "quick",
        rules=lines(environment.get("CHECK_RULES", "")),
        suite_rules=flag(environment, "CHECK_SUITE_RULES", True),
        baseline=one("BASELINE"),
        undecided=one("UNDECIDED"),
        generator=one("GENERATOR"),
        transformations=lines(environment.get("CHECK_TRANSFORMATIONS", "")),
        limit=None if limit is None else int(limit),
        gate=False,
        out=out,
        progress=shown,
        # The job says where it runs, and not a variable of its surroundings.
        server=one("SERVER") or "",
    )


def lines(value: str) -> List[str]:
    return [line.strip() for line in value.splitlines() if line.strip()]


def flag(environment: Mapping[str, str], name: str, default: bool = False) -> bool:
    value = environment.get(name, "").strip().lower()
    if value not in ("", "true", "false"):
        raise UsageError(f"{name.removeprefix('CHECK_').lower()} is `{value}`; expected true or false")
    return default if not value else value == "true"


def shown(progress: Progress) -> None:
    say(f"{progress.stage} {progress.done}/{progress.total} {progress.detail}" if progress.stage else progress.detail)


def described(ended: Ended) -> str:
    """The report as Markdown, or why there is none."""
    if ended.checked is None:
        # Indented, a text is shown as it is, whatever it holds.
        quoted = "\n".join(f"    {line}" for line in ended.message.splitlines())
        return f"# Robustness check: no report\n\nThe check ended with exit code {ended.exit_code}, and says neither pass nor fail.\n\n{quoted}\n"
    head = "" if ended.verdict != "none" else "**No rule judged any encoder, so the job fails: this report says nothing for or against one.**\n\n"
    return head + ended.checked.markdown


def cut(body: str, most: int, size: "type[str] | type[bytes]") -> str:
    """As much as there is room for, in whole lines, and how to see the rest."""
    tail = "\n\n*Shortened: the whole report is in the job's artifact.*\n"

    def length(part: str) -> int:
        return len(part.encode("utf-8")) if size is bytes else len(part)

    if length(body) <= most:
        return body
    kept: List[str] = []
    room = most - length(tail)
    for line in body.splitlines(keepends=True):
        room -= length(line)
        if room < 0:
            break
        kept.append(line)
    return "".join(kept) + tail


def told_to_github(environment: Mapping[str, str], outputs: Mapping[str, str], ended: Ended, body: str) -> None:
    for name, value in outputs.items():
        # No value can end this block: its end is drawn.
        end = f"end-{secrets.token_hex(16)}"
        appended(environment.get("GITHUB_OUTPUT"), f"{name}<<{end}\n{value}\n{end}\n")
    appended(environment.get("GITHUB_STEP_SUMMARY"), cut(body, SUMMARY_BYTES - 1024, bytes))
    if ended.exit_code:
        told = f"{ended.verdict}: {ended.message}".replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        print(f"::error title=Isomer::{told}", flush=True)


def told_to_gitlab(environment: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    path = environment.get("CHECK_DOTENV") or "isomer-check.env"
    written = "".join(f"CHECK_{name.upper().replace('-', '_')}={value}\n" for name, value in outputs.items())
    pathlib.Path(path).write_text(written, encoding="utf-8")


def appended(path: Optional[str], text: str) -> None:
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def commented(forge: Forge, body: str, environment: Mapping[str, str]) -> None:
    """One comment for each job, written anew at the next check."""
    mark = f"<!-- isomer-check {hashlib.sha256(repr(_job(environment)).encode()).hexdigest()[:16]} -->\n"
    # A name in a text of the data set notifies nobody.
    quiet = body.replace("@", "@\u200b")
    try:
        say(forge.post(mark, mark + cut(quiet, COMMENT_CHARACTERS, str)))
    except Unposted as error:
        say(f"warning: no comment was made: {error}")


def _job(environment: Mapping[str, str]) -> Tuple[Dict[str, str], List[str]]:
    named = {name: environment.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB", "CI_JOB_NAME", "CHECK_SUITE", "CHECK_BASELINE")}
    return named, lines(environment.get("CHECK_MODEL", ""))


if __name__ == "__main__":
    sys.exit(main())
