#!/usr/bin/env python3
"""Hours of mixed use of one gateway: clients of several kinds, keys, runs, cancelled calls, a model that becomes unavailable, a gateway that is killed.

    pip install -r tests/python/requirements.txt
    python tests/soak/soak.py --isomer target/release/isomer --minutes 60

The models are in this script: an encoder and a language model over HTTP, which count every token of every call that reaches them. In the first third of the
time the models are unavailable for two seconds once a minute, and the gateway is killed (SIGKILL) and started again every five minutes. After that neither happens, and memory, open files and
threads of the gateway are recorded.

Exits with 1 unless all of these hold:
  * every key was charged what the models counted for it, with one tolerance: charges are written twice a second, so each kill may lose those of its last two seconds;
  * calls that were not cut off were answered while the model and the gateway were available, and all vectors were right;
  * resident memory at the end is at most a tenth above that after the first half of the quiet part, and the numbers of files and threads have not grown.
"""

import argparse
import collections
import hashlib
import http.client
import http.server
import json
import pathlib
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import grpc
from isomer_stubs import generated_stubs
from server import environment, serve

ENCODER = "paid"
WIDTH = 8
# Tokens that the language model reads and writes in a call, and the most that a call may be charged
# that was cut off.
READ, WRITTEN, MOST_OF_A_CALL = 300, 100, 4000
KEYS = 4


def vector(text):
    digest = hashlib.sha256(text.encode()).digest()
    values = [byte / 255 + 0.01 for byte in digest[:WIDTH]]
    length = sum(value * value for value in values) ** 0.5
    return [struct.unpack("f", struct.pack("f", value / length))[0] for value in values]


