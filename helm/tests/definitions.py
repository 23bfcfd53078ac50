"""Schemas that values.yaml refers to: objects of Kubernetes as far as the chart passes them on, entries of its lists, and
the configurations of the servers, read from docs/reference/configuration.md."""

import json
import pathlib
import re

CHART = pathlib.Path(__file__).resolve().parents[1] / "isomer"

# Keys that the chart sets itself: another value would contradict its ports, volumes and Secrets.
OWNED = {
    "server": ["listen", "tls"],
    "models": ["home", "catalogue", "offline", "hub_endpoint"],
    "database": ["url"],
    "providers": ["file"],
    "access": ["mode"],
    "": ["home"],
    "eval": ["home"],
    "eval.ledger": ["url"],
    "telemetry": ["filter", "format", "otlp_endpoint"],
    "store": None,
    "fleet": ["engine", "name", "replicas", "credentials_file", "ca_file"],
}
# The binaries, and what the reference calls their configuration.
SERVERS = ["isomer-embed-svc", "isomer-transform-svc", "isomer-eval-svc", "isomer-gateway"]
# Descriptions of keys that mean the same wherever they stand.
COMMON = {
    "pod": "Labels, annotations, scheduling, variables and volumes of its pods: see [entries and objects](#entries-and-objects).",
    "resources": "Requests and limits.",
    "replicas": "Pods, where no autoscaler decides.",
    "autoscaling": "A HorizontalPodAutoscaler by CPU (percent; null: not) and by our metrics, if an adapter serves them.",
    "disruption": "A PodDisruptionBudget.",
    "enabled": "Whether it is there.",
    "secretKey": "Entry of the Secret.",
    "secretEnv": "Environment variables from Secrets.",
    "port": "Port, for the network policies.",
    "providerPorts": "Ports of providers, for the network policies.",
    "generatorPorts": "Ports of generators, for the network policies.",
    "size": "Size of the claim, or of the folder.",
    "storageClass": "Storage class; empty: the cluster's default.",
    "annotations": "Annotations.",
    "hostnames": "Names of hosts.",
    "parents": "Gateways that it is for.",
    "host": "Name of the host.",
    "className": "Ingress class; empty: the cluster's default.",
    "name": "Name.",
    "group": "API group of the issuer.",
    "storeName": "Name of the secret store.",
    "refreshInterval": "How often the store is read.",
    "interval": "Time between two scrapes.",
    "schedules": "Checks, each with its encoders and its time (cron).",
    "dashboardLabels": "Further labels of the dashboard's ConfigMap.",
}
# Values that the chart's README lists, and their definitions.
SHOWN = {
    "an entry of `embed.encoders`": "encoder",
    "an entry of `workers.pools`": "worker",
    "an entry of `checks.schedules`": "check",
    "an entry of `models`": "model",
    "an entry of `gateway.providers`": "provider",
    "a key of `access.keys`": "keys",
    "`pod`": "pod",
    "`autoscaling`": "autoscaling",
    "`keda`": "keda",
    "an entry of `secretEnv`": "secretVariable",
}
ROW = re.compile(r"^\| `([^`]+)` \| (?:`([^`]+)`)? ?\| (.*?) \| (.*) \|$")


def closed(properties, **more):
    return {"type": "object", "additionalProperties": False, "properties": properties, **more}


def text(**more):
    return {"type": "string", **more}


def array(items, **more):
    return {"type": "array", "items": items, **more}


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
NAME = text(pattern="^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$")


