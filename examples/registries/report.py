"""Result of a check, from its report.json, for the recipes beside this file."""

import hashlib
import json
import pathlib
import urllib.request


def facts(file: str, encoder: str | None = None) -> dict[str, str]:
    """The facts that a registry keeps of a version, in the names of `isomer registry` without their prefix."""
    content = pathlib.Path(file).read_bytes()
    report = json.loads(content)
    gate = report.get("gate") or {}
    judged = [one for one in gate.get("encoders", []) if encoder in (None, one["encoder"])]
    if len(judged) != 1:
        raise SystemExit(f"{file}: the gate judges {len(judged)} encoders; name one of them (--encoder), and give the check rules")
    weights = next(one["weights_digest"] for one in report["encoders"] if one["id"] == judged[0]["encoder"])
    return {
        "verdict": judged[0]["verdict"],
        "suite": f"{report['suite']['name']} {report['suite']['digest']}",
        "run": report["run"]["id"],
        "weights_sha256": weights,
        "report_sha256": hashlib.sha256(content).hexdigest(),
        "version": report["isomer_version"],
    }


def send(method: str, url: str, token: str, body: dict | None = None) -> dict:
    """Sends a request with a bearer token, and reads the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"{}")
