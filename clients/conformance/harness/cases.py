"""The cases: read from `cases/*.toml`, texts written out, names of servers and secrets filled in."""

import pathlib
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "cases"
# Keys that the judge reads and runners do not.
JUDGED = ("expect", "journal", "why", "row")


def load():
    cases = []
    for path in sorted(FOLDER.glob("*.toml")):
        cases += tomllib.loads(path.read_text(encoding="utf-8"))["case"]
    seen = [case["id"] for case in cases]
    doubled = {name for name in seen if seen.count(name) > 1}
    if doubled:
        raise SystemExit(f"cases of one id: {', '.join(sorted(doubled))}")
    for case in cases:
        for step in case["step"]:
            for field in ("texts", "documents"):
                if field in step:
                    step[field] = texts(step[field])
    return cases


def texts(told):
    """A list, or how to make one: `pattern` with `{n}`, or `cycle`, `count` times; some `replaced`."""
    if isinstance(told, list):
        return told
    count = told["count"]
    if "cycle" in told:
        made = [told["cycle"][n % len(told["cycle"])] for n in range(count)]
    else:
        made = [told["pattern"].replace("{n}", str(n)) * told.get("times", 1) for n in range(count)]
    for place, text in told.get("replaced", {}).items():
        made[int(place)] = text if isinstance(text, str) else texts(text)[0]
    return made


def resolved(cases, names, runner):
    """The cases as one runner gets them: servers and secrets by their values, without the expected results."""

    def fill(value):
        if isinstance(value, str) and "$" in value:
            for name in sorted(names, key=len, reverse=True):
                value = value.replace(f"${name}", names[name])
            return value
        if isinstance(value, list):
            return [fill(one) for one in value]
        if isinstance(value, dict):
            return {key: fill(one) for key, one in value.items()}
        return value

    made = []
    for case in cases:
        connect = fill(case.get("connect", {}))
        address = names.get(case["server"], case["server"])
        connect = {"address": address, **connect}
        connect["metadata"] = {**connect.get("metadata", {}), "x-case": f"{runner}/{case['id']}"}
        steps = [
            {key: fill(value) if key in ("address",) else value for key, value in step.items() if key not in JUDGED} for step in case["step"]
        ]
        made.append({"id": case["id"], "server": case["server"], "connect": connect, "steps": steps})
    return made
