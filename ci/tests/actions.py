"""Runs the steps of a composite action as GitHub documents it, as far as actions of ours need it.

Expressions are put into `run` as text, as GitHub does it: that is what makes an action open to injection, so it has to be so here.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ruamel.yaml import YAML

TOKEN = "github-token-of-the-job"
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.S)
WORDS = re.compile(r"\s*(?:('(?:[^']|'')*')|(&&|\|\||==|!=|!|\(|\))|([A-Za-z_][\w.-]*))")
COMMAND = re.compile(r"^::([\w-]+)(?: ([^:]*))?::(.*)$", re.M)


def read_yaml(path: pathlib.Path) -> Any:
    reader: Any = YAML(typ="safe")
    return reader.load(path.read_text(encoding="utf-8"))


@dataclasses.dataclass
class Ran:
    """What a run of an action left."""

    failed: bool = False
    outputs: Dict[str, str] = dataclasses.field(default_factory=lambda: {})
    summary: str = ""
    uploads: Dict[str, List[str]] = dataclasses.field(default_factory=lambda: {})
    log: str = ""
    steps: Dict[str, int] = dataclasses.field(default_factory=lambda: {})

    def commands(self) -> List[Tuple[str, str]]:
        """Lines that the runner would take for commands."""
        return [(name, told) for name, _, told in COMMAND.findall(self.log)]


class Expression:
    """`${{ … }}`: names of contexts, texts, `==`, `!=`, `!`, `&&`, `||`, and functions without arguments."""

    def __init__(self, text: str, contexts: Mapping[str, Any], failed: bool) -> None:
        self._words: List[Tuple[str, str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = WORDS.match(text, at)
            assert found, f"not understood: {text[at:]}"
            self._words.append((found[1] or "", found[2] or "", found[3] or ""))
            at = found.end()
        self._contexts, self._failed = contexts, failed
        self._functions = {"always": True, "failure": failed, "success": not failed, "cancelled": False}

    def value(self) -> Any:
        found = self._either()
        assert not self._words, self._words
        return found

    def _next(self, *marks: str) -> bool:
        if self._words and self._words[0][1] in marks and self._words[0][1]:
            self._words.pop(0)
            return True
        return False

    def _either(self) -> Any:
        found = self._both()
        while self._next("||"):
            other = self._both()
            found = found or other
        return found

    def _both(self) -> Any:
        found = self._compared()
        while self._next("&&"):
            other = self._compared()
            found = found and other
        return found

    def _compared(self) -> Any:
        found = self._one()
        if self._next("=="):
            return str(found).lower() == str(self._one()).lower()
        if self._next("!="):
            return str(found).lower() != str(self._one()).lower()
        return found

    def _one(self) -> Any:
        if self._next("!"):
            return not self._one()
        if self._next("("):
            found = self._either()
            assert self._next(")")
            return found
        text, _, name = self._words.pop(0)
        if text:
            return text[1:-1].replace("''", "'")
        if self._next("("):
            assert self._next(")")
            return self._functions[name]
        found = self._contexts
        for part in name.split("."):
            # A property that is not there is an empty text.
            found = found.get(part, "")
            if found == "":
                break
        return found


def filled(text: Any, contexts: Mapping[str, Any], failed: bool = False) -> str:
    return EXPRESSION.sub(lambda found: str(Expression(found[1], contexts, failed).value()), str(text))


def wanted(step: Mapping[str, Any], contexts: Mapping[str, Any], failed: bool) -> bool:
    condition = str(step.get("if", "success()"))
    whole = EXPRESSION.fullmatch(condition.strip())
    inner = whole[1] if whole else condition
    if not re.search(r"\b(always|failure|success|cancelled)\(\)", inner):
        inner = f"success() && ({inner})"
    return bool(Expression(inner, contexts, failed).value())


def parsed(path: pathlib.Path) -> Dict[str, str]:
    """A file of outputs: `NAME=VALUE`, or `NAME<<END`, lines, `END`."""
    found: Dict[str, str] = {}
    lines = iter(path.read_text(encoding="utf-8").split("\n"))
    for line in lines:
        name, mark, rest = line.partition("<<") if "<<" in line.split("=", 1)[0] else line.partition("=")
        if mark == "<<":
            value: List[str] = []
            for inner in lines:
                if inner == rest:
                    break
                value.append(inner)
            else:
                raise AssertionError(f"no end of {name}")
            found[name] = "\n".join(value)
        elif mark:
            found[name] = rest
        else:
            assert not line, f"not an output: {line}"
    return found


def run(
    action: pathlib.Path,
    inputs: Mapping[str, str],
    folder: pathlib.Path,
    *,
    environment: Optional[Mapping[str, str]] = None,
    skip: Iterable[str] = (),
) -> Ran:
    """One use of an action in a job whose workspace and temporary folder are in `folder`."""
    described: Any = read_yaml(action / "action.yml")
    workspace, temporary = folder / "workspace", folder / "temp"
    for made in (workspace, temporary):
        made.mkdir(parents=True, exist_ok=True)
    files = {name: temporary / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH")}
    contexts: Dict[str, Any] = {
        "github": {"action_path": str(action), "token": TOKEN, "workspace": str(workspace)},
        "runner": {"temp": str(temporary)},
        "steps": {},
    }
    given: Dict[str, str] = {}
    for name, one in described["inputs"].items():
        assert name in inputs or not one.get("required"), f"the input {name} is required"
        given[name] = inputs[name] if name in inputs else filled(one.get("default", ""), contexts)
    assert set(inputs) <= set(given), f"unknown inputs: {set(inputs) - set(given)}"
    contexts["inputs"] = given
    base = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(workspace),
        "RUNNER_TEMP": str(temporary),
        **(environment or {}),
    }
    ran = Ran()
    for step in described["runs"]["steps"]:
        if not wanted(step, contexts, ran.failed):
            continue
        if step["name"] in skip:
            continue
        if "uses" in step:
            assert step["uses"].startswith("actions/upload-artifact@"), step["uses"]
            values = {key: filled(value, contexts, ran.failed) for key, value in step["with"].items()}
            found = sorted(str(path.relative_to(workspace)) for path in (workspace / values["path"]).rglob("*") if path.is_file())
            ran.failed |= not found and values.get("if-no-files-found") == "error"
            ran.uploads[values["name"]] = found
            continue
        for path in files.values():
            path.write_text("", encoding="utf-8")
        script = temporary / "script.sh"
        script.write_text(filled(step["run"], contexts, ran.failed), encoding="utf-8")
        assert step["shell"] == "bash"
        added = {key: filled(value, contexts, ran.failed) for key, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=workspace,
            env={**base, **{name: str(path) for name, path in files.items()}, **added},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ran.log += done.stdout
        ran.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        ran.steps[step["name"]] = done.returncode
        if "id" in step:
            contexts["steps"][step["id"]] = {"outputs": parsed(files["GITHUB_OUTPUT"])}
        ran.failed |= done.returncode != 0
    ran.outputs = {name: filled(one["value"], contexts, ran.failed) for name, one in described["outputs"].items()}
    return ran
