"""Runs the pods of a rendered release on this machine as a kubelet would: each pod in a network namespace of its own, its
containers by podman with the rendered image, command, files, variables, user and read-only root, its probes, its stop.
Services are userspace proxies that spread connections over the ready pods; a name server (dns.py) knows them, and gives for
headless ones the addresses of the ready pods. Needs root, podman, iproute2.

Not played: admission, scheduling, limits of memory and CPU, network policies, claims beyond a folder each."""

import base64
import http.client
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

from dns import NameServer, resolver
from release import matches

BRIDGE, NETWORK, HOST = "isomer-pods", "10.98", "10.98.0.1"
USER = 65532
# podman's hybrid cgroups are taken away in a mount namespace of its own; the limits are those that
# a container of this kind may set.
PODMAN = ["unshare", "-m", "sh", "-c", 'umount /sys/fs/cgroup/unified 2>/dev/null; exec podman --storage-driver vfs --cgroup-manager cgroupfs "$@"', "podman"]


class Failed(Exception):
    pass


def ip(*words, check=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode:
        raise Failed(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Cluster:
    """The network, the folders, the Services and the pods of a release."""

    def __init__(self, release, folder, secrets, hosts):
        self.release, self.folder, self.secrets = release, Path(folder), secrets
        self.pods, self.services, self.number, self.lock = [], [], 10, threading.RLock()
        ip("link", "del", BRIDGE, check=False)
        # With an address of its own: a bridge that takes its ports' changes it when a pod goes, and
        # everybody's ARP entries are wrong for a minute.
        ip("link", "add", BRIDGE, "address", "02:00:00:00:00:01", "type", "bridge")
        ip("addr", "add", f"{HOST}/16", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        self.hosts, self.headless = dict(hosts), {}
        for index, service in enumerate(release.all("Service"), 1):
            name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
            if service["spec"].get("clusterIP") == "None":
                self.headless[name] = service
                continue
            address = f"{NETWORK}.1.{index}"
            ip("addr", "add", f"{address}/16", "dev", BRIDGE)
            self.hosts[name] = address
            self.services.append(Service(self, service, address))
        self.names = NameServer(HOST, self.lookup)
        namespace = next((one["metadata"]["namespace"] for one in release.all("Service")), "default")
        self.folder.joinpath("resolv.conf").write_text(resolver(HOST, namespace))

    def lookup(self, name):
        """The addresses of a name; None where nobody has it."""
        if service := self.headless.get(name):
            return [pod.address for pod in self.ready(service)] or None
        return [self.hosts[name]] if name in self.hosts else None

    def ready(self, service):
        """The ready pods of a Service."""
        selector = {"matchLabels": service["spec"]["selector"]}
        return [pod for pod in self.pods if pod.ready and matches(selector, pod.template.labels)]

    def address(self, suffix=""):
        return next(address for name, address in self.hosts.items() if name.split(".")[0] == f"rel-isomer{suffix}")

    def secret(self, name, key):
        """An entry of a Secret: one of the user's own, or a rendered one."""
        if (name, key) in self.secrets:
            return self.secrets[name, key]
        rendered = self.release.named("Secret", name)
        if rendered is None or key not in rendered["data"]:
            raise Failed(f"no Secret {name} with an entry {key}")
        return base64.b64decode(rendered["data"][key])

    def renew(self, secrets):
        """Other content of Secrets, and of the files that pods have of them."""
        self.secrets |= secrets
        for pod in self.pods:
            for volume in pod.template.spec["volumes"]:
                if volume["name"] in pod.mounts and "secret" in volume:
                    for entry in (item for name, item in secrets if name == volume["secret"]["secretName"]):
                        path = pod.mounts[volume["name"]] / entry
                        fresh = path.with_name(f".{entry}")
                        fresh.write_bytes(secrets[volume["secret"]["secretName"], entry])
                        os.chown(fresh, USER, USER)
                        fresh.rename(path)

    def start(self, template):
        """A pod of a template; its network only. `Pod.run` starts its containers."""
        with self.lock:
            self.number += 1
            pod = Pod(self, template, self.number)
            self.pods.append(pod)
        return pod

    def stop(self):
        for pod in self.pods:
            pod.kill()
        for service in self.services:
            service.close()
        self.names.close()
        ip("link", "del", BRIDGE, check=False)


class Service:
    """A proxy at a Service's address, as kube-proxy spreads connections."""

    def __init__(self, cluster, service, address):
        self.cluster, self.service, self.listeners = cluster, service, []
        for port in service["spec"]["ports"]:
            listener = socket.create_server((address, port["port"]), backlog=256)
            self.listeners.append(listener)
            threading.Thread(target=self.accept, args=(listener, port["targetPort"]), daemon=True).start()

    def accept(self, listener, port):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client, port), daemon=True).start()

    def forward(self, client, port):
        ready = self.cluster.ready(self.service)
        if not ready:
            # Nobody is there: the connection is reset, as it would be refused.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            return
        try:
            server = socket.create_connection((random.choice(ready).address, port_of(ready[0], port)), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pump, args=(one, other), daemon=True).start()

    def close(self):
        for listener in self.listeners:
            listener.close()


def port_of(pod, name):
    ports = [port for container in pod.template.spec["containers"] for port in container.get("ports", [])]
    return next(port["containerPort"] for port in ports if port["name"] == name)


def pump(source, sink):
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        sink.close()


class Pod:
    def __init__(self, cluster, template, number):
        self.cluster, self.template, self.ready, self.problems = cluster, template, False, []
        self.name = f"pod{number}-{template.component}"[:40]
        self.address, self.netns, self.stopping = f"{NETWORK}.2.{number}", f"isomer-{number}", False
        self.folder = cluster.folder / self.name
        self.folder.mkdir(parents=True)
        self.mounts = {}
        ip("netns", "del", self.netns, check=False)
        ip("link", "del", f"iv{number}", check=False)
        ip("netns", "add", self.netns)
        ip("link", "add", f"iv{number}", "type", "veth", "peer", "name", "eth0", "netns", self.netns)
        ip("link", "set", f"iv{number}", "master", BRIDGE, "up")
        for words in (["addr", "add", f"{self.address}/16", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            ip("-n", self.netns, *words)

    def volume(self, name):
        """The folder of a volume on this machine."""
        if name in self.mounts:
            return self.mounts[name]
        volume = next(one for one in self.template.spec["volumes"] if one["name"] == name)
        folder = self.folder / "volumes" / name
        if claim := volume.get("persistentVolumeClaim"):
            folder = self.cluster.folder / "claims" / claim["claimName"]
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        if "configMap" in volume:
            config = self.cluster.release.named("ConfigMap", volume["configMap"]["name"])
            files = {file: content.encode() for file, content in config["data"].items()}
        elif "secret" in volume:
            items = volume["secret"].get("items") or [{"key": key, "path": key} for key in ("tls.crt", "tls.key", "ca.crt")]
            files = {item["path"]: self.cluster.secret(volume["secret"]["secretName"], item["key"]) for item in items}
        elif "projected" in volume:
            for source in volume["projected"]["sources"]:
                for item in source["secret"]["items"]:
                    files[item["path"]] = self.cluster.secret(source["secret"]["name"], item["key"])
        for file, content in files.items():
            folder.joinpath(file).write_bytes(content)
        # As `fsGroup` does.
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(folder)], check=True)
        self.mounts[name] = folder
        return folder

    def command(self, container):
        name = f"{self.name}-{container['name']}"
        words = [*PODMAN, "run", "--rm", "--name", name, "--cgroups=disabled", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
                 "--network", f"ns:/run/netns/{self.netns}", "--user", f"{self.template.spec['securityContext']['runAsUser']}",
                 "--pull", "never"]
        security = container["securityContext"]
        if security["readOnlyRootFilesystem"]:
            words += ["--read-only", "--read-only-tmpfs=false"]
        if not security["allowPrivilegeEscalation"]:
            words += ["--security-opt", "no-new-privileges"]
        words += [word for drop in security["capabilities"]["drop"] for word in ("--cap-drop", drop.lower())]
        words += ["--volume", f"{self.cluster.folder / 'resolv.conf'}:/etc/resolv.conf:ro"]
        for variable in container.get("env", []):
            value = variable.get("value")
            if ref := variable.get("valueFrom", {}).get("secretKeyRef"):
                value = self.cluster.secret(ref["name"], ref["key"]).decode()
            words += ["--env", f"{variable['name']}={value}"]
        for mount in container.get("volumeMounts", []):
            mode = "ro" if mount.get("readOnly") else "rw"
            words += ["--volume", f"{self.volume(mount['name'])}:{mount['mountPath']}:{mode}"]
        words += ["--entrypoint", json.dumps(container["command"]), container["image"], *container.get("args", [])]
        return name, words

    def log(self, container):
        return self.folder / f"{container['name']}.log"

    def run(self):
        """Init containers one after another, then the container, until it is ready or, without probes, has ended."""
        for container in self.template.spec.get("initContainers", []):
            self.finish(container)
        container = self.template.spec["containers"][0]
        if self.template.owner["kind"] not in ("Deployment",):
            self.finish(container)
            return self
        self.container, words = self.command(container)
        self.begun = time.monotonic()
        self.process = subprocess.Popen(words, stdout=self.log(container).open("wb"), stderr=subprocess.STDOUT)
        if "startupProbe" not in container:
            # A worker: ready as soon as it runs, and restarted where it does not live.
            self.ready = True
            while not self.probe(container, "livenessProbe"):
                self.alive()
                if time.monotonic() - self.begun > 60:
                    raise Failed(f"{self.name} does not live: {self.tail(container)}")
                time.sleep(0.5)
            self.seconds = time.monotonic() - self.begun
            threading.Thread(target=self.watch, args=(container,), daemon=True).start()
            return self
        probe = container["startupProbe"]
        for _ in range(probe["failureThreshold"] * 4):
            self.alive()
            if self.probe(container, "startupProbe"):
                break
            time.sleep(probe["periodSeconds"] / 4)
        else:
            raise Failed(f"{self.name} did not start: {self.tail(container)}")
        self.seconds = time.monotonic() - self.begun
        self.ready = True
        threading.Thread(target=self.watch, args=(container,), daemon=True).start()
        return self

    def finish(self, container):
        _, words = self.command(container)
        with self.log(container).open("wb") as log:
            code = subprocess.run(words, stdout=log, stderr=subprocess.STDOUT).returncode
        if code:
            raise Failed(f"{self.name}: {container['name']} ended with {code}: {self.tail(container)}")

    def alive(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with {self.process.returncode}: {self.tail(self.template.spec['containers'][0])}")

    def tail(self, container):
        return self.log(container).read_text(errors="replace")[-1500:]

    def probe(self, container, kind):
        probe = container[kind]
        if get := probe.get("httpGet"):
            port = next(port["containerPort"] for port in container["ports"] if port["name"] == get["port"])
            try:
                if get.get("scheme") == "HTTPS":
                    # The kubelet does not verify either.
                    connection = http.client.HTTPSConnection(self.address, port, timeout=probe["timeoutSeconds"], context=ssl._create_unverified_context())
                else:
                    connection = http.client.HTTPConnection(self.address, port, timeout=probe["timeoutSeconds"])
                connection.request("GET", get["path"])
                return 200 <= connection.getresponse().status < 400
            except OSError:
                return False
        words = [*PODMAN, "exec", self.container, *probe["exec"]["command"]]
        return subprocess.run(words, capture_output=True, timeout=probe["timeoutSeconds"] + 25).returncode == 0

    def watch(self, container):
        """Readiness takes the pod out of its Services; a failed liveness would restart it and counts as a problem."""
        failed = {kind: 0 for kind in ("livenessProbe", "readinessProbe") if kind in container}
        while not self.stopping and self.process.poll() is None:
            for kind in failed:
                good = self.probe(container, kind)
                failed[kind] = 0 if good else failed[kind] + 1
            if self.stopping:
                return
            if "readinessProbe" in failed:
                self.ready = failed["readinessProbe"] < container["readinessProbe"]["failureThreshold"]
            if failed["livenessProbe"] >= container["livenessProbe"]["failureThreshold"]:
                self.problems.append("liveness failed: it would have been restarted")
            time.sleep(2)

    def end(self):
        """Out of the Services, the pause, SIGTERM, and SIGKILL when the grace period is over."""
        self.stopping = True
        self.ready = False
        container = self.template.spec["containers"][0]
        begun = time.monotonic()
        if self.template.spec["terminationGracePeriodSeconds"] == 0:
            self.problems.append("was killed at once")
            return self.kill()
        time.sleep(container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0))
        subprocess.run([*PODMAN, "kill", "--signal", "TERM", self.container], capture_output=True)
        grace = self.template.spec["terminationGracePeriodSeconds"] - (time.monotonic() - begun)
        try:
            code = self.process.wait(grace)
            if code:
                self.problems.append(f"ended with {code}: {self.tail(container)}")
        except subprocess.TimeoutExpired:
            self.problems.append("did not end within its grace period")
        self.kill()

    def kill(self):
        self.stopping, self.ready = True, False
        if getattr(self, "process", None) and self.process.poll() is None:
            subprocess.run([*PODMAN, "kill", "--signal", "KILL", self.container], capture_output=True)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                # It was about to start.
                self.process.kill()
        ip("netns", "del", self.netns, check=False)


def require(*commands):
    """Why pods cannot be run here; None where they can."""
    if os.geteuid():
        return "not root"
    missing = [command for command in commands if shutil.which(command) is None]
    return f"no {', '.join(missing)}" if missing else None
