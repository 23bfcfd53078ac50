"""Values that the chart is rendered with: the examples, the baseline of earlier values, and combinations in which every
pair of choices occurs."""

import itertools
from pathlib import Path

import yaml

from definitions import CHART

BASELINE = Path(__file__).parent / "baseline"
DATABASE = {"database": {"existingSecret": "isomer-database"}}
FLEET = {"nats": {"url": "nats://nats.nats.svc:4222", "monitoringUrl": "http://nats.nats.svc:8222"},
         "store": {"url": "/store/shared", "existingClaim": "shared"}}
KEDA = {"enabled": True, "minReplicas": 0, "maxReplicas": 3, "unitsPerReplica": 8, "cooldownSeconds": 60, "prometheusMetrics": "nats"}

# Choice → option → values.
CHOICES = {
    "mode": {"services": DATABASE, "single": {}, "single with PostgreSQL": {"mode": "single", **DATABASE}},
    "tls": {
        "none": {},
        "cert-manager": {"tls": {"mode": "cert-manager"}},
        "given": {"tls": {"mode": "secrets", "clientCertificates": True,
                          "secrets": {"gateway": "g-tls", "transform": "t-tls", "eval": "e-tls", "embed": "m-tls"}}},
    },
    "access": {
        "generated": {},
        "open": {"access": {"mode": "open"}},
        "given": {"access": {"keys": {name: {"existingSecret": "keys", "secretKey": name} for name in ("admin", "services", "checks", "metrics")}}},
        "external": {"access": {"externalSecret": {"enabled": True, "storeName": "vault", "remoteKey": "isomer"}}},
    },
    "models": {
        "perPod": {},
        "shared": {"modelCache": {"type": "shared"}},
        "claim": {"modelCache": {"type": "shared", "existingClaim": "mine", "tokenSecret": "hub"}},
        "emptyDir": {"modelCache": {"type": "emptyDir", "hubEndpoint": "https://mirror.example.com"}},
    },
    "offline": {"no": {}, "yes": {"offline": True}},
    "policies": {"on": {}, "off": {"networkPolicy": {"enabled": False}},
                 "named": {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "monitoring": [{"namespaceSelector": {}}]}}},
    "encoders": {
        "one": {},
        "none": {"embed": {"encoders": []}},
        "two": {"embed": {"encoders": [
            {"name": "a", "model": "all-MiniLM-L6-v2", "autoscaling": {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "cpu": None,
             "metrics": [{"name": "isomer_embed_queue_tokens", "averageValue": 1000}]}},
            {"name": "b", "model": "org/odd.name", "gpus": 3, "precision": "f16", "vectorCache": "1Gi", "pricePerMillionTokens": 0.5},
        ]}, "models": [{"id": "org/odd.name", "kind": "encoder", "licence": "MIT", "weights": "model.safetensors",
                        "hub": {"repo": "org/odd", "revision": "0" * 40}}]},
    },
    "services": {"all": {}, "no eval": {"eval": {"enabled": False}},
                 "gateway and encoders": {"eval": {"enabled": False}, "transform": {"enabled": False}}},
    "eval": {
        "one": {},
        "ledger": {"eval": {"ledger": {"existingSecret": "isomer-ledger"}}},
        "replicas": {**FLEET, "eval": {"replicas": 3, "cacheSize": "5Gi", "ledger": {"existingSecret": "isomer-database", "peers": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}},
                     "store": {"url": "s3://b/p", "existingSecret": "bucket", "secretEnv": {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}, "env": {"AWS_REGION": "x"}}},
        "workers": {**FLEET, "eval": {"through": "workers"}},
        "replicas over workers": {**FLEET, "eval": {"through": "workers", "replicas": 2, "ledger": {"existingSecret": "isomer-database"}}},
    },
    "workers": {
        "none": {},
        "plain": {**FLEET, "workers": {"pools": [{"name": "all", "lanes": {"encode": 1, "transform": 2, "judge": 2}, "pull": ["all-MiniLM-L6-v2"]}]}},
        "NATS": {**FLEET, "workers": {"pools": [{"name": "gpu", "gpus": 1, "precision": "bf16", "keda": {**KEDA, "prometheusUrl": ""}}]}},
        "Prometheus": {**FLEET, "workers": {"pools": [{"name": "cpu", "keda": {**KEDA, "prometheusUrl": "http://prometheus:9090"}}]},
                       "nats": {**FLEET["nats"], "existingSecret": "creds", "caSecret": "ca"}},
    },
    "checks": {"none": {}, "gateway": {"checks": {"schedules": [{"name": "nightly", "schedule": "0 2 * * *", "encoders": ["all-MiniLM-L6-v2"]}]}},
               "workers": {**FLEET, "checks": {"through": "workers", "schedules": [{"name": "nightly", "schedule": "0 2 * * *", "encoders": ["all-MiniLM-L6-v2"]}]}},
               "reports": {"checks": {"existingClaim": "reports", "schedules": [{"name": "n", "schedule": "@daily", "encoders": ["a"], "suite": "quick",
                                                                               "args": ["--limit=10"], "deadlineSeconds": 60}]}}},
    "monitoring": {"off": {}, "on": {"monitoring": {"podMonitor": True, "rules": True, "dashboard": True, "labels": {"release": "p"}},
                                     "tracing": {"endpoint": "http://collector:4317"}}},
    "routes": {"none": {}, "ingress": {"ingress": {"enabled": True, "host": "i.example.com", "className": "nginx", "tlsSecret": "t"}},
               "gateway": {"httpRoute": {"enabled": True, "parents": [{"name": "g"}]}, "grpcRoute": {"enabled": True, "parents": [{"name": "g"}]}}},
    "names": {"default": {}, "other": {"fullnameOverride": "embeddings", "commonLabels": {"team": "search"}, "commonAnnotations": {"a": "b"}},
              "account": {"serviceAccount": {"create": False, "name": "mine"}, "setup": {"hook": True}}},
    "pods": {"default": {}, "special": {
        "gateway": {"autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 4, "cpu": 60, "metrics": []},
                    "pod": {"labels": {"x": "y"}, "annotations": {"a": "b"}, "nodeSelector": {"disk": "ssd"}, "priorityClassName": "high",
                            "runtimeClassName": "gvisor", "tolerations": [{"operator": "Exists"}], "topologySpreadConstraints": [],
                            "env": [{"name": "OTEL_SERVICE_NAME", "value": "front"}], "affinity": {"podAntiAffinity": {}},
                            "extraVolumes": [{"name": "more", "emptyDir": {}}], "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}]},
                    "providers": [{"id": "openai", "kind": "openai", "address": "https://api.openai.com/v1", "encoders": {"small": "text-embedding-3-small"},
                                   "secret": {"environment": "OPENAI_API_KEY"}, "limits": {"requests_per_second": 20}}],
                    "secretEnv": [{"name": "OPENAI_API_KEY", "secret": "openai", "key": "key"}],
                    "providerPeers": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]},
        "transform": {"cacheSize": "5Gi", "drainSeconds": 120},
        "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-extra"}, "data": {"a": "b"}}],
        "image": {"tag": "9.9", "registry": "r.example.com", "pullPolicy": "Always"}, "imagePullSecrets": [{"name": "r"}]}},
}
# Cases that matter in mode `single`.
SINGLE = ("tls", "access", "offline", "policies", "workers", "checks", "monitoring", "routes", "names")
# Settings that exclude each other, with the reason.
IMPOSSIBLE = [
    # Nothing can be fetched into a volume of the pod's own: the chart refuses it.
    {"offline": "yes", "models": "emptyDir"},
    {"offline": "yes", "models": "perPod"},
    # Nobody would take the units.
    {"eval": "workers", "workers": "none"},
    {"eval": "replicas over workers", "workers": "none"},
    # An extra provider's peers are a way out by the user's own wish.
    {"offline": "yes", "pods": "special"},
]


