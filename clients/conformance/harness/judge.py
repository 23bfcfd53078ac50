"""Holds what a runner reports against what a case expects. An empty list of problems: it holds."""

from . import generator, stub, vectors


def judge(case, result, reference, journal, proxy):
    """Problems of one case, in words."""
    problems = []
    steps = result.get("steps", [])
    if result.get("skipped"):
        return []
    if len(steps) != len(case["step"]):
        return [f"{len(steps)} of {len(case['step'])} steps have a result: {result.get('failed', 'no reason is given')}"]
    for number, (step, found) in enumerate(zip(case["step"], steps), 1):
        where = f"step {number}: " if len(steps) > 1 else ""
        problems += [where + problem for problem in judge_step(step, found, reference, proxy)]
    if "journal" in case:
        problems += judge_journal(case["journal"], journal)
    return problems


def planted(case, result, journal):
    """Results as clients with faults would report them, each with the fault's name: the judge must find every one."""
    for number, (step, found) in enumerate(zip(case["step"], result["steps"])):

        def changed(**parts):
            steps = [*result["steps"]]
            steps[number] = {**found, **parts}  # noqa: B023
            return {"steps": steps}

        if "error" in step["expect"]:
            yield "an answer in place of an error", changed(error=None, ok={"rows": []}), journal
            yield "an error of another code", changed(error={**found["error"], "code": "UNKNOWN", "reason": "", "field": None}), journal
            continue
        rows = (found.get("ok") or {}).get("rows") or []
        other = next((place for place, row in enumerate(rows) if row != rows[0]), None)
        if other is not None:
            swapped = [*rows]
            swapped[0], swapped[other] = rows[other], rows[0]
            yield "two rows changed places", changed(ok={**found["ok"], "rows": swapped}), journal
        if rows and "leave_after" not in step:
            yield "a row is lost", changed(ok={**found["ok"], "rows": rows[1:]}), journal
            yield "a row is doubled", changed(ok={**found["ok"], "rows": [rows[0], *rows]}), journal
        if step["expect"] and not rows and step["op"] not in ("fork", "encode"):
            yield "an answer without content", changed(ok={}), journal
    if "journal" in case:
        yield "no request came", result, []
    yield "a step is left out", {"steps": result["steps"][1:]}, journal


def judge_step(step, found, reference, proxy):
    expect, problems = step["expect"], []
    elapsed = found.get("elapsed_ms", 0)
    if elapsed < expect.get("at_least_ms", 0):
        problems.append(f"over after {elapsed} ms, before {expect['at_least_ms']} ms")
    if elapsed > expect.get("within_ms", 120_000):
        problems.append(f"took {elapsed} ms, more than {expect['within_ms']} ms")
    if "tokens_asked" in expect and found.get("tokens_asked") != expect["tokens_asked"]:
        problems.append(f"asked {found.get('tokens_asked')} times for a token in place of {expect['tokens_asked']}")
    if "error" in expect:
        return problems + judge_error(expect["error"], found)
    if "ok" not in found:
        return [*problems, f"failed: {found.get('error', found)}"]
    return problems + judge_value(step, expect, found["ok"], reference, proxy)


def judge_error(expect, found):
    error = found.get("error")
    if error is None:
        return [f"no error in place of {expect}: {str(found)[:200]}"]
    problems = []
    for name, due in expect.items():
        said = error.get(name)
        if name == "metadata":
            wrong = any((said or {}).get(key) != value for key, value in due.items())
        elif due is True:
            wrong = not said
        elif name == "field" and due == "inputs[35]":
            # Servers name the text, or the input.
            wrong = said not in (due, f"{due}.text")
        else:
            wrong = said != due
        if wrong:
            problems.append(f"{name} is {said!r} in place of {due!r} (message: {error.get('message')})")
    if error.get("hint") and error["hint"] not in error.get("shown", ""):
        problems.append("the hint is not in what the error shows")
    return problems