def tokens(text):
    """Tokens as the gateway estimates them for a call that was cut off; 0 for the texts with which it checks the encoder itself."""
    return -(-len(text.encode()) // 4) if "number" in text else 0


def owner(text):
    """The key to which a text belongs."""
    return int(text.split("owner ")[1].split(" ")[0]) if "owner " in text else None


class Models:
    """Both models, with their counts by key."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counted, self.cut, self.away = collections.Counter(), collections.Counter(), False
        # Tokens per second of time, for the charges that a kill may lose.
        self.seconds = collections.Counter()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if outer.away:
                    return self.tell(503, {"error": {"message": "away"}})
                if self.path.endswith("/embeddings"):
                    return self.tell(200, outer.embed(body))
                return self.tell(200, outer.complete(body))

            def do_GET(self):
                self.tell(200, {"object": "list", "data": [{"id": "stub", "object": "model"}]})

            def tell(self, status, body):
                content = json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            # Callers disconnect on purpose.
            handle_error = lambda *_: None  # noqa: E731

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def count(self, key, used):
        with self.lock:
            self.counted[key] += used
            self.seconds[int(time.monotonic())] += used

    def embed(self, body):
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        for text in texts:
            self.count(owner(text), tokens(text))
        time.sleep(random.uniform(0, 0.03))
        data = [{"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(texts)]
        used = sum(map(tokens, texts))
        return {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": used, "total_tokens": used}}

    def complete(self, body):
        asked = json.dumps(body["messages"])
        key = owner(asked)
        time.sleep(random.uniform(0, 0.05))
        self.count(key, READ + WRITTEN)
        content = f"A restated sentence of other words, {random.random()}."
        return {
            "id": "one",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
            "usage": {"prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN},
        }


class Gateway:
    def __init__(self, isomer, home, models):
        self.isomer, self.home, self.config = isomer, home, home / "gateway.toml"
        self.process, self.address = None, "127.0.0.1:0"
        (home / "providers.toml").write_text(
            f'[[provider]]\nid = "far"\nkind = "openai"\naddress = "{models.address}"\nprice_per_million_tokens = 1e3\nencoders = {{ {ENCODER} = "stub" }}\n'
        )
        self.config.write_text(
            f'[access]\nmode = "required"\n[addresses]\nallow = ["127.0.0.1"]\n[providers]\nfile = "{home}/providers.toml"\n'
            "[routing]\ncache_bytes = 0\nprobe_interval_seconds = 0\n"
            f'[transform]\ndefault_generator = "writer"\n[transform.generators.writer]\nmodel = "writer"\nurl = "{models.address}"\nmax_tries = 1\n'
        )

    def run(self, *arguments):
        done = subprocess.run([self.isomer, *arguments], env=environment(self.home), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"isomer {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def start(self):
        # After a kill, it listens on the same address as before.
        settings = ["--config", str(self.config)]
        self.process, self.address = serve(self.isomer, self.home, settings, self.address, (self.home / "log").open("ab"))

    def key(self, name):
        printed = self.run("keys", "create", "--config", str(self.config), "--name", name, "--scope", "encode,transform,evaluate")
        return next(word for word in printed.split() if word.startswith("iso_") and len(word) > 60)

    def charged(self):
        """Tokens by the name of the key."""
        listed = self.run("keys", "list", "--config", str(self.config), "--format", "json").splitlines()
        return {one["name"]: one["used"]["total"]["tokens"] for one in map(json.loads, listed)}

    def health(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        field = lambda name: int(next(line for line in status.splitlines() if line.startswith(name)).split()[1])  # noqa: E731
        files = len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))
        return field("VmRSS") / 1024, files, field("Threads")


class Clients:
    """Threads that each make one call after another."""

    def __init__(self, gateway, keys, modules):
        self.gateway, self.keys, self.modules = gateway, keys, modules
        self.outcomes, self.lock, self.stop = collections.Counter(), threading.Lock(), threading.Event()
        # Set while the model or the gateway may be away.
        self.excused = threading.Event()
        self.wrong = []

    def text(self, key, draw):
        return f"The cat of owner {key} slept on bench number {draw.randrange(10**12)}{' for a long while' * draw.randrange(4)}."

    def note(self, what, outcome):
        with self.lock:
            self.outcomes[what, outcome] += 1

    def post(self, key, path, body, timeout=30):
        connection = http.client.HTTPConnection(self.gateway.address, timeout=timeout)
        try:
            headers = {"authorization": f"Bearer {self.keys[key]}", "content-type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if answer.status == 200 else content[:200]
        finally:
            connection.close()

    def embeddings(self, key, draw):
        texts = [self.text(key, draw) for _ in range(draw.randint(1, 5))]
        status, answer = self.post(key, "/v1/embeddings", {"model": ENCODER, "input": texts})
        if status == 200 and not close([one["embedding"] for one in answer["data"]], texts):
            self.wrong.append(f"/v1/embeddings {texts[:1]}")
        return self.fine(status, answer)

    def tei(self, key, draw):
        text = self.text(key, draw)
        status, answer = self.post(key, f"/tei/{ENCODER}/embed", {"inputs": text})
        if status == 200 and not close(answer, [text]):
            self.wrong.append(f"/embed {text}")
        return self.fine(status, answer)

    def ollama(self, key, draw):
        status, answer = self.post(key, "/api/embed", {"model": ENCODER, "input": self.text(key, draw)})
        return self.fine(status, answer)

    @staticmethod
    def fine(status, answer):
        if status != 200:
            raise OSError(f"{status}: {answer}")
        return True

    def gone(self, key, draw):
        """A client that disconnects before the answer."""
        try:
            self.post(key, "/v1/embeddings", {"model": ENCODER, "input": [self.text(key, draw) for _ in range(3)]}, draw.uniform(0.002, 0.04))
        except OSError:
            pass
        return True

    def stub(self, name, service, key):
        channel = grpc.insecure_channel(self.gateway.address)
        stub = getattr(self.modules.grpc(name), f"{service}Stub")(channel)
        return channel, stub, self.modules.message(name), [("authorization", f"Bearer {self.keys[key]}")]

    def encode(self, key, draw):
        channel, stub, pb, metadata = self.stub("isomer/encoder/v1/encoder", "EncoderService", key)
        with channel:
            texts = [self.text(key, draw) for _ in range(3)]
            request = pb.EncodeRequest(encoder_id=ENCODER, inputs=[pb.Input(text=text) for text in texts])
            messages = (pb.EncodeStreamRequest(client_index=at, request=request) for at in range(2))
            if draw.random() < 0.5:
                answers = [stub.Encode(request, metadata=metadata, timeout=30)]
            else:
                answers = [answer.response for answer in stub.EncodeStream(messages, metadata=metadata, timeout=30)]
            for answer in answers:
                rows = struct.unpack(f"<{len(texts) * WIDTH}f", answer.embeddings.data)
                if not close([rows[at : at + WIDTH] for at in range(0, len(rows), WIDTH)], texts):
                    self.wrong.append(f"Encode {texts[:1]}")
        return True

    def cancelled(self, key, draw):
        channel, stub, pb, metadata = self.stub("isomer/encoder/v1/encoder", "EncoderService", key)
        with channel:
            request = pb.EncodeRequest(encoder_id=ENCODER, inputs=[pb.Input(text=self.text(key, draw))])
            call = stub.Encode.future(request, metadata=metadata, timeout=30)
            time.sleep(draw.uniform(0, 0.03))
            call.cancel()
        return True

    def transform(self, key, draw):
        channel, stub, pb, metadata = self.stub("isomer/transform/v1/transform", "TransformService", key)
        with channel:
            spec = pb.TransformSpec(transformation=pb.Transformation(paraphrase=pb.Paraphrase()), max_attempts=1)
            item = pb.TextItem(text=self.text(key, draw), language="en")
            stub.Transform(pb.TransformRequest(spec=spec, items=[item]), metadata=metadata, timeout=30)
        return True

    def looks(self, key, draw):
        connection = http.client.HTTPConnection(self.gateway.address, timeout=30)
        try:
            connection.request("GET", draw.choice(["/v1/models", "/api/tags", "/healthz"]), headers={"authorization": f"Bearer {self.keys[key]}"})
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200
        finally:
            connection.close()

    def run(self, key, draw):
        """A run; half of the runs are cancelled. Its texts come from a data set and name no key, so they count for the last key."""
        channel, stub, pb, metadata = self.stub("isomer/eval/v1/run", "RunService", KEYS - 1)
        with channel:
            suite = pb.SuiteRef(
                toml='name = "soak"\nseeds = [1]\ntransformations = ["stopword_removal"]\n[[dataset]]\ntask = "sts"\nbuiltin = "quick/sts"\n'
            )
            spec = pb.RunSpec(suite=suite, encoder_ids=[ENCODER], limit=4)
            made = stub.CreateRun(pb.CreateRunRequest(spec=spec), metadata=metadata, timeout=30).run.id
            if draw.random() < 0.5:
                stub.CancelRun(pb.CancelRunRequest(id=made), metadata=metadata, timeout=30)
            for _ in range(300):
                run = stub.GetRun(pb.GetRunRequest(id=made), metadata=metadata, timeout=30).run
                if run.HasField("end_time"):
                    stub.DeleteRun(pb.DeleteRunRequest(id=made), metadata=metadata, timeout=30)
                    return True
                time.sleep(0.1)
        return False

    def work(self, seed):
        draw = random.Random(seed)
        kinds = [self.embeddings] * 5 + [self.encode] * 4 + [self.tei] * 2 + [self.ollama, self.gone, self.cancelled, self.looks, self.transform]
        kinds += [self.run] if seed == 0 else []
        while not self.stop.is_set():
            what, key = draw.choice(kinds), draw.randrange(KEYS)
            excused = self.excused.is_set()
            try:
                fine = what(key, draw)
            except (OSError, grpc.RpcError, http.client.HTTPException) as error:
                fine, told = False, f"{error}"[:200]
            else:
                told = "refused"
            excused |= self.excused.is_set()
            self.note(what.__name__, "answered" if fine else "excused" if excused else "failed")
            if not fine and excused:
                time.sleep(0.2)
            elif not fine:
                self.wrong.append(f"{what.__name__}: {told}")


def close(rows, texts):
    return len(rows) == len(texts) and all(max(abs(a - b) for a, b in zip(row, vector(text))) < 1e-5 for row, text in zip(rows, texts))


def excused(clients, seconds, begin, end):
    clients.excused.set()
    begin()
    time.sleep(seconds)
    end()
    # Breakers close again and the encoder becomes healthy.
    time.sleep(8)
    clients.excused.clear()


def soak(arguments, modules):
    home = pathlib.Path(tempfile.mkdtemp(prefix="isomer-soak-"))
    models = Models()
    gateway = Gateway(arguments.isomer, home, models)
    keys = [gateway.key(f"key-{number}") for number in range(KEYS)]
    gateway.start()
    clients = Clients(gateway, keys, modules)
    threads = [threading.Thread(target=clients.work, args=(seed,), daemon=True) for seed in range(arguments.clients)]
    for thread in threads:
        thread.start()
    begun, end = time.monotonic(), time.monotonic() + arguments.minutes * 60
    lost, kills, outages, samples, next_kill = 0, 0, 0, [], begun + min(300, arguments.minutes * 60 / 9)
    rough_until = begun + arguments.minutes * 60 / 3
    while time.monotonic() < end:
        now = time.monotonic()
        if now < rough_until and now >= next_kill:
            kills += 1
            next_kill += 300

            def killed():
                nonlocal lost
                gateway.process.send_signal(signal.SIGKILL)
                gateway.process.wait()
                second = int(time.monotonic())
                with models.lock:
                    lost += sum(models.seconds[at] for at in range(second - 2, second + 1))

            excused(clients, 0.5, killed, gateway.start)
        elif now < rough_until and int((now - begun) / 60) > outages:
            outages += 1
            excused(clients, 2, lambda: setattr(models, "away", True), lambda: setattr(models, "away", False))
        elif now >= rough_until + 20:
            samples.append(gateway.health())
            if len(samples) % 12 == 1:
                print(f"{(now - begun) / 60:6.1f} min  {samples[-1][0]:7.1f} MiB {samples[-1][1]:5} files {samples[-1][2]:4} threads", flush=True)
        time.sleep(5)
    clients.stop.set()
    for thread in threads:
        thread.join(timeout=60)
    time.sleep(5)
    idle = gateway.health()
    charged = gateway.charged()
    gateway.process.terminate()
    return report(clients, models, charged, lost, kills, outages, samples, idle)


def report(clients, models, charged, lost, kills, outages, samples, idle):
    problems = list(dict.fromkeys(clients.wrong))[:20]
    for (what, outcome), count in sorted(clients.outcomes.items()):
        print(f"{what:12} {outcome:9} {count:8}")
    print(f"{kills} kills, {outages} outages")
    # Calls to the language model are cut off only by kills and outages here.
    counted_all, charged_all = sum(models.counted[key] for key in range(KEYS)), 0
    for key in range(KEYS):
        counted, paid = models.counted[key], charged[f"key-{key}"]
        charged_all += paid
        # The texts of runs name no key; the last key pays for them.
        counted += models.counted[None] if key == KEYS - 1 else 0
        print(f"key-{key}: counted {counted}, charged {paid}, difference {paid - counted:+}")
        if not counted - lost <= paid <= counted + (kills + outages) * MOST_OF_A_CALL:
            problems.append(f"key-{key} was charged {paid} for {counted} (kills may have lost {lost})")
    if counted_all == 0 or charged_all == 0:
        problems.append("no call was made")
    half = len(samples) // 2
    for name, at, most in [("MiB", 0, 1.1), ("files", 1, 1.25), ("threads", 2, 1.1)]:
        first, second = (statistics.median(sample[at] for sample in part) for part in (samples[: max(half, 1)], samples[half:]))
        print(f"{name}: {first:.1f} in the first half of the quiet part, {second:.1f} in the second, {idle[at]:.1f} at the end")
        if second > first * most + 2:
            problems.append(f"{name} grew from {first:.1f} to {second:.1f}")
    for problem in problems:
        print(f"FAULT: {problem}")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=12)
    arguments = parser.parse_args()
    with generated_stubs() as modules:
        sys.exit(soak(arguments, modules))


if __name__ == "__main__":
    main()