def possible(case):
    return not any(all(case.get(choice) == option for choice, option in rule.items()) for rule in IMPOSSIBLE)


def pairwise(names):
    """Few cases in which every possible pair of options of two choices occurs."""
    missing = {
        frozenset({(a, x), (b, y)})
        for a, b in itertools.combinations(names, 2)
        for x in CHOICES[a]
        for y in CHOICES[b]
        if possible({a: x, b: y})
    }
    cases = []
    while missing:
        case = {}
        first = min(missing, key=lambda pair: sorted(pair))
        case.update(dict(first))
        for name in names:
            if name in case:
                continue
            options = [option for option in CHOICES[name] if possible({**case, name: option})]
            def gain(option):
                return sum(frozenset({(name, option), (other, chosen)}) in missing for other, chosen in case.items())
            case[name] = max(options, key=lambda option: (gain(option), option))
        covered = {frozenset(pair) for pair in itertools.combinations(case.items(), 2)}
        missing -= covered
        cases.append(case)
    return cases


def merged(*layers):
    result = {}
    for layer in layers:
        for key, value in layer.items():
            result[key] = merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
    return result


def all_cases():
    """Name → values."""
    cases = {f"example {path.stem}": yaml.safe_load(path.read_text()) for path in sorted((CHART / "examples").glob("*.yaml"))}
    cases |= {f"baseline {path.stem}": yaml.safe_load(path.read_text()) for path in sorted(BASELINE.glob("*.yaml"))}
    cases["the workflow kind"] = yaml.safe_load((BASELINE.parent / "kind.yaml").read_text())
    modes = {"services": ["services"], "single": ["single", "single with PostgreSQL"]}
    for mode, variants in modes.items():
        names = [name for name in CHOICES if name != "mode" and (mode == "services" or name in SINGLE)]
        for number, case in enumerate(pairwise(names), 1):
            values = [CHOICES["mode"][variants[number % len(variants)]], *(CHOICES[choice][option] for choice, option in case.items())]
            cases[f"{mode} {number}: {', '.join(case.values())}"] = merged(*values)
    return cases


