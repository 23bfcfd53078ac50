"""Properties of every rendered release.
Each function yields a sentence for each thing that is wrong."""

import base64
import hashlib
import re
import tomllib

import jsonschema

import knowledge
from registry import check
from release import CONFIG, binary, matches, subcommand

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def ours(release):
    """Pods with their containers that run a binary of ours; other pods are reported where commands are checked."""
    for pod in release.pods():
        for container in pod.containers():
            if binary(container) in (knowledge.COMMAND, *knowledge.SERVERS):
                yield pod, container


@check
def names_are_unique_and_short(release):
    seen = set()
    for one in release.objects:
        key = (one["kind"], one["metadata"]["name"])
        if key in seen:
            yield f"{key} is there twice"
        seen.add(key)
        if len(key[1]) > 63:
            yield f"{key} has more than 63 characters"


@check
def selectors_take_the_pods_that_they_are_for(release):
    pods = release.pods()
    for one in release.all("Deployment"):
        if not matches(one["spec"]["selector"], one["spec"]["template"]["metadata"]["labels"]):
            yield f"Deployment {one['metadata']['name']} does not select its own pods"
        others = [pod.name for pod in pods if pod.owner is not one and matches(one["spec"]["selector"], pod.labels)]
        if others:
            yield f"Deployment {one['metadata']['name']} also selects pods of {others}"
    for one in release.all("Service"):
        selected = [pod for pod in pods if matches({"matchLabels": one["spec"]["selector"]}, pod.labels)]
        if len({pod.name for pod in selected}) != 1:
            yield f"Service {one['metadata']['name']} selects {[pod.name for pod in selected]}, not the pods of one Deployment"
        ports = {port["name"] for pod in selected for container in pod.spec["containers"] for port in container.get("ports", [])}
        if one["spec"].get("clusterIP") == "None":
            # Its name leads to the pods themselves: no port is translated.
            numbers = {port["containerPort"] for pod in selected for container in pod.spec["containers"] for port in container.get("ports", [])}
            wrong = {port["port"] for port in one["spec"]["ports"]} - numbers
            if wrong:
                yield f"Service {one['metadata']['name']} is headless and has the ports {sorted(wrong)}, its pods have {sorted(numbers)}"
        for port in one["spec"]["ports"]:
            if port["targetPort"] not in ports:
                yield f"Service {one['metadata']['name']} leads to the port {port['targetPort']}, and its pods have {sorted(ports)}"
    for one in release.all("PodMonitor"):
        for pod in pods:
            if not matches(one["spec"]["selector"], pod.labels):
                continue
            ports = {port["name"]: port["containerPort"] for container in pod.spec["containers"] for port in container.get("ports", [])}
            for endpoint in one["spec"]["podMetricsEndpoints"]:
                if endpoint["port"] not in ports:
                    yield f"PodMonitor {one['metadata']['name']} reads the port {endpoint['port']}, and {pod.name} has {sorted(ports)}"
            policies = [policy["spec"] for policy in release.all("NetworkPolicy") if matches(policy["spec"]["podSelector"], pod.labels)]
            opened = {port["port"] for spec in policies for rule in spec.get("ingress", []) for port in rule["ports"]}
            if opened and not opened & set(ports.values()):
                yield f"{pod.name}: the network policies open {sorted(opened)}, its ports are {sorted(ports.values())}"
    for kind in ("PodDisruptionBudget", "PodMonitor", "NetworkPolicy"):
        for one in release.all(kind):
            selector = one["spec"]["podSelector" if kind == "NetworkPolicy" else "selector"]
            if not any(matches(selector, pod.labels) for pod in pods):
                yield f"{kind} {one['metadata']['name']} selects no pod"
    for one in release.all("HorizontalPodAutoscaler", "ScaledObject"):
        target = release.named("Deployment", one["spec"]["scaleTargetRef"]["name"])
        if target is None:
            yield f"{one['kind']} {one['metadata']['name']} scales a Deployment that is not there"
        elif "replicas" in target["spec"]:
            yield f"{one['kind']} {one['metadata']['name']} and spec.replicas of its Deployment contradict each other"


