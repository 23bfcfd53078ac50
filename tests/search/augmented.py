"""Augmented rows in pgvector, by a generator that answers and by one that fails for some texts. Called by
accept.py."""

from __future__ import annotations

import http.server
import json
import math
import pathlib
import random
import subprocess
import threading

import psycopg

MODEL = "paraphrase-MiniLM-L3-v2"
DOCUMENTS = 150
# Every so manieth text is one that the generator fails for.
FAILS = 5


def variant(text: str) -> str:
    """Answer of the stub to a text: its words in another order."""
    return " ".join(reversed(text.rstrip(".").split())) + "."


class Generator:
    """OpenAI's API in front of `variant`. While it is `failing`, texts that end in a number which FAILS
    divides get an answer of 400 or one that is empty."""

    def __init__(self, texts: list[str]):
        self.calls, self.failing, lock = 0, True, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                asked = json.dumps(asked["messages"])
                # A text that is not of the source is the one by which a run learns the space.
                text = max((text for text in texts if text in asked), key=len, default="The weather is fine 1.")
                with lock:
                    outer.calls += 1
                number = int(text.rstrip(".").split()[-1])
                fails = outer.failing and number % FAILS == 0
                content = "" if fails else variant(text)
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}
                refused = fails and number % (2 * FAILS) == 0
                sent = json.dumps({"error": {"message": "not this text"}} if refused else answer).encode()
                self.send_response(400 if refused else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.spec = f"openai:stub@http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Augmented:
    name = "pgvector"

    def __init__(self, isomer: str, gateway, url: str, folder: pathlib.Path, row, draw: random.Random):
        self.gateway, self.row = gateway, lambda what, holds, numbers: row(self, what, holds, numbers)
        words = "music guitar stock market bread python code river stone cloud night train ticket garden".split()
        self.texts = {f"d{n}": " ".join(draw.sample(words, 8)) + f" {n}." for n in range(DOCUMENTS)}
        self.generator = Generator(list(self.texts.values()))
        path = folder / "augmented.jsonl"
        path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in self.texts.items()))
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("DROP TABLE IF EXISTS gase")
        self.common = ["--source", str(path), "--sink", f"{url}#gase", "--model", MODEL, "--augment", "paraphrase", "--generator",
                       self.generator.spec, "--format", "json", "--quiet"]
        self.isomer = isomer

    def call(self, command: str, *more: str) -> tuple[int, dict]:
        done = subprocess.run([self.isomer, "index", command, *self.common, *more], capture_output=True, text=True, timeout=1800)
        if not done.stdout:
            raise AssertionError(f"isomer index {command} ended with {done.returncode}: {done.stderr}")
        return done.returncode, json.loads(done.stdout)

    def wrong(self, difference) -> dict[str, int]:
        """Rows whose vectors differ from those of text and variant, computed without `isomer index`."""
        plain = dict(zip(self.texts, self.gateway.vectors(list(self.texts.values()), MODEL), strict=True))
        varied = dict(zip(self.texts, self.gateway.vectors([variant(text) for text in self.texts.values()], MODEL), strict=True))
        counts = {"lost": DOCUMENTS, "of another vector": 0, "lack their variant": 0}
        for key, digest, stored in self.connection.execute("SELECT key, digest, embedding::text FROM gase"):
            partial = digest.endswith("-partial")
            pooled = plain[key] if partial else [(a + b) / 2 for a, b in zip(plain[key], varied[key], strict=True)]
            counts["lost"] -= 1
            counts["lack their variant"] += partial
            counts["of another vector"] += not difference(json.loads(stored), pooled, False) < 1e-3
        # Else the check of vectors could not tell a pooled one from a plain one.
        assert all(math.dist(plain[key], varied[key]) / math.hypot(*plain[key]) > 1e-2 for key in self.texts)
        return counts

    def run(self, difference) -> None:
        failing = DOCUMENTS // FAILS
        _, first = self.call("run")
        found = self.wrong(difference)
        self.row("augmented with a generator that fails for some texts: all stored, those counted",
                 (first["written"], first["partial"]) == (DOCUMENTS, failing)
                 and found == {"lost": 0, "of another vector": 0, "lack their variant": failing},
                 {"written": first["written"], "partial": first["partial"], **found})
        code, verified = self.call("verify", "--share", "1")
        self.row("verify counts them and finds no fault",
                 (code, verified["partial"]["rows"], verified["differing"]["rows"]) == (0, failing, 0)
                 and verified["sampled"] >= DOCUMENTS - failing, (verified["partial"]["rows"], verified["sampled"]))
        # Refused texts are requested again. Texts that were answered and failed the checks are not:
        # the caches hold the answer, which the same generator would give again.
        unfit = sum(n % FAILS == 0 and n % (2 * FAILS) != 0 for n in range(DOCUMENTS))
        self.generator.failing = False
        before = self.generator.calls
        _, second = self.call("run")
        found = self.wrong(difference)
        self.row("the next run makes these alone again",
                 (second["written"], second["partial"], second["unchanged"]) == (failing, unfit, DOCUMENTS - failing)
                 and found == {"lost": 0, "of another vector": 0, "lack their variant": unfit}
                 and self.generator.calls - before == failing - unfit,
                 {"written": second["written"], "calls": self.generator.calls - before, **found})
        before = self.generator.calls
        _, third = self.call("run")
        self.row("a third one makes no call", (third["written"], third["partial"], self.generator.calls) == (unfit, unfit, before),
                 {"written": third["written"], "calls": self.generator.calls - before})
        code, verified = self.call("verify", "--share", "1")
        self.row("verify computes again what has its variant", (code, verified["sampled"]) == (0, DOCUMENTS - unfit), verified["sampled"])
        plain = self.gateway.vectors([self.texts["d1"]], MODEL)[0]
        self.connection.execute("UPDATE gase SET embedding = %s::vector WHERE key = 'd1'", (json.dumps(plain),))
        code, verified = self.call("verify", "--share", "1")
        self.row("and sees a plain vector in the place of a pooled one", (code, verified["differing"]["keys"]) == (1, ["d1"]),
                 verified["differing"]["keys"])
        self.generator.server.shutdown()
        self.connection.close()
