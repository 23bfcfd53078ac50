"""`isomer serve` as the measurements use it: its process, its HTTP clients, its memory, and the CUDA libraries it needs."""

import base64
import collections
import ctypes.util
import glob
import http.client
import json
import os
import pathlib
import queue
import re
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

from vectors import Unusable, floats

# What a CUDA build is linked to, besides the driver's libcuda.so.1.
SONAMES = ["libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libcurand.so.10", "libnvrtc.so.13"]


def library_path(packed, given=()):
    """Folders for LD_LIBRARY_PATH that together hold what a CUDA build is linked to."""
    toolkit = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    folders = [*given, str(packed), *([f"{toolkit}/lib64", f"{toolkit}/lib"] if toolkit else [])]
    # Beside PyTorch lie the libraries of NVIDIA's wheels.
    folders += [f"{place}/nvidia/{part}/lib" for place in sys.path for part in ("cu13", "cublas", "cuda_runtime", "curand", "cuda_nvrtc")]
    folders += glob.glob("/usr/local/cuda*/lib64") + os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders = [folder for folder in dict.fromkeys(folders) if folder and os.path.isdir(folder)]
    used, missing = list(given), []
    for name in SONAMES:
        holder = next((folder for folder in folders if os.path.exists(f"{folder}/{name}")), None)
        if holder:
            used.append(holder)
        elif not ctypes.util.find_library(name.removeprefix("lib").split(".so")[0]):
            missing.append(name)
    if missing:
        raise Unusable(
            f"the binary needs {', '.join(missing)}, which is in none of {', '.join(folders) or 'no folder'}; "
            "name the folder with --library-path, or pack it with tests/gpu/pack --libraries"
        )
    return list(dict.fromkeys(used + os.environ.get("LD_LIBRARY_PATH", "").split(":")))


# ---------------------------------------------------------------- memory


class Memory:
    """MiB in use by the device, or by the process where that is a CPU: now, and the peak since `reset`."""

    def __init__(self, device, process):
        self.device, self.process, self.peak, self.last = device, process, 0.0, 0.0
        self.ended, self.smi = threading.Event(), None
        if device != "cpu":
            query = ["nvidia-smi", f"--id={device.removeprefix('cuda:')}", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "100"]
            self.smi = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        time.sleep(0.3)

    def samples(self):
        if self.smi:
            for line in self.smi.stdout:
                yield float(line)
            return
        status = pathlib.Path(f"/proc/{self.process.pid}/status")
        while not self.ended.wait(0.02):
            try:
                found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
            except OSError:
                return
            if found:
                yield int(found[1]) / 1024

    def watch(self):
        for self.last in self.samples():
            self.peak = max(self.peak, self.last)

    def reset(self):
        self.peak = self.last

    def settles(self, most, hold, seconds):
        """Seconds until no more than `most` MiB are in use, and stay so for `hold` seconds; None if that takes longer than `seconds`."""
        started = below = time.monotonic()
        while (now := time.monotonic()) - started < seconds:
            if self.last > most:
                below = now
            elif now - below >= hold:
                return below - started
            time.sleep(0.02)
        return None

    def close(self):
        self.ended.set()
        if self.smi:
            self.smi.terminate()
            self.smi.wait(timeout=10)
        self.thread.join(timeout=10)


# ---------------------------------------------------------------- the server