@check
def probes_and_ports_are_those_of_the_binary(release):
    for pod in release.pods():
        for container in pod.spec["containers"]:
            config = release.configuration(pod, container)
            listens = (config or {}).get("server", {}).get("listen")
            for arg in container.get("args", []):
                # A worker serves nothing else.
                listens = arg.removeprefix("--metrics-listen=") if arg.startswith("--metrics-listen=") else listens
            for port in container.get("ports", []):
                if listens is None or listens.rsplit(":", 1)[1] != str(port["containerPort"]):
                    yield f"{pod.name}: port {port['containerPort']} is declared, the server listens on {listens}"
            names = {port["name"] for port in container.get("ports", [])}
            tls = (config or {}).get("server", {}).get("tls")
            kinds = [kind for kind in ("startupProbe", "livenessProbe", "readinessProbe") if kind in container]
            if container.get("ports") and kinds != ["livenessProbe"] and pod.component == "worker":
                yield f"{pod.name}: a worker is asked whether it lives, this one {kinds}"
            if container.get("ports") and len(kinds) != 3 and pod.component != "worker":
                yield f"{pod.name}: a server has three probes, this one {kinds}"
            for kind in kinds:
                probe = container[kind]
                if get := probe.get("httpGet"):
                    if get["path"] not in knowledge.probe_paths():
                        yield f"{pod.name}: {kind} asks for {get['path']}, which no server answers"
                    wanted = "/healthz" if kind == "livenessProbe" else "/readyz"
                    if get["path"] != wanted:
                        yield f"{pod.name}: {kind} asks for {get['path']} instead of {wanted}"
                    if get["port"] not in names:
                        yield f"{pod.name}: {kind} asks at the port {get['port']}, and there is {sorted(names)}"
                    if get.get("scheme", "HTTP") != ("HTTPS" if tls else "HTTP"):
                        yield f"{pod.name}: {kind} speaks {get.get('scheme', 'HTTP')} to a server with tls={bool(tls)}"
                    if tls and "client_ca_file" in tls:
                        yield f"{pod.name}: {kind} has no certificate, and the server asks for one"
                elif "exec" in probe:
                    command = probe["exec"]["command"]
                    if command[0] != container["command"][0]:
                        yield f"{pod.name}: {kind} runs {command[0]}, which is not in its image"
                    asked = "live" if kind == "livenessProbe" else "ready"
                    if f"--probe={asked}" not in command:
                        yield f"{pod.name}: {kind} does not ask whether it is {asked}"
                    flags = {"args": command[1:], "command": command[:1]}
                    yield from unknown_flags(pod, flags)


def unknown_flags(pod, container):
    name, args = binary(container), [*container["command"][1:], *container.get("args", [])]
    given = {arg.split("=", 1)[0] for arg in args if arg.startswith("--")}
    if name == knowledge.COMMAND:
        known = knowledge.commands()
        command = subcommand(container, known)
        flags = {flag for word in prefixes(command) for flag in known.get(word, {})}
        words = [arg for arg in args if not arg.startswith("-")]
        if command == "isomer" and words:
            yield f"{pod.name}: `isomer {words[0]}` is not a command"
    elif name in knowledge.SERVERS:
        flags = knowledge.server_flags(name)
    else:
        yield f"{pod.name}: {name} is not one of our binaries"
        return
    for flag in sorted(given - flags):
        yield f"{pod.name}: {name} has no flag {flag}"


def prefixes(command):
    words = command.split()
    return [" ".join(words[:count]) for count in range(1, len(words) + 1)]


@check
def commands_and_flags_are_known(release):
    targets = knowledge.image_binaries()
    for pod in release.pods():
        for container in pod.containers():
            yield from unknown_flags(pod, container)
            if binary(container) not in knowledge.built():
                yield f"{pod.name}: cargo builds no {binary(container)}"
            target = re.split("[:@]", container["image"].rsplit("/", 1)[-1])[0]
            if container["command"][0] not in targets.get(target, set()):
                yield f"{pod.name}: the image {target} has {sorted(targets.get(target, []))}, not {container['command'][0]}"


@check
def every_variable_is_one_that_the_binary_reads(release):
    for pod, container in ours(release):
        name = binary(container)
        known = set(knowledge.variables(name, subcommand(container, knowledge.commands())))
        # Variables that the configuration names: keys of generators and providers.
        for path, content in release.files(pod, container).items():
            if path.startswith(CONFIG) and content:
                known |= set(re.findall(r'(?:api_key_env|environment)"? = "([A-Z][A-Z0-9_]*)"', content))
        for variable in container.get("env", []):
            named = variable["name"]
            # Credentials of the store.
            stores = name == knowledge.COMMAND or "store" in (release.configuration(pod, container) or {})
            cloud = stores and knowledge.CLOUD.match(named)
            if named not in known and not cloud:
                yield f"{pod.name}: {name} does not read {named}"
        if "envFrom" in container:
            yield f"{pod.name}: envFrom hides which variables there are"


