"""Starts the servers, runs each language's runner on the cases, judges and prints; see ../README.md."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

from . import cases as case_files
from . import provider, rpcs
from .judge import judge, planted
from .reference import Reference
from .servers import Failed, ROOT, Servers

PATIENCE_SECONDS = 400
LANES = 3


def runners(wanted):
    """Each `clients/<language>/conformance.json`: a name, the commands it needs, and its runners."""
    found = []
    for path in sorted((ROOT / "clients").glob("*/conformance.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        for runner in told["runners"]:
            if not wanted or runner["name"] in wanted or told["language"] in wanted:
                found.append({**runner, "language": told["language"], "needs": told.get("needs", []), "folder": path.parent})
    return found


def providers(wanted):
    """The provider of each language that has one."""
    found = []
    for path in sorted((ROOT / "clients").glob("*/conformance.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        if "provider" in told and (not wanted or told["language"] in wanted):
            found.append({**told["provider"], "language": told["language"], "needs": told.get("needs", []), "folder": path.parent})
    return found


def run(runner, cases, servers):
    """A runner's results, and how long it took; or why there are none."""
    if missing := provider.unmet(runner["needs"]):
        return missing, 0
    given = servers.folder / f"{runner['name']}.cases.json"
    taken = servers.folder / f"{runner['name']}.results.json"
    given.write_text(json.dumps({"version": 1, "cases": case_files.resolved(cases, servers.names, runner["name"])}), encoding="utf-8")
    command = [word.replace("{python}", sys.executable) for word in runner["command"]]
    started = time.monotonic()
    try:
        done = subprocess.run(
            [*command, str(given), str(taken)], cwd=runner["folder"], stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, env=quiet()
        )
    except subprocess.TimeoutExpired:
        return f"FAILED: not over after {PATIENCE_SECONDS} s", 0
    took = time.monotonic() - started
    if done.returncode != 0 or not taken.exists():
        return f"FAILED: the runner ended with {done.returncode}", took
    return json.loads(taken.read_text(encoding="utf-8"))["results"], took


def quiet():
    """gRPC's C core writes what it thinks of each refused handshake to stderr."""
    return {"GRPC_VERBOSITY": "NONE", **os.environ}


def verdicts(name, cases, results, reference, servers):
    """Of each case: `ok`, `skipped: why`, or what is wrong."""
    told = {}
    for case in cases:
        result = results.get(case["id"], {})
        stub = servers.fragile if case["server"] == "fragile" else servers.stub
        journal = stub.journal.of(f"{name}/{case['id']}")
        problems = judge(case, result, reference, journal, servers.proxy)
        if result.get("skipped"):
            told[case["id"]] = f"skipped: {result['skipped']}"
        else:
            told[case["id"]] = "; ".join(problems) or "ok"
    return told


def missed(name, cases, results, told, reference, servers):
    """Faults that are planted into good results, and that the judge does not find."""
    count, lines = 0, []
    for case in cases:
        if told[case["id"]] != "ok":
            continue
        stub = servers.fragile if case["server"] == "fragile" else servers.stub
        journal = stub.journal.of(f"{name}/{case['id']}")
        for fault, result, noted in planted(case, results[case["id"]], journal):
            count += 1
            if not judge(case, result, reference, noted, servers.proxy):
                lines.append(f"the judge takes this for good: {name}: {case['id']}: {fault}")
    print(f"{name}: the judge found {count - len(lines)} of {count} planted faults", flush=True)
    return lines


def table(cases, columns):
    """A table with a line per capability and a column per runner: the number of its cases that hold."""
    rows = list(dict.fromkeys(case["row"] for case in cases))
    width = max(map(len, rows))
    lines = ["  ".join([" " * width, *(f"{name:>16}" for name in columns)])]
    for row in rows:
        cells = []
        for told in columns.values():
            if isinstance(told, str):
                cells.append(told.split(":")[0])
                continue
            mine = [told[case["id"]] for case in cases if case["row"] == row]
            skipped = sum(one.startswith("skipped") for one in mine)
            good = sum(one == "ok" for one in mine)
            cells.append("n/a" if skipped == len(mine) else f"{good}/{len(mine) - skipped}")
        lines.append("  ".join([f"{row:<{width}}", *(f"{cell:>16}" for cell in cells)]))
    return "\n".join(lines)


