#!/usr/bin/env python3
"""How much of a check is waiting that could be spared: a whole suite with a generator of 50 ms, 64 calls in flight.

    python3 tests/bench/check_share.py --isomer target/release/isomer --suite minimal --data-root DIR

A stub answers after --pause-ms. Each round is a check with empty caches, then the same check again, which finds every generated text and makes its
own vectors and scores: what a check takes besides generation. The best that a check can do is the longer of the two parts, generation
(calls x pause / calls in flight) or the rest, if both run at the same time. Printed: seconds of both checks, both parts, and that best as a share of
the first check. Of the suite `minimal`, data sets that are not at hand are left out and named. Standard library only.
Exit code 0: measured.
"""

import argparse
import asyncio
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Stub:
    """A language model behind OpenAI's API: after a pause, the words of the text in another order."""

    def __init__(self, pause):
        self.pause, self.calls, self.in_flight, self.most = pause, 0, 0, 0
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait()
        self.url = f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, ready):
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def talk(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                asked = json.loads(await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1])))
                self.calls += 1
                self.in_flight += 1
                self.most = max(self.most, self.in_flight)
                await asyncio.sleep(self.pause)
                words = [word for word in asked["messages"][-1]["content"].split() if word.isalpha()][-14:]
                message = {"role": "assistant", "content": " ".join(reversed(words)) + "."}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}
                content = json.dumps(answer).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(content) + content)
                self.in_flight -= 1
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def suite_of(args, folder):
    """The suite to run: `minimal` with the data sets that are at hand, each in a folder of its name."""
    if args.suite != "minimal" or not args.data_root:
        return args.suite
    text = (ROOT / "eval-svc/suites/minimal.toml").read_text()
    head, *sets = text.split("[[dataset]]")
    named = [(re.search(r'catalogue = "([^"]+)"', one)[1], one) for one in sets]
    there = [(name, one) for name, one in named if (args.data_root / name).is_dir()]
    print("left out, not at hand:", ", ".join(name for name, _ in named if name not in dict(there)) or "none")
    file = folder / "suite.toml"
    file.write_text(head + "".join("[[dataset]]" + one for _, one in there))
    return str(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", type=pathlib.Path, required=True, help="the isomer binary (a release build)")
    parser.add_argument("--suite", default="quick", help="(default: %(default)s)")
    parser.add_argument("--data-root", type=pathlib.Path, help="folder of data sets")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="encoder (default: %(default)s)")
    parser.add_argument("--precision", default="f32", choices=["f32", "int8"], help="of the encoder (default: %(default)s)")
    parser.add_argument("--pause-ms", type=float, default=50, help="(default: %(default)s)")
    parser.add_argument("--in-flight", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    args = parser.parse_args()
    stub = Stub(args.pause_ms / 1000)
    shares = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        suite = suite_of(args, folder)
        config = folder / "check.toml"
        config.write_text(
            f'[transform]\ndefault_generator = "stub"\n[transform.generators.stub]\nmodel = "stub"\nurl = "{stub.url}"\napi_key_env = ""\n'
            f"concurrency = {args.in_flight}\nmin_concurrency = {args.in_flight}\n[addresses]\nallow = [\"127.0.0.1\"]\n"
        )
        home = pathlib.Path(os.environ.get("ISOMER_HOME") or pathlib.Path.home() / ".cache/isomer")
        for number in range(args.rounds):
            own = folder / f"home-{number}"
            own.mkdir()
            (own / "models").symlink_to(home / "models")
            environment = {**os.environ, "ISOMER_HOME": str(own), "ISOMER_OFFLINE": "1"}

            def check(which):
                out = own / which
                command = [args.isomer, "check", "--suite", suite, "--model", args.model, "--generator", "stub", "--config", config, "--out", out,
                           "--precision", args.precision, "--quiet", "--undecided", "warn"]
                if args.data_root:
                    command += ["--data-root", args.data_root]
                # Scores of the first check are not to be found by the second.
                variables = {**environment, "ISOMER_EVAL__CACHE_DIR": str(own / f"scores-{which}")}
                begun = time.perf_counter()
                done = subprocess.run(command, env=variables, capture_output=True, text=True)
                seconds = time.perf_counter() - begun
                # An undecided gate is a measured check all the same.
                if done.returncode not in (0, 1, 4):
                    sys.exit(f"isomer check ended with {done.returncode}: {done.stderr[-2000:]}")
                return seconds, json.loads((out / "report.json").read_text())

            before, stub.most = stub.calls, 0
            first, report = check("first")
            calls, most = stub.calls - before, stub.most
            again, other = check("again")
            if stub.calls - before - calls > 4 or other["counters"]["texts_generated"]:
                sys.exit(f"the second check asked for {stub.calls - before - calls} texts")
            generation = calls * args.pause_ms / 1000 / args.in_flight
            best = max(generation, again)
            shares.append(best / first)
            stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in report["durations"].items())
            print(f"check {first:6.2f} s, again {again:6.2f} s; {calls} calls, at most {most} in flight: generation {generation:6.2f} s at the best; "
                  f"best / check {best / first:.2f}; stages: {stages}", flush=True)
    print(f"median share of the best: {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
