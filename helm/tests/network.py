"""Connections in a rendered release: addresses, TLS and network policies.
Each function yields a sentence for each thing
that is wrong."""

import re
import tomllib

from registry import check
from release import binary, matches


ADDRESS = re.compile(r"([a-z]+)://([a-z0-9.-]+\.svc):(\d+)")


def addresses(table):
    """Addresses of Services in a configuration, each with the name that is expected in the certificate."""
    for value in table.values() if isinstance(table, dict) else table:
        if isinstance(value, (dict, list)):
            yield from addresses(value)
        elif isinstance(value, str) and (found := ADDRESS.fullmatch(value)):
            tls = table.get("tls", {}) if isinstance(table, dict) else {}
            yield value, tls.get("server_name", found[2])


def calls(release):
    """Connections: pod, address, name that is expected in the certificate."""
    for pod in release.pods():
        for container in pod.containers():
            found = set()
            config = release.configuration(pod, container)
            if config is not None and not binary(container).startswith("isomer-embed"):
                found |= set(addresses(config))
                file = config.get("providers", {}).get("file")
                if file:
                    found |= set(addresses(tomllib.loads(release.files(pod, container).get(file) or "")))
            found |= {(match[0], match[2]) for arg in container.get("args", []) for match in ADDRESS.finditer(arg)}
            for address, name in found:
                yield pod, container, address, name


@check
def services_reach_each_other_and_agree_on_tls(release):
    policies = release.all("NetworkPolicy")
    services = {f"{one['metadata']['name']}.{one['metadata']['namespace']}.svc": one for one in release.all("Service")}
    for pod, container, address, expected in calls(release):
        scheme, host, port = ADDRESS.fullmatch(address).groups()
        service = services.get(host)
        if service is None:
            # NATS, a generator, a collector: the user's.
            if f".{pod.owner['metadata']['namespace']}.svc" in host:
                yield f"{pod.name}: calls {address}, and there is no such Service"
            continue
        listed = {str(one["port"]) for one in service["spec"]["ports"]}
        if port not in listed:
            yield f"{pod.name}: calls {address}, and the Service has {sorted(listed)}"
        target = next((one for one in release.pods() if matches({"matchLabels": service["spec"]["selector"]}, one.labels)), None)
        if target is None:
            # Said of the Service itself.
            continue
        server = release.configuration(target, target.spec["containers"][0]) or {}
        tls = server.get("server", {}).get("tls")
        if scheme.endswith("s") != bool(tls):
            yield f"{pod.name}: calls {address}, and that server has tls={bool(tls)}"
        if tls:
            secret = next((volume["secret"]["secretName"] for volume in target.spec["volumes"] if volume["name"] == "tls"), "")
            for certificate in release.all("Certificate"):
                if certificate["spec"]["secretName"] == secret and expected not in certificate["spec"]["dnsNames"]:
                    yield f"{pod.name}: expects {expected}, which the certificate {secret} does not name"
        if policies and not allowed(policies, pod, target, 50051):
            yield f"{pod.name}: may not call {target.name} by the network policies"


def allowed(policies, source, target, port):
    def permits(direction, pod, other):
        rules = [rule for policy in policies if matches(policy["spec"]["podSelector"], pod.labels)
                 for rule in policy["spec"].get(direction.lower(), [])]
        key = "to" if direction == "Egress" else "from"
        return any(
            port in [one["port"] for one in rule.get("ports", [{"port": port}])]
            and (key not in rule or any("podSelector" in peer and "namespaceSelector" not in peer and matches(peer["podSelector"], other.labels) for peer in rule[key]))
            for rule in rules
        )

    return permits("Egress", source, target) and permits("Ingress", target, source)


@check
def network_policies_deny_what_they_do_not_name(release):
    policies = release.all("NetworkPolicy")
    if not policies:
        return
    deny = [one["spec"] for one in policies if "ingress" not in one["spec"] and "egress" not in one["spec"]]
    for pod in release.pods():
        if not any(matches(spec["podSelector"], pod.labels) and set(spec["policyTypes"]) == {"Ingress", "Egress"} for spec in deny):
            yield f"{pod.name}: is not denied everything first"
    offline = "offline = true" in release.text
    for one in policies:
        for rule in one["spec"].get("ingress", []):
            if not rule.get("from"):
                yield f"NetworkPolicy {one['metadata']['name']} lets everybody in"
        for rule in one["spec"].get("egress", []):
            for peer in rule.get("to", []):
                if offline and peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0":
                    yield f"NetworkPolicy {one['metadata']['name']} has a way out although it is offline"


@check
def offline_releases_fetch_nothing(release):
    if "offline = true" not in release.text:
        return
    for pod in release.pods():
        for container in pod.containers():
            if "pull" in container.get("args", []):
                yield f"{pod.name}: fetches models although it is offline"
            if any(variable["name"] == "HF_TOKEN" for variable in container.get("env", [])):
                yield f"{pod.name}: has a token for the hub although it is offline"