def definitions(of_defaults):
    selector = closed({
        "matchLabels": STRINGS,
        "matchExpressions": array(closed({"key": text(), "operator": text(), "values": array(text())})),
    })
    quantities = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    scalar = {"type": ["string", "number", "boolean"]}
    return {
        "strings": STRINGS,
        "texts": array(text(minLength=1)),
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "named": closed({"name": text(minLength=1)}, required=["name"]),
        "digests": closed({
            target: text(pattern="^sha256:[0-9a-f]{64}$")
            for target in ("gateway", "transform", "embed", "embed-cuda", "eval", "isomer", "worker", "worker-cuda")
        }),
        "peers": array(closed({
            "ipBlock": closed({"cidr": text(), "except": array(text())}, required=["cidr"]),
            "namespaceSelector": selector,
            "podSelector": selector,
        }, minProperties=1)),
        "resources": closed({
            "requests": quantities,
            "limits": quantities,
            "claims": array(closed({"name": text(), "request": text()})),
        }),
        "keys": {
            "type": "object",
            "propertyNames": {"pattern": "^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$"},
            "additionalProperties": closed({
                "scopes": array({"enum": ["encode", "transform", "evaluate", "admin"]}, minItems=1),
                "existingSecret": text(),
                "secretKey": text(),
            }, required=["scopes"]),
        },
        "cloudVariables": {
            "type": "object",
            "propertyNames": {"pattern": "^(AWS|GOOGLE|AZURE)_[A-Z0-9_]+$"},
            "additionalProperties": {"type": "string"},
        },
        "secretVariable": closed({"name": text(pattern="^[A-Z][A-Z0-9_]*$"), "secret": text(minLength=1), "key": text(minLength=1)},
                                 required=["name", "secret", "key"]),
        "volume": closed({"existingClaim": text(), "size": text(), "storageClass": text(), "keep": {"type": "boolean"}}),
        "autoscaling": closed({
            "enabled": {"type": "boolean"},
            "minReplicas": {"type": "integer", "minimum": 1},
            "maxReplicas": {"type": "integer", "minimum": 1},
            "cpu": {"type": ["integer", "null"], "minimum": 1},
            "metrics": array(closed({"name": text(pattern="^isomer_[a-z_]+$"), "averageValue": {"type": ["string", "number"]}},
                                    required=["name", "averageValue"])),
        }),
        "disruption": closed({"enabled": {"type": "boolean"}, "maxUnavailable": {"type": ["integer", "string"]}}),
        "keda": closed({
            "enabled": {"type": "boolean"},
            "minReplicas": {"type": "integer", "minimum": 0},
            "maxReplicas": {"type": "integer", "minimum": 1},
            "unitsPerReplica": {"type": "integer", "minimum": 1},
            "cooldownSeconds": {"type": "integer", "minimum": 0},
            "prometheusUrl": text(),
            "prometheusMetrics": {"enum": ["nats", "jetstream"]},
        }),
        "lanes": closed({kind: {"type": "integer", "minimum": 1, "maximum": 10000} for kind in ("transform", "encode", "judge", "score")},
                        minProperties=1),
        "pod": closed({
            "annotations": STRINGS,
            "labels": STRINGS,
            "nodeSelector": STRINGS,
            "tolerations": array(closed({
                "key": text(), "operator": {"enum": ["Equal", "Exists"]}, "value": text(), "effect": text(),
                "tolerationSeconds": {"type": "integer"},
            })),
            "affinity": closed({kind: {"type": "object"} for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")}),
            "topologySpreadConstraints": array(closed({
                "maxSkew": {"type": "integer"}, "minDomains": {"type": "integer"}, "topologyKey": text(),
                "whenUnsatisfiable": {"enum": ["DoNotSchedule", "ScheduleAnyway"]}, "labelSelector": selector,
                "nodeAffinityPolicy": text(), "nodeTaintsPolicy": text(), "matchLabelKeys": array(text()),
            })),
            "priorityClassName": text(),
            "runtimeClassName": text(),
            "env": array(closed({"name": text(pattern="^[A-Z][A-Z0-9_]*$"), "value": scalar}, required=["name", "value"])),
            "extraVolumes": array({"type": "object", "required": ["name"]}),
            "extraVolumeMounts": array(closed({
                "name": text(), "mountPath": text(), "subPath": text(), "readOnly": {"type": "boolean"},
            }, required=["name", "mountPath"])),
        }),
        "parent": closed({"name": text(minLength=1), "namespace": text(), "sectionName": text(), "port": ref("port")},
                         required=["name"]),
        "encoder": closed({"name": NAME, "model": text(minLength=1), **of_defaults["embed"]}, required=["name", "model"]),
        "worker": closed({"name": NAME, **of_defaults["workers"]}, required=["name"]),
        "check": closed({
            "name": NAME, "schedule": text(minLength=1), "encoders": array(text(), minItems=1), "suite": text(),
            "args": array(text()), "deadlineSeconds": {"type": "integer", "minimum": 1},
        }, required=["name", "schedule", "encoders"]),
        "provider": closed({
            "id": text(), "kind": text(), "address": text(), "encoders": STRINGS,
            "limits": closed({
                **{key: {"type": "number"} for key in ("requests_per_second", "tokens_per_second", "timeout")},
                **{key: {"type": "integer"} for key in ("max_batch_items", "max_batch_tokens", "max_concurrency")},
            }),
            "secret": closed({"environment": text(), "file": text()}),
            "tls": closed({key: text() for key in ("ca_file", "certificate_file", "key_file", "server_name")}),
            "headers": STRINGS, "price_per_million_tokens": {"type": "number"}, "input_types": STRINGS,
        }, required=["id", "kind", "address", "encoders"]),
        "model": closed({
            "id": text(minLength=1), "kind": {"enum": ["encoder", "generator"]}, "licence": text(minLength=1), "weights": text(minLength=1),
            "bytes": {"type": "integer"}, "description": text(), "files": STRINGS,
            "hub": closed({"repo": text(minLength=1), "revision": text(pattern="^[0-9a-f]{40}$")}, required=["repo", "revision"]),
        }, required=["id", "kind", "licence", "weights", "hub"]),
    }


def type_of(key, default):
    """The schema of a key by its default, as the reference prints it."""
    if key == "hedge":
        return {"type": ["string", "number"]}
    try:
        value = json.loads(re.fullmatch("`(.*)`", default)[1])
    except (TypeError, ValueError):
        # No default, or one in words.
        return {"type": ["string", "number", "boolean", "array"]}
    if isinstance(value, dict):
        if not value:
            return STRINGS
        return closed({name: type_of(name, f"`{json.dumps(one)}`" if one is not None else "none") for name, one in value.items()})
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return {"type": kinds[type(value)]}


def sections(root):
    """Tables of the reference: name of the section → key → (variable, schema). In two parts: of `isomer`, and those
    that only servers of single services have."""
    parts, part, section = [{}, {}], 0, None
    for line in (root / "docs/reference/configuration.md").read_text().splitlines():
        if line.startswith("## Servers of single services"):
            part, section = 1, None
        elif line.startswith("### "):
            name = line.removeprefix("### ").strip()
            section = "" if name == "Outside of tables" else name.strip("[]")
            parts[part][section] = {}
        elif section is not None and (found := ROW.match(line)):
            key, variable, default, _ = found.groups()
            parts[part][section][key] = (variable, type_of(key, default))
    return parts


def reads(root):
    """Sections and keys that each server reads, by its name."""
    found = {}
    for line in (root / "docs/reference/configuration.md").read_text().splitlines():
        row = re.match(r"^\| `(isomer-[a-z-]+)` \| (.*) \|$", line)
        if row:
            found[row[1]] = [name.strip("`[]") for name in row[2].split(", ")]
    if sorted(found) != sorted(SERVERS):
        raise SystemExit(f"docs/reference/configuration.md lists {sorted(found)}, not {SERVERS}")
    return found


def tree(tables, names):
    """The schema of a configuration of some sections."""
    top = closed({})
    for section, keys in tables.items():
        parts = section.split(".") if section else []
        if parts and parts[0] not in names:
            continue
        at = top
        for part in parts:
            if part == "NAME":
                if not isinstance(at.get("additionalProperties"), dict):
                    at["additionalProperties"] = closed({})
                at = at["additionalProperties"]
            else:
                at = at["properties"].setdefault(part, closed({}))
                at.setdefault("properties", {})
        for key, (_, schema) in keys.items():
            if not parts and key not in names:
                continue
            at["properties"][key] = schema
    return top


def clients(tables, names, schema, secrets=False):
    """`[NAME]` and `[NAME.tls]`: the ways to other servers."""
    server = closed({key: one for key, (_, one) in tables["NAME"].items() if secrets or key != "api_key"})
    server["properties"]["tls"] = closed({key: one for key, (_, one) in tables["NAME.tls"].items()})
    for name in names:
        schema["properties"][name] = server


def without_secrets(schema):
    """Takes the keys out that hold a secret itself: a configuration becomes a ConfigMap."""
    properties = schema.get("properties", {})
    properties.pop("api_key", None)
    for below in [*properties.values(), schema.get("additionalProperties")]:
        if isinstance(below, dict):
            without_secrets(below)


def configurations(root):
    shared, single = sections(root)
    everything = {name.split(".")[0] for name in shared if name} | set(shared.get("", {}))
    made = {"isomer": tree(shared, everything)}
    for server, names in reads(root).items():
        others = {"isomer-gateway": ["embed", "transform", "eval"], "isomer-eval-svc": ["encoder", "transform"],
                  "isomer-transform-svc": ["encoder"]}.get(server, [])
        made[server] = tree(shared, [name for name in names if name not in others])
        clients(single, others, made[server])
    for schema in made.values():
        without_secrets(schema)
        for section, keys in OWNED.items():
            at = schema["properties"]
            for name in section.split(".") if section else []:
                at = at.get(name, {}).get("properties", {})
            if keys is None:
                schema["properties"].pop(section, None)
            for key in keys or []:
                at.pop(key, None)
    return {f"config-{name}": schema for name, schema in made.items()}
