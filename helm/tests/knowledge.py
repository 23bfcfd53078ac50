"""Flags, variables, configuration keys and probe paths of the binaries, read from the reference and
from their sources. A name that a chart uses and that is not here is one that nobody reads."""

import re
from functools import cache

from definitions import CHART, SERVERS, clients, reads, sections, tree

ROOT = CHART.parents[1]
COMMAND = "isomer"
# Variables that libraries read: the home folder, the hub's token, telemetry, clouds.
SHARED = {"HOME", "HF_TOKEN"}
CLOUD = re.compile(r"^(AWS|GOOGLE|AZURE)_[A-Z0-9_]+$")


def source(path):
    return (ROOT / path).read_text()


@cache
def probe_paths():
    """Paths of the probes, as docs/reference/http.md lists them."""
    row = next(line for line in source("docs/reference/http.md").splitlines() if "`GET /healthz`" in line)
    return set(re.findall(r"`(?:GET )?(/[a-z]+)`", row)) - {"/metrics"}


@cache
def commands():
    """Commands of `isomer` → flag → variable (or None)."""
    found, at = {}, None
    for line in source("docs/reference/command-line.md").splitlines():
        if line.startswith("## isomer"):
            at = found.setdefault(line.removeprefix("## "), {})
        elif at is not None and (row := re.match(r"^\| `(--[a-z-]+|[A-Z_]+)[^`]*`(?:, `-.`)? \| (?:`([A-Z_]+)`)? ?\|", line)):
            at[row[1]] = row[2]
    return found


@cache
def server_flags(server):
    """Flags of a server of its own, from the `Args` of its `main.rs`."""
    text = source(f"{ {'isomer-embed-svc': 'embed-svc', 'isomer-transform-svc': 'transform-svc', 'isomer-eval-svc': 'eval-svc', 'isomer-gateway': 'gateway'}[server] }/src/main.rs")
    flags = re.findall(r"#\[arg\(long(?: = \"([a-z-]+)\")?[^\]]*\)\]\n\s+(\w+):", text)
    return {f"--{given or name.replace('_', '-')}" for given, name in flags}


@cache
def configuration(binary):
    """The schema of the whole configuration of a binary, what the chart sets itself included."""
    shared, single = sections(ROOT)
    if binary == COMMAND:
        return tree(shared, {name.split(".")[0] for name in shared if name} | set(shared.get("", {})))
    names = reads(ROOT)[binary]
    others = {"isomer-gateway": ["embed", "transform", "eval"], "isomer-eval-svc": ["encoder", "transform"],
              "isomer-transform-svc": ["encoder"]}.get(binary, [])
    schema = tree(shared, [name for name in names if name not in others])
    if "home" in names:
        schema["properties"]["home"] = {"type": "string"}
    if "shared_runs" in names:
        schema["properties"]["shared_runs"] = {"type": "boolean"}
    clients(single, others, schema, secrets=True)
    return schema


@cache
def variables(binary, command=""):
    """Environment variables that a binary reads."""
    shared, single = sections(ROOT)
    known = set(SHARED) | set(re.findall(r"`(OTEL_[A-Z_]+)", source("docs/telemetry.md")))
    if binary == COMMAND:
        known |= {variable for keys in shared.values() for variable, _ in keys.values() if variable}
        for name in (COMMAND, command):
            known |= {variable for variable in commands().get(name, {}).values() if variable}
        known |= {"ISOMER_API_KEY"} if "ISOMER_API_KEY" in source("docs/reference/command-line.md") else set()
        return known
    names = reads(ROOT)[binary]
    for section, keys in shared.items():
        if section.split(".")[0] in names:
            known |= {variable for variable, _ in keys.values() if variable}
    known |= {"ISOMER_CONFIG", "ISOMER_HOME"}
    others = {"isomer-gateway": ["embed", "transform", "eval"], "isomer-eval-svc": ["encoder", "transform"],
              "isomer-transform-svc": ["encoder"]}.get(binary, [])
    for name in others:
        known |= {f"ISOMER_{name.upper()}__{key.upper()}" for key in single["NAME"]}
    return known


@cache
def provider_keys():
    """Keys of a `[[provider]]` table, from the reader of the file."""
    text = source("gateway/registry/src/file/mod.rs")
    lists = {name: set(re.findall(r'"([a-z_]+)"', body)) for name, body in re.findall(r"const ([A-Z]+): &\[&str\] = &\[(.*?)\];", text, re.S)}
    return lists["PROVIDER"], {"limits": lists["LIMITS"], "secret": lists["SECRET"], "tls": lists["TLS"]}


@cache
def metrics():
    return set(re.findall(r"`(isomer_[a-z_]+)`", source("docs/reference/metrics.md")))


@cache
def image_binaries():
    """Targets of the Containerfile → paths of the binaries in them."""
    found, stage = {}, None
    for line in source("helm/images/Containerfile").splitlines():
        if begun := re.match(r"^FROM .* AS ([a-z-]+)$", line):
            stage = begun[1]
        elif stage and (copied := re.match(r"^COPY .*\s(/usr/bin/[a-z-]+)$", line)):
            found.setdefault(stage, set()).add(copied[1])
    return found


@cache
def built():
    """Names of the binaries that cargo builds."""
    return {name for manifest in ROOT.glob("*/Cargo.toml") for name in re.findall(r"\[\[bin\]\]\nname = \"([a-z-]+)\"", manifest.read_text())}


assert set(SERVERS) == set(reads(ROOT))
