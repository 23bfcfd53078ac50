"""Other servers and libraries on the same device, the same texts and weights. What is not there is a row that says so."""

import importlib.util
import json
import os
import queue
import shutil
import socket
import statistics
import subprocess
import sys
import time

from server import post, timed
from vectors import Unusable


def sentence_transformers(run):
    """`tests/bench/encode_gpu.py` on each real model: interleaved rounds in each precision, ours beside theirs."""
    missing = [name for name in ("numpy", "torch", "sentence_transformers", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        run.report.add("sentence-transformers", result="not measured", note=f"Python here cannot import {', '.join(missing)}")
        return
    flash = importlib.util.find_spec("flash_attn") is not None and not run.cpu
    if not flash:
        run.report.add("sentence-transformers with FlashAttention 2", result="not measured", note="flash-attn is not installed, or no GPU")
    for name in run.models:
        for precision in run.args.precisions:
            only = [f"isomer-{precision}", f"st-{precision}"]
            if flash and precision != "f32":
                only.append(f"st-flash-{precision}")
            out = run.tree / "peers.json"
            out.unlink(missing_ok=True)
            command = [sys.executable, run.tree / "tests/bench/encode_gpu.py", "--isomer", run.binary, "--model", run.tree / "models" / name]
            command += ["--device", run.args.device, "--json", out, "--repeats", run.args.repeats, "--min-cosine", 0.99, "--only", *only]
            command += ["--batches", *([16] if run.cpu else [64, 256, 1024]), "--", *sorted((run.tree / "texts").glob("*.txt"))]
            environment = os.environ | {"LD_LIBRARY_PATH": ":".join(run.libraries), "ISOMER_HOME": str(run.tree / "home")}
            done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
            if done.returncode or not out.exists():
                said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
                run.report.add(f"{name}, sentence-transformers", precision=precision, result="FAILED", note=f"encode_gpu.py: {said}")
                continue
            found = json.loads(out.read_text())["rows"]
            ours = {row["texts"]: statistics.median(row["rates"]) for row in found if row["system"] == only[0]}
            peak = run.peak(precision)
            for row in found:
                # FLOPs and tokens are those of the whole file, which holds `count` texts.
                count = len((run.tree / "texts" / f"{row['texts']}.txt").read_text().splitlines())
                rate = statistics.median(row["rates"])
                run.report.add(
                    f"{name}, encode_gpu.py, {row['system']}",
                    shape=f"{count} {row['texts']}",
                    precision=precision,
                    texts_s=rate,
                    tokens_s=rate * row["tokens"] / count,
                    mfu=rate * row["flops"] / count / (peak * 1e12) if peak else None,
                    rates=row["rates"],
                    note=f"batches of {row['batch']}; isomer / it {ours[row['texts']] / rate:.2f}",
                )


def text_embeddings_inference(run):
    """Its router on each real model, through its own HTTP route."""
    router = shutil.which("text-embeddings-router")
    if not router:
        run.report.add("text-embeddings-inference", result="not measured", note="text-embeddings-router is not on the PATH")
        return
    for name in run.models:
        # It has no bf16.
        for precision in [one for one in run.args.precisions if one != "bf16"]:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            dtype = {"f32": "float32", "f16": "float16"}[precision]
            command = [router, "--model-id", run.tree / "models" / name, "--port", port, "--dtype", dtype, "--max-client-batch-size", 256]
            process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                measure_router(run, name, precision, f"127.0.0.1:{port}", process)
            except Unusable as error:
                run.report.add(f"{name}, text-embeddings-inference", precision=precision, result="FAILED", note=str(error))
            finally:
                process.terminate()
                process.wait(timeout=60)


def measure_router(run, name, precision, address, process):
    import http.client

    started = time.monotonic()
    while True:
        connection = http.client.HTTPConnection(address, timeout=60)
        try:
            status, _ = post(connection, "/embed", json.dumps({"inputs": ["ready"]}).encode())
            if status == 200:
                break
        except OSError:
            pass
        finally:
            connection.close()
        if process.poll() is not None or time.monotonic() - started > 300:
            raise Unusable(f"text-embeddings-router did not serve {name} (exit code {process.poll()})")
        time.sleep(0.5)
    for file in sorted((run.tree / "texts").glob("*.txt")):
        lines = file.read_text().splitlines()
        batch = min(256, max(1, len(lines) // run.args.in_flight))

        def rate():
            bodies = queue.SimpleQueue()
            for first in range(0, len(lines), batch):
                bodies.put(json.dumps({"inputs": lines[first : first + batch], "truncate": True}).encode())
            return len(lines) / timed(address, "/embed", bodies, run.args.in_flight)

        rate()
        rates = [rate() for _ in range(run.args.repeats)]
        note = f"batches of {batch}, {run.args.in_flight} in flight"
        run.report.add(
            f"{name}, text-embeddings-inference", shape=f"{len(lines)} {file.stem}", precision=precision,
            texts_s=statistics.median(rates), rates=rates, note=note,
        )  # fmt: skip
