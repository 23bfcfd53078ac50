#!/usr/bin/env python3
"""Runs the chart's pods for real: `helm/tests/pods`. The images that `helm/images/build` made, PostgreSQL, NATS, the pods
as `kubelet.py` runs them, and clients that do not retry through the gateway: vectors, a rule, a check by two workers, and a
rolling restart of every Deployment meanwhile."""

import argparse
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from check import helm
from kubelet import HOST, Cluster, Failed, require
from release import Release

SUITE = """
name = "pods"
seeds = [1337]
transformations = ["stopword_removal"]
profile = "mteb-v2"

[[dataset]]
task = "sts"
builtin = "quick/sts"
"""


SINGLE = {
    "mode": "single",
    "offline": True,
    "tls": {"mode": "secrets", "clientCertificates": True, "secrets": {"gateway": "gateway-tls"}},
    "single": {"encoders": ["all-MiniLM-L6-v2"]},
}


# Last message of a worker that has drained.
DONE = re.compile(r'"drained and stopped","done":(\d+)')
# Names in the certificates: those of the plain Services.
HOSTS = {
    name: [f"rel-isomer{suffix}.ns.svc" for suffix in suffixes]
    for name, suffixes in {"gateway": [""], "transform": ["-transform"], "eval": ["-eval"], "embed": ["-embed-minilm", "-embed-small"]}.items()
}


def say(text):
    print(f"== {text}", flush=True)


def values(tls):
    result = {
        "access": {"mode": "required"},
        "offline": True,
        "modelCache": {"type": "shared", "existingClaim": "models"},
        "database": {"existingSecret": "isomer-database"},
        "nats": {"url": "nats://nats.nats.svc:4222"},
        "store": {"url": "/store/shared", "existingClaim": "store"},
        "gateway": {"replicas": 2, "drainSeconds": 20},
        "eval": {"replicas": 2, "drainSeconds": 10, "ledger": {"existingSecret": "isomer-database"}, "through": "workers"},
        "transform": {"pull": [], "config": {"transform": {"default_generator": "openai:none@http://127.0.0.1:9/v1"}}},
        "embed": {"encoders": [
            {"name": "minilm", "model": "all-MiniLM-L6-v2", "replicas": 2},
            {"name": "small", "model": "paraphrase-MiniLM-L3-v2"},
        ]},
        "workers": {"pools": [
            {"name": "encode", "replicas": 2, "lanes": {"encode": 1}, "drainSeconds": 10, "pull": ["all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2"]},
            {"name": "words", "lanes": {"transform": 1, "judge": 1}, "drainSeconds": 10},
        ]},
        "setup": {"waitSeconds": 90},
    }
    if tls:
        result["tls"] = {"mode": "secrets", "secrets": {name: f"{name}-tls" for name in ("gateway", "transform", "eval", "embed")}}
    return result


def certificates(folder, names):
    """A new certificate of one authority for each name: Secret → entries."""
    run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)
    if not Path(folder, "ca.crt").exists():
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=authority",
        "-addext", "basicConstraints=critical,CA:TRUE")
    found = {}
    for name, hosts in names.items():
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        Path(folder, "ext").write_text(f"subjectAltName={','.join(f'DNS:{host}' for host in [*hosts, 'localhost'])}\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.crt", "-days", "2", "-extfile", "ext")
        for entry, file in (("tls.crt", f"{name}.crt"), ("tls.key", f"{name}.key"), ("ca.crt", "ca.crt")):
            found[f"{name}-tls", entry] = Path(folder, file).read_bytes()
    return found


