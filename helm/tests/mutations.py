#!/usr/bin/env python3
"""Breaks a copy of the chart on purpose, once for each line of MUTATIONS, and holds that an assertion says so. An
assertion that lets its mistake pass is not one."""

import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from cases import DATABASE, FLEET
from check import helm
from definitions import CHART
from registry import problems
from release import Release

CPU, GAPPED, DEFAULT, REPLICAS = "cpu", "air-gapped", "default", "replicas"
# File, what stands there, what is put in its place, example, what an assertion must say.
MUTATIONS = [
    ("_pod.tpl", '"/healthz" "/readyz"', '"/health" "/readyz"', DEFAULT, "livenessProbe asks for /health"),
    ("_pod.tpl", "port: grpc\n    {{- if ne", "port: http\n    {{- if ne", DEFAULT, "asks at the port http"),
    ("_pod.tpl", "--probe={{ get", "--prob={{ get", GAPPED, "has no flag --prob"),
    ("_pod.tpl", "scheme: HTTPS", "scheme: HTTP", CPU, "speaks HTTP to a server"),
    ("_server.tpl", "containerPort: 50051", "containerPort: 8080", DEFAULT, "port 8080 is declared"),
    ("_config.tpl", '"0.0.0.0:50051"', '"0.0.0.0:50052"', DEFAULT, "the server listens on 0.0.0.0:50052"),
    ("_server.tpl", "targetPort: grpc", "targetPort: rpc", DEFAULT, "leads to the port rpc"),
    ("_pod.tpl", "ISOMER_DATABASE__URL", "ISOMER_DATABASE_URL", DEFAULT, "does not read ISOMER_DATABASE_URL"),
    ("_pod.tpl", "ISOMER_ENCODER__API_KEY", "ISOMER_ENCODERS__API_KEY", DEFAULT, "does not read ISOMER_ENCODERS__API_KEY"),
    ("_config.tpl", "shutdown_grace_seconds", "shutdown_seconds", DEFAULT, "shutdown_seconds"),
    ("_config.tpl", "warm_up: [", "preload: [", DEFAULT, "preload"),
    ("_config.tpl", 'kind = "isomer"', 'sort = "isomer"', DEFAULT, "a provider has no key sort"),
    ("_config.tpl", "shared_runs:", "shared_run:", DEFAULT, "shared_run"),
    ("_pod.tpl", "ISOMER_EVAL__LEDGER__URL", "ISOMER_EVAL__LEDGER_URL", REPLICAS, "does not read ISOMER_EVAL__LEDGER_URL"),
    ("_config.tpl", "{{- if not .Values.eval.ledger.existingSecret }}", "{{- if true }}", REPLICAS, "a file of one pod"),
    ("_config.tpl", "shared_runs: {{ ne", "shared_runs: {{ eq", REPLICAS, "asks only the first"),
    ("eval.yaml", 'ternary "RollingUpdate" "Recreate"', 'ternary "Recreate" "RollingUpdate"', REPLICAS, "stops all its pods first"),
    ("eval.yaml", "{{- if $ledger }}\n{{- $volumes", "{{- if false }}\n{{- $volumes", REPLICAS, "share the claim"),
    ("networkpolicy.yaml", "{{- if .Values.eval.ledger.existingSecret }}", "{{- if false }}", REPLICAS, "may not reach"),
    ("_server.tpl", "      port: 50051\n      targetPort: grpc\n      {{- if eq .root.Values.tls.mode \"none\" }}\n      appProtocol: kubernetes.io/h2c\n      {{- end }}\n{{- end -}}\n\n{{/* dict as", "      port: 80\n      targetPort: grpc\n{{- end -}}\n\n{{/* dict as", DEFAULT, "is headless and has the ports"),
    ("_server.tpl", "clusterIP: None", "clusterIP: \"\"", DEFAULT, "one address for all its pods"),
    ("_config.tpl", "server_name: {{", "# server_name: {{", CPU, "which the certificate"),
    ("_config.tpl", '(printf "embed-%s" .name)) }}\n    {{- end }}\n{{- if or', '(printf "embedd-%s" .name)) }}\n    {{- end }}\n{{- if or', DEFAULT, "addresses.allow does not name"),
    ("_config.tpl", 'ternary "grpc" "grpcs"', 'ternary "http" "https"', DEFAULT, "its kind wants grpc://"),
    ("_names.tpl", "}}://{{ include", "}}s://{{ include", DEFAULT, "tls=False"),
    ("_server.tpl", "{{- include \"isomer.selector\" . | nindent 6 }}\n  template:", "app: other\n  template:", DEFAULT, "does not select its own pods"),
    ("gateway.yaml", '(dict "root" . "component" $component) | nindent 4', '(dict "root" . "component" "front") | nindent 4', DEFAULT, "selects []"),
    ("embed.yaml", '"labels" (dict "encoder" $values.name) ', "", CPU, "also selects pods of"),
    ("workers.yaml", '"worker" (printf "--lanes', '"work" (printf "--lanes', CPU, "not a command"),
    ("workers.yaml", "--lanes=%s", "--lane=%s", CPU, "has no flag --lane"),
    ("workers.yaml", "--metrics-listen=0.0.0.0:9464", "--metrics-listen=0.0.0.0:9465", CPU, "port 9464 is declared"),
    ("monitoring.yaml", "- port: metrics", "- port: grpc", CPU, "reads the port grpc"),
    ("networkpolicy.yaml", '"port" 9464', '"port" 9090', CPU, "the network policies open"),
    ("setup.yaml", "- migrate\n        - --wait", "- migrat\n        - --wait", DEFAULT, "has no flag --wait"),
    ("embed.yaml", "/usr/bin/isomer-embed-svc", "/usr/bin/isomer-embed", DEFAULT, "not /usr/bin/isomer-embed"),
    ("_pod.tpl", "automountServiceAccountToken: false", "automountServiceAccountToken: true", DEFAULT, "service account's token"),
    ("_pod.tpl", "enableServiceLinks: false", "enableServiceLinks: true", DEFAULT, "variables of Services"),
    ("_pod.tpl", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", DEFAULT, "write to its root"),
    ("_pod.tpl", "add 5 (int .drainSeconds) 10", "add 5 10", DEFAULT, "is killed after"),
    ("_pod.tpl", "seconds: 5", "seconds: 0", DEFAULT, "no pause before the stop"),
    ("_keys.tpl", "until 6", "until 5", DEFAULT, "not a key of the gateway's form"),
    ("_keys.tpl", "sha256sum $body", "sha1sum $body", DEFAULT, "not a key of the gateway's form"),
    ("_pod.tpl", "key: {{ $values.database.secretKey }}", "key: {{ $values.database.secretKey }}\n- name: PGPASSWORD\n  value: x", DEFAULT, "PGPASSWORD is not from a Secret"),
    ("_config.tpl", "home: /var/lib/isomer\naccess:", "home: /var/lib/isomer\ndatabase:\n  url: \"postgres://me:geheim@db/isomer\"\naccess:", DEFAULT, "holds a key or a password"),
    ("networkpolicy.yaml", '"component" "embed" "from" (list "gateway")', '"component" "embed" "from" (list "eval")', DEFAULT, "may not call"),
    ("networkpolicy.yaml", "policyTypes: [Ingress, Egress]\n---", "policyTypes: [Ingress]\n---", DEFAULT, "is not denied everything first"),
    ("_network.tpl", "{{- if not .Values.offline }}", "{{- if true }}", GAPPED, "way out although it is offline"),
    ("_pod.tpl", "- verify", "- pull", GAPPED, "fetches models although it is offline"),
    ("tls.yaml", "- {{ . }}\n    {{- end }}\n    - localhost", "- x{{ . }}\n    {{- end }}\n    - localhost", CPU, "does not name"),
    ("_pod.tpl", "mountPath: /etc/isomer/tls", "mountPath: /etc/isomer/cert", GAPPED, "which is not mounted"),
    ("eval.yaml", "mountPath: /var/lib/isomer", "mountPath: /data", DEFAULT, "writes to /var/lib/isomer"),
    ("_server.tpl", "name: {{ include \"isomer.fullname\" .root }}-{{ .suffix }}\n  minReplicas", "name: {{ include \"isomer.fullname\" .root }}\n  minReplicas", CPU, "not there"),
    ("_server.tpl", "{{- if not (or $keda $hpa) }}", "{{- if true }}", CPU, "contradict"),
    ("routes.yaml", "name: {{ .Values.ingress.port }}", "name: web", CPU, "which is not there"),
]


def values_of(example):
    if example == DEFAULT:
        return DATABASE
    if example == REPLICAS:
        return {**DATABASE, **FLEET, "eval": {"replicas": 2, "ledger": {"existingSecret": "isomer-database"}}}
    return yaml.safe_load((CHART / "examples" / f"{example}.yaml").read_text())


def survives(binary, mutation):
    """Why a mutation was not found; None where it was."""
    file, before, after, example, says = mutation
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "isomer"
        shutil.copytree(CHART, chart)
        path = next(chart.joinpath("templates").rglob(file))
        text = path.read_text()
        if before not in text:
            return f"{file}: {before!r} is not there any more"
        path.write_text(text.replace(before, after))
        code, rendered, error = helm(binary, "template", values_of(example), chart)
    if code:
        return f"{file}: {after!r} does not render: {error.strip()}"
    found = problems(Release(rendered))
    if says is None:
        return None if found else f"{file}: {after!r} was found by nothing"
    return None if any(says in one for one in found) else f"{file}: {after!r} was not found; instead: {found[:3]}"


def main():
    binary = sys.argv[1]
    for example in (DEFAULT, CPU, GAPPED, REPLICAS):
        code, rendered, error = helm(binary, "template", values_of(example))
        if code or problems(Release(rendered)):
            raise SystemExit(f"{example} is not right to begin with: {error or problems(Release(rendered))}")
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        left = [why for why in threads.map(lambda one: survives(binary, one), MUTATIONS) if why]
    for why in left:
        print(why)
    if left:
        raise SystemExit(f"{len(left)} of {len(MUTATIONS)} mistakes were not found")
    print(f"{len(MUTATIONS)} mistakes, each found")


if __name__ == "__main__":
    main()