@check
def configurations_are_valid(release):
    for pod, container in ours(release):
        config = release.configuration(pod, container)
        given = [arg for arg in container.get("args", []) if arg.startswith("--config=")]
        if given and config is None:
            yield f"{pod.name}: {given[0]} is not mounted"
        if config is None:
            continue
        schema = knowledge.configuration(binary(container))
        for error in jsonschema.Draft7Validator(schema).iter_errors(config):
            yield f"{pod.name}: {binary(container)}: {'.'.join(map(str, error.path))}: {error.message}"
        file = config.get("providers", {}).get("file")
        if file and release.files(pod, container).get(file) is None:
            yield f"{pod.name}: providers.file is {file}, which is not mounted"


@check
def replicas_of_eval_svc_are_one_service(release):
    """Several pods keep their runs in one database, share no volume of one pod, and are replaced one by one."""
    for pod in release.pods():
        if pod.component != "eval" or pod.owner["kind"] != "Deployment":
            continue
        config = release.configuration(pod, pod.spec["containers"][0])
        variables = {variable["name"] for variable in pod.spec["containers"][0].get("env", [])}
        shared = "ISOMER_EVAL__LEDGER__URL" in variables
        file = config["eval"].get("ledger", {}).get("url")
        if shared == bool(file):
            yield f"{pod.name}: its ledger is {file}, a file of one pod, and from a Secret: {shared}"
        recreated = pod.owner["spec"]["strategy"]["type"] == "Recreate"
        if recreated == shared:
            yield f"{pod.name}: stops all its pods first: {recreated}, with a ledger of its own: {not shared}"
        claims = [volume["name"] for volume in pod.spec["volumes"] if volume["name"] == "data" and "persistentVolumeClaim" in volume]
        if shared and claims:
            yield f"{pod.name}: its pods share the claim {claims}"
        if pod.owner["spec"]["replicas"] > 1 and not (shared and "store" in config):
            yield f"{pod.name}: several replicas without a ledger and a store that they share"
        for gateway in release.pods():
            if gateway.component == "gateway":
                asks_all = release.configuration(gateway, gateway.spec["containers"][0]).get("shared_runs", False)
                if asks_all != shared:
                    yield f"{gateway.name}: asks only the first server for runs: {not asks_all}, and their ledger is shared: {shared}"
        if shared and (policies := [one for one in release.all("NetworkPolicy") if matches(one["spec"]["podSelector"], pod.labels)]):
            ports = {port["port"] for policy in policies for rule in policy["spec"].get("egress", []) for port in rule.get("ports", [])}
            if 5432 not in ports:
                yield f"{pod.name}: may not reach its ledger by the network policies"


@check
def clients_of_this_release_see_every_pod(release):
    """gRPC keeps one connection to an address, so a Service's own address would give one pod all calls of a client."""
    for pod in release.pods():
        container = pod.spec["containers"][0]
        config = release.configuration(pod, container)
        if pod.owner["kind"] != "Deployment" or config is None:
            continue
        text = f"{config} {release.files(pod, container).get((config.get('providers') or {}).get('file'), '')}"
        for host in sorted(set(re.findall(r"grpcs?://([a-z0-9.-]+\.svc):|https?://([a-z0-9.-]+\.svc):", text))):
            service = release.named("Service", (host[0] or host[1]).split(".")[0])
            if service and service["spec"].get("clusterIP") != "None":
                yield f"{pod.name}: calls {service['metadata']['name']}, one address for all its pods"


@check
def providers_have_known_keys_and_addresses_that_may_be_called(release):
    keys, inner = knowledge.provider_keys()
    for pod in release.pods():
        for container in pod.spec["containers"]:
            config = release.configuration(pod, container) or {}
            file = config.get("providers", {}).get("file")
            if not file:
                continue
            content = release.files(pod, container).get(file) or ""
            allowed = config.get("addresses", {}).get("allow", [])
            for provider in tomllib.loads(content).get("provider", []):
                for key in sorted(set(provider) - keys):
                    yield f"{pod.name}: a provider has no key {key}"
                for table, known in inner.items():
                    for key in sorted(set(provider.get(table, {})) - known):
                        yield f"{pod.name}: {table} of a provider has no key {key}"
                scheme = provider["address"].split("://")[0]
                if provider.get("kind") == "isomer" and scheme not in ("grpc", "grpcs"):
                    yield f"{pod.name}: the provider {provider['id']} is at {scheme}://, and its kind wants grpc:// or grpcs://"
                host = re.sub(r"^[a-z+]+://", "", provider["address"]).rsplit(":", 1)[0]
                if host.endswith(".svc") and host not in allowed:
                    yield f"{pod.name}: the provider {provider['id']} is at {host}, which addresses.allow does not name"