class Server:
    """`isomer serve` on one device, in one precision. A model is loaded at the first request that names its folder."""

    def __init__(self, binary, device, precision, home, libraries=(), log=None):
        # Its own home: nothing is read from, or left in, the user's.
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(home),
            "ISOMER_HOME": str(home),
            "ISOMER_OFFLINE": "1",
            "ISOMER_EMBED__ALLOW_PATHS": "true",
            "ISOMER_EMBED__DEVICE": device,
            "ISOMER_EMBED__PRECISION": precision,
            "ISOMER_EMBED__MAX_BATCH_TOKENS": os.environ.get("ISOMER_EMBED__MAX_BATCH_TOKENS", "16384" if device == "cpu" else "65536"),
            "ISOMER_EMBED__MAX_QUEUED_TOKENS": str(1 << 26),
            "LD_LIBRARY_PATH": ":".join(libraries),
        }
        environment |= {key: value for key, value in os.environ.items() if key.startswith(("CUDA_", "NVIDIA_"))}
        command = [str(binary), "serve", "--listen", "127.0.0.1:0", "--log", "warn"]
        self.log = open(log or os.devnull, "ab")
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if line.startswith("isomer serves "):
                self.address = line.split()[-1]
                break
        else:
            code = self.process.wait()
            raise Unusable(f"`{binary.name} serve` on {device} ended with {code} before it served; see {log or 'its stderr'}")
        # Keeps reading, so that the server never blocks on a full pipe.
        threading.Thread(target=collections.deque, args=(self.process.stdout, 0), daemon=True).start()
        self.memory = Memory(device, self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.memory.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def connection(self, seconds=900):
        return http.client.HTTPConnection(self.address, timeout=seconds)

    def call(self, path, body, connection=None):
        own = connection or self.connection()
        try:
            status, answer = post(own, path, json.dumps(body).encode())
        finally:
            if connection is None:
                own.close()
        if status != 200:
            raise Unusable(f"POST {path} was answered {status}: {answer[:400].decode(errors='replace')}")
        return json.loads(answer)

    def encode(self, folder, inputs, batch=64, **fields):
        """Vectors of inputs, a batch a request, and the tokens that the server counted."""
        found, tokens, connection = [], 0, self.connection()
        for first in range(0, len(inputs), batch):
            body = {"model": str(folder), "input": inputs[first : first + batch], "encoding_format": "base64", **fields}
            answer = self.call("/v1/embeddings", body, connection)
            found += [floats(base64.b64decode(row["embedding"])) for row in sorted(answer["data"], key=lambda row: row["index"])]
            tokens += answer["usage"]["prompt_tokens"]
        connection.close()
        return found, tokens

    def scores(self, folder, query, documents):
        answer = self.call("/v1/rerank", {"model": str(folder), "query": query, "documents": documents})
        return [row["relevance_score"] for row in sorted(answer["results"], key=lambda row: row["index"])]

    def seconds(self, folder, inputs, batch, in_flight):
        """How long all inputs take, a batch a request, with several requests in flight. Answers are read, not decoded."""
        bodies = queue.SimpleQueue()
        for first in range(0, len(inputs), batch):
            body = {"model": str(folder), "input": inputs[first : first + batch], "encoding_format": "base64"}
            bodies.put(json.dumps(body).encode())
        return timed(self.address, "/v1/embeddings", bodies, in_flight)

    def begin(self, folder, inputs):
        """Sends a request and does not wait for its answer. Closing the connection cancels it."""
        connection = self.connection()
        connection.request("POST", "/v1/embeddings", json.dumps({"model": str(folder), "input": inputs}), {"content-type": "application/json"})
        return connection


def cancel(connection):
    """Closes at once, as a client does that has gone away."""
    if connection.sock:
        connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def post(connection, path, body):
    connection.request("POST", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def timed(address, path, bodies, in_flight):
    """Seconds until every body in the queue is answered, by so many clients."""
    failed = []

    def client():
        connection = http.client.HTTPConnection(address, timeout=900)
        try:
            while not failed:
                status, answer = post(connection, path, bodies.get_nowait())
                if status != 200:
                    failed.append(f"{status}: {answer[:400].decode(errors='replace')}")
        except queue.Empty:
            pass
        except OSError as error:
            failed.append(str(error))
        finally:
            connection.close()

    clients = [threading.Thread(target=client) for _ in range(in_flight)]
    started = time.perf_counter()
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    seconds = time.perf_counter() - started
    if failed:
        raise Unusable(f"a request of {len(clients)} in flight failed: {failed[0]}")
    return seconds


def median(values):
    return statistics.median(values)