def serve(binary, cases):
    """Starts the servers, writes the cases that a runner gets, and waits."""
    with Servers(binary) as servers:
        path = pathlib.Path("conformance-cases.json")
        path.write_text(json.dumps({"version": 1, "cases": case_files.resolved(cases, servers.names, "by-hand")}, indent=1))
        print(f"the servers run; {path} has the cases. End with Ctrl-C.", flush=True)
        while True:
            time.sleep(1)


def check_runners(binary, cases, waiting):
    """Judges runners until none waits, with servers of its own: some cases stop and restart them. Returns verdicts and faults."""
    columns, failed = {}, []
    with Servers(binary) as servers:
        reference = Reference(servers)
        while runner := next(waiting, None):
            servers.proxy.arm()
            results, took = run(runner, cases, servers)
            name = runner["name"]
            columns[name] = results if isinstance(results, str) else verdicts(name, cases, results, reference, servers)
            print(f"{name}: {results if isinstance(results, str) else f'{took:.0f} s'}", flush=True)
            if not isinstance(results, str):
                failed += missed(name, cases, results, columns[name], reference, servers)
        reference.close()
    return columns, failed


def check_providers(binary, wanted):
    """Faults of the providers."""
    failed = []
    with Servers(binary) as servers:
        for declared in wanted:
            verdict = provider.check(declared, servers)
            print(f"{declared['language']}: provider: {verdict}", flush=True)
            failed += [f"{declared['language']}: provider: {verdict}"] if not verdict.startswith(("ok", "skipped")) else []
    return failed


def check_all(arguments, cases, found):
    """Verdicts of all runners in their order, and faults. Runners mostly wait for servers, so several run at a time."""
    # `next` of a list's iterator is atomic.
    waiting = iter(found)
    with concurrent.futures.ThreadPoolExecutor(LANES + 1) as pool:
        lanes = [pool.submit(check_runners, arguments.isomer, cases, waiting) for _ in range(min(LANES, len(found)))]
        others = pool.submit(check_providers, arguments.isomer, [] if arguments.case else providers(arguments.only))
        columns, failed = {}, others.result()
        for lane in lanes:
            verdicts_of_lane, faults = lane.result()
            columns |= verdicts_of_lane
            failed += faults
    return {runner["name"]: columns[runner["name"]] for runner in found}, failed


def main():
    # The shell that starts this looks for `--only` too, in full.
    parser = argparse.ArgumentParser(
        prog="clients/conformance/run", description="Holds the clients against one table of cases.", allow_abbrev=False
    )
    parser.add_argument("--isomer", required=True, help="the command line's binary")
    parser.add_argument("--only", action="append", default=[], metavar="RUNNER", help="only this language or runner")
    parser.add_argument("--case", action="append", default=[], metavar="ID", help="only cases whose id begins so")
    parser.add_argument("--json", metavar="FILE", help="write every verdict there")
    parser.add_argument("--serve", action="store_true", help="start the servers, write what a runner gets, and wait")
    arguments = parser.parse_args()
    cases = [case for case in case_files.load() if not arguments.case or case["id"].startswith(tuple(arguments.case))]
    if not cases:
        sys.exit(f"no case begins with {', '.join(arguments.case)}")
    failed = []
    found = runners(arguments.only)
    if not found:
        sys.exit("there is no runner of that name")
    absent, count = rpcs.check()
    failed += absent
    print(f"rpcs: the clients have all {count}, but for those that left-out.toml names" if not absent else "rpcs: FAILED", flush=True)
    try:
        if arguments.serve:
            serve(arguments.isomer, cases)
        columns, faults = check_all(arguments, cases, found)
        failed += faults
    except Failed as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    print(table(cases, columns))
    good = 0
    for name, told in columns.items():
        if isinstance(told, str):
            failed += [f"{name}: {told}"] if told.startswith("FAILED") else []
            continue
        good += sum(verdict == "ok" for verdict in told.values())
        failed += [f"{name}: {case}: {verdict}" for case, verdict in told.items() if verdict != "ok" and not verdict.startswith("skipped")]
        reasons = {}
        for case, verdict in told.items():
            if verdict.startswith("skipped"):
                reasons.setdefault(verdict, []).append(case)
        for reason, skipped in reasons.items():
            print(f"{name}: {reason}: {', '.join(skipped)}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(columns, indent=1), encoding="utf-8")
    for line in failed:
        print(f"FAILED  {line}")
    print(f"{good} passed, {len(failed)} failed")
    if failed:
        sys.exit(1)
    if not good:
        # A missing toolchain says nothing about a client: it neither passed nor failed.
        print("NOTHING WAS CHECKED: everything that was asked for was skipped")


if __name__ == "__main__":
    main()