class Neighbours:
    """PostgreSQL and NATS, on the bridge."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.processes = []

    def start(self):
        tools = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        data = self.folder / "postgresql"
        data.mkdir()
        self.folder.chmod(0o755)
        subprocess.run(["chown", "postgres", str(data)], check=True)
        as_postgres = ["runuser", "-u", "postgres", "--"]
        subprocess.run([*as_postgres, str(tools / "initdb"), "-D", str(data), "-U", "isomer", "--auth=trust", "--no-sync"], check=True, capture_output=True, cwd="/")
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.98.0.0/16 trust\n")
        self.spawn("postgresql.log", [*as_postgres, str(tools / "postgres"), "-D", str(data), "-h", HOST, "-k", "/tmp", "-c", "fsync=off"])
        nats = shutil.which("nats-server") or shutil.which("nats-server", path=os.environ.get("NATS_PATH", ""))
        self.spawn("nats.log", [nats, "-js", "-a", HOST, "-p", "4222", "-m", "8222", "-sd", str(self.folder / "nats")])
        for port in (5432, 4222):
            wait_for_port(port)
        subprocess.run([*as_postgres, str(tools / "createdb"), "-h", HOST, "-U", "isomer", "isomer"], check=False, capture_output=True, cwd="/")

    def spawn(self, log, words):
        self.processes.append(subprocess.Popen(words, stdout=(self.folder / log).open("wb"), stderr=subprocess.STDOUT, cwd="/"))

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(20)


def wait_for_port(port):
    for _ in range(100):
        try:
            socket.create_connection((HOST, port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise Failed(f"nothing listens on port {port}")


class Traffic(threading.Thread):
    """Requests for vectors through the gateway, each over a connection of its own, none repeated."""

    def __init__(self, address, key, model, context):
        super().__init__(daemon=True)
        self.address, self.key, self.model, self.context = address, key, model, context
        self.done, self.failed, self.number, self.over = 0, [], 0, False

    def run(self):
        while not self.over:
            self.number += 1
            try:
                vectors(self.address, self.key, self.model, [f"text {number} of request {self.number} for {self.model}" for number in range(8)], self.context)
                self.done += 1
            except (OSError, Failed, http.client.HTTPException) as error:
                self.failed.append(f"{self.model} at {time.strftime('%X')}: {error!r}")
            time.sleep(0.02)


class Streams(threading.Thread):
    """Streams of answers through the gateway, one after another and each of some seconds, none of them repeated."""

    def __init__(self, command, folder, name, words):
        super().__init__(daemon=True)
        self.command, self.words, self.done, self.failed, self.over = command, words, 0, [], False
        self.input = folder / f"{name}.jsonl"
        self.input.write_text("".join(f'{{"text": "Sentence number {number} of the stream is read by nobody in the park."}}\n' for number in range(400)))

    def run(self):
        while not self.over:
            ended = self.command(*self.words, "--input", str(self.input))
            if ended.returncode or ended.stdout.count("\n") < 400:
                self.failed.append(f"{self.words[0]} at {time.strftime('%X')}: ended with {ended.returncode} after {ended.stdout.count(chr(10))} lines: {ended.stderr[-300:]}")
            else:
                self.done += 1


def vectors(address, key, model, texts, context):
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    more = {"context": context} if context else {}
    connection = kind(address, 50051, timeout=30, **more)
    try:
        connection.request("POST", "/v1/embeddings", json.dumps({"model": model, "input": texts}), {"content-type": "application/json", "authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise Failed(f"{answer.status} {body[:300]!r}")
    return [one["embedding"] for one in json.loads(body)["data"]]


def templates(release, *kinds):
    return [pod for pod in release.pods() if pod.owner["kind"] in kinds]


def deploy(cluster):
    """The Job and all Deployments at once, as an install starts them."""
    def start(template):
        return cluster.start(template).run()

    wanted = templates(cluster.release, "Job") + [pod for pod in templates(cluster.release, "Deployment") for _ in range(pod.owner["spec"]["replicas"])]
    with ThreadPoolExecutor(len(wanted)) as threads:
        starting = [threads.submit(start, template) for template in wanted]
        wait(starting, return_when=FIRST_EXCEPTION)
        if any(one.done() and one.exception() for one in starting):
            # Nothing else needs to wait once one has failed.
            cluster.stop()
        return [pod for one in starting if (pod := one.result()).template.owner["kind"] == "Deployment"]


def restart(cluster, running, name):
    """A rolling restart: a new pod before an old one goes; Recreate: the old one first."""
    old = [pod for pod in running if pod.template.owner["metadata"]["name"] == name]
    recreate = old[0].template.owner["spec"]["strategy"]["type"] == "Recreate"
    for pod in old:
        if recreate:
            pod.end()
        running.append(cluster.start(pod.template).run())
        if not recreate:
            pod.end()
        running.remove(pod)
    return [f"{pod.name}: {problem}" for pod in old for problem in pod.problems]


def client(isomer, cluster, tls, folder, key, *words):
    """`isomer` on this machine, as a client of the gateway."""
    names = {address: name for name, address in cluster.hosts.items()}
    host = names[cluster.address()]
    scheme = "https" if tls else "http"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "ISOMER_API_KEY": key.decode(), "ISOMER_HOME": str(folder / "client")}
    command = [isomer, "--server", f"{scheme}://{host}:50051", *(["--ca-file", str(folder / "tls/ca.crt")] if tls else ["--api-key-over-plain-text"]), "--quiet", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)


def differences(folder, one, other):
    """Fields in which two reports differ, but for the run and its times: whoever does the work, they are one."""
    try:
        first, second = (json.loads((folder / name / "report.json").read_text()) for name in (one, other))
    except OSError as error:
        return [f"no report: {error}"]
    differ = [key for key in first if key not in ("run", "durations") and first[key] != second.get(key)]
    return [f"the reports {one} and {other} differ in {differ}"] if differ else []


def shown(pod, context):
    """The certificate that a pod shows to a new connection."""
    with socket.create_connection((pod.address, 50051), 30) as plain, context.wrap_socket(plain) as stream:
        return stream.getpeercert(binary_form=True)


def renewal(cluster, running, folder, hosts, context):
    """New certificates come into the pods as the kubelet brings them; every server shows them without a restart."""
    servers = [pod for pod in running if pod.template.component != "worker"]
    before = {pod.name: shown(pod, context) for pod in servers}
    cluster.renew(certificates(folder / "tls", hosts))
    fresh = {name: ssl.PEM_cert_to_DER_cert((folder / f"tls/{name}.crt").read_text()) for name in hosts}
    wait_until("every server shows its new certificate", lambda: all(shown(pod, context) == fresh[pod.template.component] for pod in servers))
    say(f"{len(servers)} servers show new certificates, and were not restarted")
    return [f"{pod.name}: the certificate was new before it was renewed" for pod in servers if before[pod.name] == fresh[pod.template.component]]


def call(address, key, path, message, context):
    """A call of the gateway's in JSON, as the protocol Connect has it."""
    connection = (http.client.HTTPSConnection if context else http.client.HTTPConnection)(address, 50051, timeout=30, **({"context": context} if context else {}))
    try:
        connection.request("POST", path, json.dumps(message), {"content-type": "application/json", "connect-protocol-version": "1", "authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        return 0, {"message": repr(error)}
    finally:
        connection.close()


def runs(address, key, context):
    """States of the runs, as the gateway reports them."""
    status, answer = call(address, key, "/isomer.eval.v1.RunService/ListRuns", {}, context)
    return [run["state"] for run in answer.get("runs", [])] if status == 200 else [f"{status} {answer}"]


def wait_until(what, holds, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return
        time.sleep(0.2)
    raise Failed(f"not within {seconds} s: {what}")


def encodes(pods, context):
    """Requests for vectors that each pod has answered, by its own metrics."""
    found = {}
    for pod in pods:
        connection = (http.client.HTTPSConnection if context else http.client.HTTPConnection)(pod.address, 50051, timeout=30, **({"context": context} if context else {}))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        found[pod.name] = sum(int(float(line.rsplit(" ", 1)[1])) for line in text.splitlines() if line.startswith("isomer_server_requests_total{") and 'method="Encode"' in line)
    return found


def spread(running, context):
    """Errors in how requests are spread over the pods of the encoder that has two."""
    counts = encodes([pod for pod in running if pod.template.owner["metadata"]["name"] == "rel-isomer-embed-minilm"], context)
    return [f"of the encoder's pods not all get their share: {counts}"] if len(counts) != 2 or min(counts.values()) * 4 < max(counts.values()) else []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("helm")
    parser.add_argument("--isomer", required=True, help="the isomer command on this machine")
    parser.add_argument("--models", required=True, help="a model cache that has the two encoders")
    parser.add_argument("--tls", action="store_true", help="with certificates between all services")
    parser.add_argument("--single", action="store_true", help="mode `single` instead, with certificates of clients too")
    parser.add_argument("--broken", action="store_true", help="pods are killed without a pause or a drain: requests must fail, or this test finds nothing")
    parser.add_argument("--keep", help="a folder for the logs")
    args = parser.parse_args()
    if why := require("podman", "ip", "unshare", "nats-server", "openssl"):
        say(f"skipped: {why}")
        return
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        say("skipped: no PostgreSQL (apt-get install postgresql)")
        return
    folder = Path(args.keep or tempfile.mkdtemp(prefix="isomer-pods-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    code, text, error = helm(args.helm, "template", SINGLE if args.single else values(args.tls))
    if code:
        raise SystemExit(error)
    release = Release(text)
    if args.single:
        return single(args, release, folder)
    if args.broken:
        for template in templates(release, "Deployment"):
            template.spec["terminationGracePeriodSeconds"] = 0
            template.spec["containers"][0].pop("lifecycle", None)
    secrets = {("isomer-database", "url"): b"postgres://isomer:not-asked-for@postgresql.postgresql.svc/isomer"}
    if args.tls:
        (folder / "tls").mkdir()
        secrets |= certificates(folder / "tls", HOSTS)
    cluster = Cluster(release, folder, secrets, {"postgresql.postgresql.svc": HOST, "nats.nats.svc": HOST})
    claims = folder / "claims/models"
    claims.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(args.models, claims)
    neighbours = Neighbours(folder)
    hosts_file = Path("/etc/hosts")
    before = hosts_file.read_text()
    try:
        neighbours.start()
        hosts_file.write_text(before + f"{cluster.address()} {next(name for name, address in cluster.hosts.items() if address == cluster.address())}\n")
        problems = scenario(args, cluster, folder)
    finally:
        hosts_file.write_text(before)
        cluster.stop()
        neighbours.stop()
    if args.broken:
        failed = [problem for problem in problems if re.search(r" at \d\d:\d\d:\d\d: ", problem)]
        if not failed:
            raise SystemExit("pods were killed in the middle of their work and no request failed: this test finds nothing")
        say(f"killed pods are noticed: {failed[0]}")
        if not args.keep:
            shutil.rmtree(folder)
        return
    for problem in problems:
        print(problem)
    if problems:
        raise SystemExit(f"{len(problems)} problems; logs are in {folder}")
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)


def single(args, release, folder):
    """Starts the one pod of mode `single`, runs `helm test` against it and stops it."""
    (folder / "tls").mkdir()
    cluster = Cluster(release, folder, certificates(folder / "tls", {"gateway": ["rel-isomer.ns.svc"]}), {})
    (folder / "claims").mkdir()
    shutil.copytree(args.models, folder / "claims/rel-isomer-single")
    try:
        pod = cluster.start(templates(release, "Deployment")[0]).run()
        say(f"ready after {pod.seconds:.1f} s")
        for template in templates(release, "Pod"):
            cluster.start(template).run()
        say("helm test passed")
        pod.end()
    finally:
        cluster.stop()
    if pod.problems:
        raise SystemExit(f"{pod.problems}; logs are in {folder}")
    if not args.keep:
        shutil.rmtree(folder)


def scenario(args, cluster, folder):
    problems = []
    say(f"starting the setup Job and {len(templates(cluster.release, 'Deployment'))} Deployments")
    begun = time.monotonic()
    running = deploy(cluster)
    say(f"all ready after {time.monotonic() - begun:.1f} s: " + ", ".join(f"{pod.template.component} {getattr(pod, 'seconds', 0):.1f}" for pod in running))

    key = cluster.secret("rel-isomer-keys", "checks")
    context = None
    if args.tls:
        context = ssl.create_default_context(cafile=str(folder / "tls/ca.crt"))
        context.check_hostname = False
    client_context = context
    if args.tls:
        # The services behind the gateway ask for a certificate.
        client_context = ssl.create_default_context(cafile=str(folder / "tls/ca.crt"))
        client_context.check_hostname = False
        client_context.load_cert_chain(str(folder / "tls/gateway.crt"), str(folder / "tls/gateway.key"))
    address = cluster.address()
    found = {model: vectors(address, key.decode(), model, ["A man is playing a guitar."], context)[0] for model in ("all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2")}
    say("vectors: " + ", ".join(f"{model} {len(vector)} columns, the first {vector[0]:.7f}" for model, vector in found.items()))
    try:
        vectors(address, "iso_" + "0" * 12 + "_" + "0" * 49, "all-MiniLM-L6-v2", ["x"], context)
        problems.append("a wrong key was let in")
    except Failed as refused:
        if "401" not in str(refused):
            problems.append(f"a wrong key was answered {refused}")

    say("helm test")
    for template in templates(cluster.release, "Pod"):
        cluster.start(template).run()

    texts = folder / "texts.jsonl"
    texts.write_text('{"text": "The man is playing a guitar in the park."}\n')
    done = client(args.isomer, cluster, args.tls, folder, key, "transform", "--transformation", "stopword_removal", "--input", str(texts))
    say(f"a rule: {done.stdout.strip()[:200]}")
    if done.returncode or "park" not in done.stdout:
        problems.append(f"the rule failed: {done.stderr}")

    suite, other_suite = folder / "suite.toml", folder / "other.toml"
    suite.write_text(SUITE)
    # Other texts: what one run has encoded is in the store for the next.
    other_suite.write_text(SUITE.replace("sts", "pair-classification"))
    check = ["check", *(word for model in found for word in ("--model", model)), "--limit", "40", "--no-separation", "--generator", "openai:none@http://127.0.0.1:9/v1"]
    logs = [path.read_text(errors="replace") for path in folder.glob("*-worker/worker.log")]
    if len(logs) != 3 or not all("taking units of work" in log for log in logs):
        problems.append("three workers do not take units of work")
    # In small units, so that there is one for each of the two.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "ISOMER_HOME": str(folder / "claims/models"), "ISOMER_OFFLINE": "1", "ISOMER_EVAL__ENCODE_BATCH_ITEMS": "8"}

    def alone(name, *more):
        """The check by `isomer` on this machine: what went wrong."""
        own = environment | {"ISOMER_EVAL__CACHE_DIR": str(folder / f"{name}-units")}
        ended = subprocess.run([args.isomer, "--quiet", *check, *more, "--out", str(folder / name)], capture_output=True, text=True, env=own, timeout=600)
        return [f"the check {name} ended with {ended.returncode}: {ended.stderr[-800:]}"] if ended.returncode else []

    say("a check by two workers")
    problems += alone("by-workers", "--suite", str(other_suite), "--engine", f"nats://{HOST}:4222", "--store", str(folder / "claims/store/shared"))
    subprocess.run(["chown", "-R", "65532:65532", str(folder / "claims")], check=True)
    problems += alone("by-itself-alone", "--suite", str(other_suite))
    problems += differences(folder, "by-workers", "by-itself-alone")

    if args.tls:
        problems += renewal(cluster, running, folder, HOSTS, client_context)
    say("a run of eval-svc waits for its workers, which are gone")
    workers = [pod for pod in running if pod.template.component == "worker"]
    for pod in workers:
        pod.end()
        running.remove(pod)
    units = {pod.name: [int(count) for count in re.findall(DONE, pod.log(pod.template.spec["containers"][0]).read_text(errors="replace"))] for pod in workers}
    say(f"units done by the workers: {units}")
    if len([done for done in units.values() if sum(done)]) != 2:
        problems.append(f"not two workers did the units of the check: {units}")
    outcome = []
    run = threading.Thread(target=lambda: outcome.append(client(args.isomer, cluster, args.tls, folder, key, *check, "--suite", str(suite), "--out", str(folder / "by-gateway"))))
    run.start()
    wait_until("a run is open", lambda: outcome or runs(address, key.decode(), context) == ["RUN_STATE_RUNNING"])

    say("rolling restarts, with clients that do not retry and this run open")
    clients = [Traffic(address, key.decode(), model, context) for model in found for _ in range(3)]
    clients += [
        Streams(lambda *words: client(args.isomer, cluster, args.tls, folder, key, *words), folder, words[0], words)
        for words in (("embed", "--model", "paraphrase-MiniLM-L3-v2", "--batch", "32"), ("transform", "--transformation", "stopword_removal"))
    ]
    for one in clients:
        one.start()
    wait_until("both pods of an encoder get requests", lambda: not spread(running, client_context), 60)
    for name in [template.owner["metadata"]["name"] for template in templates(cluster.release, "Deployment")]:
        if "-worker-" in name and workers:
            states = runs(address, key.decode(), context)
            say(f"the run after all others were replaced: {states}; its workers come back")
            if states != ["RUN_STATE_RUNNING"]:
                problems.append(f"the run that was open during the restarts is {states}")
            running += [cluster.start(pod.template).run() for pod in workers]
            workers = []
            run.join(300)
        begun, sent = time.monotonic(), sum(one.done for one in clients)
        problems += restart(cluster, running, name)
        failed = sum(len(one.failed) for one in clients)
        say(f"{name}: {time.monotonic() - begun:.1f} s, {sum(one.done for one in clients) - sent} requests, {failed} failed so far")
    for one in clients:
        one.over = True
    for one in clients:
        one.join(90)
    run.join(300)
    requests, failed = sum(one.done for one in clients), [failure for one in clients for failure in one.failed]
    say(f"{requests} requests, {[one.done for one in clients if isinstance(one, Streams)]} of them streams of 400 texts; {len(failed)} failed")
    problems += failed[:20]
    if not outcome or outcome[0].returncode:
        problems.append(f"the run over the gateway: {outcome and outcome[0].stderr[-800:]}")
    say(f"requests for vectors by pod, all of them new: {encodes([pod for pod in running if pod.template.component == 'embed'], client_context)}")
    problems += spread(running, client_context)

    say("the same check by this process alone")
    problems += alone("by-itself", "--suite", str(suite))
    problems += differences(folder, "by-gateway", "by-itself")
    done = sorted(int(count) for path in folder.glob("*-worker/worker.log") for count in re.findall(DONE, path.read_text(errors="replace")))
    say(f"units done by all workers that were stopped: {done}")
    if sum(done) <= sum(sum(one) for one in units.values()):
        problems.append(f"the workers did no unit of the run of eval-svc: {done}")
    again = vectors(address, key.decode(), "all-MiniLM-L6-v2", ["A man is playing a guitar."], context)[0]
    if again != found["all-MiniLM-L6-v2"]:
        problems.append("the vectors after the restarts are others")
    for pod in running:
        pod.end()
        problems += [f"{pod.name}: {problem}" for problem in pod.problems]
    return problems


if __name__ == "__main__":
    sys.exit(main())