@check
def files_that_are_named_are_mounted_and_folders_can_be_written(release):
    for pod in release.pods():
        for container in pod.containers():
            there = release.files(pod, container)
            used = set(re.findall(r"(/etc/isomer/[A-Za-z0-9./_-]+)", "\n".join(container.get("args", []))))
            config = release.configuration(pod, container)
            if config is not None:
                used |= set(re.findall(r"'(/etc/isomer/[A-Za-z0-9./_-]+)'", str(config)))
                file = config.get("providers", {}).get("file")
                if file and there.get(file):
                    used |= set(re.findall(r'"(/etc/isomer/[A-Za-z0-9./_-]+)"', there[file]))
            for path in sorted(used - set(there)):
                yield f"{pod.name}: {container['name']} uses {path}, which is not mounted"
            writable = [mount["mountPath"] for mount in container.get("volumeMounts", []) if not mount.get("readOnly")]
            folders = set(re.findall(r"'(/var/[a-z/]+|/store[a-z/]*)'", str(config or {})))
            # The gateway's folder is for SQLite alone, and most commands only ask.
            writes = {"models", "worker", "serve"} & set(container.get("args", []))
            if binary(container) == "isomer-gateway" or (binary(container) == knowledge.COMMAND and not writes):
                folders = set()
            for folder in sorted(folders):
                if not any(folder == path or folder.startswith(f"{path}/") for path in writable):
                    yield f"{pod.name}: {container['name']} writes to {folder}, and only {writable} can be written"


@check
def pods_drain_before_they_are_killed_and_may_start_slowly(release):
    for pod in release.pods():
        for container in pod.spec["containers"]:
            config = release.configuration(pod, container) or {}
            server = bool(container.get("ports")) and pod.component != "worker"
            drain = config.get("server", {}).get("shutdown_grace_seconds") if server else None
            for arg in container.get("args", []):
                if arg.startswith("--grace="):
                    drain = int(arg.removeprefix("--grace="))
            if drain is None:
                continue
            pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            if server and pause < 1:
                yield f"{pod.name}: no pause before the stop: requests on their way would be refused"
            if pod.spec["terminationGracePeriodSeconds"] < pause + drain + 5:
                yield f"{pod.name}: is killed after {pod.spec['terminationGracePeriodSeconds']} s, and drains for {pause} + {drain}"
            if probe := container.get("startupProbe"):
                seconds = probe["periodSeconds"] * probe["failureThreshold"]
                if config.get("embed", {}).get("warm_up") and seconds < 300:
                    yield f"{pod.name}: {seconds} s are short for the start of a server that loads a model"


@check
def pods_are_restricted(release):
    """Kubernetes' pod security standard `restricted`, and more: no token, nothing written but volumes, resources set."""
    for pod in release.pods():
        security = pod.spec.get("securityContext", {})
        if pod.spec.get("automountServiceAccountToken") is not False:
            yield f"{pod.name}: has a service account's token"
        if pod.spec.get("enableServiceLinks") is not False:
            yield f"{pod.name}: gets variables of Services, which may begin with ISOMER_"
        if security.get("runAsNonRoot") is not True or security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{pod.name}: runAsNonRoot and the seccomp profile RuntimeDefault are missing"
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.spec.get(key):
                yield f"{pod.name}: {key}"
        for volume in pod.spec.get("volumes", []):
            if not set(volume) & {"configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim", "ephemeral", "csi"}:
                yield f"{pod.name}: the volume {volume} is of a kind that is not allowed"
        for container in pod.containers():
            inner = container.get("securityContext", {})
            if inner.get("allowPrivilegeEscalation") is not False or inner.get("readOnlyRootFilesystem") is not True:
                yield f"{pod.name}: {container['name']} may gain privileges or write to its root"
            if inner.get("capabilities", {}).get("drop") != ["ALL"]:
                yield f"{pod.name}: {container['name']} keeps capabilities"
            resources = container.get("resources", {})
            if "memory" not in resources.get("limits", {}) or "cpu" not in resources.get("requests", {}):
                yield f"{pod.name}: {container['name']} has no memory limit or no CPU request"
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in {volume["name"] for volume in pod.spec.get("volumes", [])}:
                    yield f"{pod.name}: {container['name']} mounts {mount['name']}, which is no volume"
    for one in release.all("ServiceAccount"):
        if one.get("automountServiceAccountToken") is not False:
            yield f"ServiceAccount {one['metadata']['name']} gives its token"


SECRET_WORDS = re.compile(r"(?i)(api_key|password|passwd|token|secret)\s*=\s*[\"'][^\"']+[\"']")