# Values that are refused, and what the refusal says.
REFUSED = {
    "a misspelt key": ({**DATABASE, "gateway": {"replicsa": 3}}, "replicsa"),
    "a misspelt key of a configuration": ({**DATABASE, "gateway": {"config": {"routing": {"atempts": 3}}}}, "atempts"),
    "a key of another server's configuration": ({**DATABASE, "transform": {"config": {"routing": {}}}}, "routing"),
    "a secret in a configuration": ({**DATABASE, "transform": {"config": {"transform": {"generators": {"g": {"api_key": "x"}}}}}}, "api_key"),
    "a key that the chart sets": ({**DATABASE, "gateway": {"config": {"server": {"listen": "0.0.0.0:1"}}}}, "listen"),
    "two replicas of eval-svc without a ledger": ({**DATABASE, **FLEET, "eval": {"replicas": 2}}, "eval.ledger.existingSecret"),
    "two replicas of eval-svc without a store": ({**DATABASE, "eval": {"replicas": 2, "ledger": {"existingSecret": "l"}}}, "need store.url"),
    "a ledger's address in a configuration": ({**DATABASE, "eval": {"config": {"eval": {"ledger": {"url": "postgres://me:x@db/l"}}}}}, "url"),
    "runs by workers without a queue": ({**DATABASE, "eval": {"through": "workers"}}, "eval.through `workers` needs nats.url"),
    "runs by workers without workers": ({**DATABASE, **FLEET, "eval": {"through": "workers"}}, "needs workers.pools"),
    "a name that is too long": ({**DATABASE, "fullnameOverride": "f" * 40, "embed": {"encoders": [{"name": "an-encoder-with-name", "model": "m"}]}}, "more than 63 characters"),
    "an encoder without a model": ({**DATABASE, "embed": {"encoders": [{"name": "a"}]}}, "model"),
    "services without a database": ({"mode": "services"}, "database.existingSecret"),
    "workers without a queue": ({**DATABASE, "workers": {"pools": [{"name": "a"}]}}, "nats.url"),
    "eval-svc without transform-svc": ({**DATABASE, "transform": {"enabled": False}}, "eval.enabled needs transform.enabled"),
    "offline with volumes that begin empty": ({**DATABASE, "offline": True}, "modelCache.type"),
    "credentials of the store without a Secret": ({**DATABASE, **FLEET, "workers": {"pools": [{"name": "a"}]},
                                                   "store": {"url": "s3://b/p", "secretEnv": {"AWS_ACCESS_KEY_ID": "id"}}}, "store.existingSecret"),
    "a variable of the store that is not a cloud's": ({**DATABASE, "store": {"env": {"LD_PRELOAD": "x"}}}, "LD_PRELOAD"),
    "a missing key that the chart uses": ({**DATABASE, "access": {"keys": {"services": None}}}, "access"),
}