def judge_value(step, expect, value, reference, proxy):
    problems = []
    if "digests" in expect:
        problems += same("digests", expect["digests"], value.get("rows"))
    if "rows" in expect:
        problems += judge_rows(step, expect, value, reference)
    if "outputs" in expect:
        due = reference.outputs(step, expect["outputs"])
        problems += [problem for name in due for problem in same(name, due[name], value.get(name))]
        problems += [f"{name} was not asked for" for name in value if name not in due]
    if "same_as" in expect:
        for name, due in reference.value(step).items():
            problems += same(name, due, value.get(name))
    if "generated" in expect:
        problems += same("texts", [generator.rewritten(text) for text in step["texts"]], value.get("texts"))
        problems += same("indices", list(range(len(step["texts"]))), value.get("indices"))
    if expect.get("ranking") == "stub":
        due = [(index, vectors.score(step["query"], text)) for index, text in enumerate(step["documents"])]
        due.sort(key=lambda one: -one[1])
        problems += same("ranking", [list(one) for one in due][: step.get("top_n")], value.get("ranking"))
    if expect.get("ids") == "stub":
        problems += same("ids", sorted(stub.ENCODERS), value.get("ids"))
    if expect.get("events") is True and not value.get("events"):
        problems.append("no events were seen before the end")
    if "read_at_first_most" in expect and not 0 < value.get("read_at_first", 0) <= expect["read_at_first_most"]:
        problems.append(f"{value.get('read_at_first')} texts were read when the first vectors came; at most {expect['read_at_first_most']}")
    if "restarts" in expect and proxy.restarts != expect["restarts"]:
        problems.append(f"the server was killed {proxy.restarts} times in place of {expect['restarts']}")
    for name in ("holm", "benjamini_hochberg", "main_score", "mean_difference"):
        if name in expect:
            problems += close(name, expect[name], value.get(name))
    plain = ("cols", "token_counts", "counts", "view", "failed", "sequences", "state", "reports", "main_score_key", "items", "n")
    more = ("dimensions", "prompts", "created", "listed", "price", "usable", "deleted", "after", "audited")
    for name in plain + more:
        if name in expect:
            problems += same(name, expect[name], value.get(name))
    return problems


def judge_rows(step, expect, value, reference):
    due = reference.rows(expect["rows"], step, expect) * expect.get("times", 1)
    found = value.get("rows") or []
    if "leave_after" in step:
        due = due[: max(len(found), 1)]
    if len(found) != len(due):
        return [f"{len(found)} rows in place of {len(due)}"]
    wrong = [place for place, (one, other) in enumerate(zip(due, found)) if one != other]
    return [f"{len(wrong)} of {len(due)} rows are others than is due, the first at {wrong[0]}"] if wrong else []


def judge_journal(expect, journal):
    problems = []
    entries = [one for one in journal if one["method"] == expect.get("method", one["method"])]
    if "encoder" in expect:
        entries = [one for one in entries if one.get("encoder") == expect["encoder"]]
    if not entries:
        return ["nothing came to the stub"]
    count = len(entries)
    if "requests" in expect and count != expect["requests"]:
        problems.append(f"{count} requests came to the stub in place of {expect['requests']}")
    if count < expect.get("least_requests", 0) or count > expect.get("most_requests", count):
        problems.append(f"{count} requests came to the stub")
    if "most_texts" in expect and max(len(one["texts"]) for one in entries) > expect["most_texts"]:
        problems.append(f"a request had more than {expect['most_texts']} texts")
    if expect.get("out_of_order"):
        answered = [one["answered"] or float("inf") for one in entries]
        if answered == sorted(answered):
            problems.append("the stub could not answer a later request first: they did not come together")
    if "apart_ms" in expect:
        gaps = [1000 * (later["time"] - (one["answered"] or later["time"])) for one, later in zip(entries, entries[1:])]
        least = min(gaps, default=float("inf"))
        if least < expect["apart_ms"]:
            problems.append(f"asked again after {least:.0f} ms, before {expect['apart_ms']} ms")
    if expect.get("cancelled") and not all(one["cancelled"] for one in entries):
        problems.append("the server was not told that the call is over")
    if "deadline_most_s" in expect:
        longest = max((one["deadline"] or float("inf")) for one in entries)
        if longest > expect["deadline_most_s"]:
            problems.append(f"the server was given {longest} s in place of {expect['deadline_most_s']} at most")
    if "same" in expect:
        values = {one.get(expect["same"]) for one in entries}
        if len(values) != 1 or not all(values):
            problems.append(f"`{expect['same']}` was {values}")
    for name, due in expect.get("each", {}).items():
        problems += same(name, due, [one.get(name) for one in entries])
    metadata = entries[-1]["metadata"]
    for name, due in expect.get("metadata", {}).items():
        problems += same(f"metadata {name}", due, metadata.get(name))
    if "user_agent" in expect and not metadata.get("user-agent", "").startswith(expect["user_agent"]):
        problems.append(f"user-agent is {metadata.get('user-agent')}")
    if "trace" in expect:
        parts = metadata.get("traceparent", "").split("-")
        if len(parts) != 4 or parts[1] != expect["trace"] or parts[2] == "b7ad6b7169203331":
            problems.append(f"traceparent is {metadata.get('traceparent')}: not of the trace {expect['trace']} under a span of its own")
    return problems


def same(name, due, found):
    return [] if due == found else [f"{name} is {str(found)[:160]} in place of {str(due)[:160]}"]


def close(name, due, found):
    pairs = zip(due, found or []) if isinstance(due, list) else [(due, found)]
    fits = found is not None and (not isinstance(due, list) or len(due) == len(found))
    return [] if fits and all(abs(one - other) < 1e-9 for one, other in pairs) else [f"{name} is {found} in place of {due}"]