@check
def secrets_are_never_in_config_maps_or_plain_variables(release):
    for one in release.all("ConfigMap"):
        for file, content in one.get("data", {}).items():
            if SECRET_WORDS.search(content):
                yield f"ConfigMap {one['metadata']['name']}: {file} holds a secret"
            if re.search(r"iso_[0-9a-z]{12}_[0-9A-Za-z]{49}", content) or re.search(r"[a-z]+://[^/\s\"@]+:[^/\s\"@]+@", content):
                yield f"ConfigMap {one['metadata']['name']}: {file} holds a key or a password"
    for pod in release.pods():
        for container in pod.containers():
            for variable in container.get("env", []):
                if "value" in variable and re.search(r"KEY|TOKEN|SECRET|PASSWORD|DATABASE__URL", variable["name"]):
                    yield f"{pod.name}: {variable['name']} is not from a Secret"
            if any(re.search(r"iso_[0-9a-z]{12}_", arg) for arg in container.get("args", [])):
                yield f"{pod.name}: a key is an argument"


@check
def generated_keys_are_keys(release):
    for one in release.all("Secret"):
        for name, value in one.get("data", {}).items():
            text = base64.b64decode(value).decode()
            body, given = text[:-6], text[-6:]
            number, made = int.from_bytes(hashlib.sha256(body.encode()).digest()[:4], "big"), ""
            for _ in range(6):
                made, number = DIGITS[number % 62] + made, number // 62
            if not re.fullmatch(r"iso_[0-9a-z]{12}_[0-9A-Za-z]{49}", text) or given != made:
                yield f"Secret {one['metadata']['name']}: {name} is not a key of the gateway's form"


@check
def references_lead_somewhere(release):
    made = {one["metadata"]["name"]: set(one.get("data", {})) for one in release.all("Secret")}
    made |= {one["spec"]["target"]["name"]: {entry["secretKey"] for entry in one["spec"]["data"]} for one in release.all("ExternalSecret")}
    made |= {one["spec"]["secretName"]: {"tls.crt", "tls.key", "ca.crt"} for one in release.all("Certificate")}
    claims = {one["metadata"]["name"] for one in release.all("PersistentVolumeClaim")}
    prefix = release.all("ServiceAccount", "ConfigMap")[0]["metadata"]["labels"]["app.kubernetes.io/instance"]
    for pod in release.pods():
        for volume in pod.spec.get("volumes", []):
            if "configMap" in volume and release.named("ConfigMap", volume["configMap"]["name"]) is None:
                yield f"{pod.name}: the ConfigMap {volume['configMap']['name']} is not there"
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            # A name of our own that nothing makes; others are the user's.
            if claim and claim.startswith(f"{prefix}-isomer") and claim not in claims:
                yield f"{pod.name}: the claim {claim} is not there"
            secret = volume.get("secret", {}).get("secretName")
            if secret and secret.startswith(f"{prefix}-isomer") and secret not in made:
                yield f"{pod.name}: the Secret {secret} is not there"
        for container in pod.containers():
            for variable in container.get("env", []):
                ref = variable.get("valueFrom", {}).get("secretKeyRef")
                if ref and ref["name"] in made and ref["key"] not in made[ref["name"]]:
                    yield f"{pod.name}: the Secret {ref['name']} has no entry {ref['key']}"
                if ref and ref["name"].startswith(f"{prefix}-isomer") and ref["name"] not in made:
                    yield f"{pod.name}: the Secret {ref['name']} is not there"
    services = {one["metadata"]["name"]: one for one in release.all("Service")}
    for one in release.all("Ingress"):
        for rule in one["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                ports = {port["name"] for port in services.get(backend["name"], {"spec": {"ports": []}})["spec"]["ports"]}
                if backend["port"]["name"] not in ports:
                    yield f"Ingress {one['metadata']['name']} leads to {backend}, which is not there"
    for one in release.all("HTTPRoute", "GRPCRoute"):
        for rule in one["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                ports = {port["port"] for port in services.get(backend["name"], {"spec": {"ports": []}})["spec"]["ports"]}
                if backend["port"] not in ports:
                    yield f"{one['kind']} {one['metadata']['name']} leads to {backend}, which is not there"
    for one in release.all("HorizontalPodAutoscaler"):
        for metric in one["spec"]["metrics"]:
            if metric["type"] == "Pods" and metric["pods"]["metric"]["name"] not in knowledge.metrics():
                yield f"HorizontalPodAutoscaler {one['metadata']['name']} asks for {metric['pods']['metric']['name']}, which no server has"
