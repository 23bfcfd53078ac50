"""Runs the steps of a composite action as GitHub documents it, as far as actions of ours need it.

`actions/cache` and `actions/upload-artifact` are done by this file. Expressions are put into `run` as text, as GitHub does it: that is what makes an action open to injection, so it has to be so here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
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
    """Files and outputs of a run of an action."""

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
    """`${{ … }}`: names of contexts, texts, `==`, `!=`, `!`, `&&`, `||`, functions without arguments, and `hashFiles(ONE)`."""

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
            if name == "hashFiles":
                found = self._hash(str(self._either()))
                assert self._next(")")
                return found
            assert self._next(")")
            return self._functions[name]
        found = self._contexts
        for part in name.split("."):
            # A property that is not there is an empty text.
            found = found.get(part, "")
            if found == "":
                break
        return found


    def _hash(self, pattern: str) -> str:
        """Of the workspace's files; an empty text if there are none."""
        workspace = pathlib.Path(self._contexts["github"]["workspace"])
        files = [path for path in sorted(workspace.rglob("*")) if path.is_file() and path.relative_to(workspace).match(pattern)] if pattern.strip() else []
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest() if files else ""


class Cache:
    """`actions/cache/restore` and `actions/cache/save` on a folder: what a key names never changes."""

    def __init__(self, folder: pathlib.Path, home: pathlib.Path) -> None:
        self._folder, self._home = folder, home

    def restore(self, values: Mapping[str, str]) -> Dict[str, str]:
        prefixes = values.get("restore-keys", "").split()
        entries = [one for prefix in prefixes for one in sorted(self._folder.glob(f"{prefix}*"), key=lambda one: one.stat().st_mtime_ns, reverse=True)]
        found = [one for one in [self._folder / values["key"], *entries] if one.exists()]
        if not found:
            return {"cache-hit": ""}
        for at, path in enumerate(self._paths(values)):
            copied(found[0] / str(at), path)
        return {"cache-hit": str(found[0].name == values["key"]).lower()}

    def save(self, values: Mapping[str, str]) -> None:
        entry = self._folder / values["key"]
        assert re.fullmatch(r"[\w.-]+", values["key"]), values["key"]
        if entry.exists():
            return
        for at, path in enumerate(self._paths(values)):
            copied(path, entry / str(at))

    def _paths(self, values: Mapping[str, str]) -> List[pathlib.Path]:
        return [pathlib.Path(line.strip().replace("~", str(self._home), 1)) for line in values["path"].splitlines() if line.strip()]


def copied(path: pathlib.Path, to: pathlib.Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, to, dirs_exist_ok=True)
    elif path.exists():
        shutil.copyfile(path, to)


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
    caches: Optional[pathlib.Path] = None,
) -> Ran:
    """One use of an action in a job whose workspace and temporary folder are in `folder`. `caches` outlives the job."""
    described: Any = read_yaml(action / "action.yml")
    workspace, temporary = folder / "workspace", folder / "temp"
    for made in (workspace, temporary):
        made.mkdir(parents=True, exist_ok=True)
    files = {name: temporary / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH")}
    cache = Cache(caches or folder / "caches", folder)
    contexts: Dict[str, Any] = {
        "github": {
            "action_path": str(action),
            "token": TOKEN,
            "workspace": str(workspace),
            "job": "robust",
            "run_attempt": "1",
            "run_id": hashlib.sha256(str(folder).encode()).hexdigest()[:8],
        },
        "runner": {"temp": str(temporary), "os": "Linux", "arch": "X64"},
        "env": dict(environment or {}),
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
            values = {key: filled(value, contexts, ran.failed) for key, value in step["with"].items()}
            if step["uses"] == "actions/cache/restore@v4":
                contexts["steps"][step["id"]] = {"outputs": cache.restore(values)}
                continue
            if step["uses"] == "actions/cache/save@v4":
                cache.save(values)
                continue
            assert step["uses"].startswith("actions/upload-artifact@"), step["uses"]
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
