#!/usr/bin/env python3
"""Two builds of `isomer` in pairs, over one small case of everything whose speed is a promise: what got slower, and did results change?

    python3 tests/bench/two_builds.py --old OLD/isomer --new NEW/isomer

Each case is done by both, one after the other, in an order that turns round from pair to pair (old new, new old). A ratio is
new / old of a pair in time, or old / new in rate: above 1 the new build is slower. The table has the median and the range of the
pairs. "slower" stands beside a case where the whole range is above 1.03, "faster" where it is below 0.97.

Beside each row is what the speed may have been bought with: the least cosine of the new build's vectors to the old one's of the
same precision, the largest difference of a score, the share of generated texts that are equal. Standard library only; the models are
fetched by the new build into ISOMER_HOME. `--large` adds long texts, the larger encoder and the whole quick suite.
Exit code 0: measured; 1: a process failed, or f32 vectors differ (cosine below 0.99999).
"""

import argparse
import base64
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

SMALL, LARGE = "all-MiniLM-L6-v2", "all-mpnet-base-v2"
GENERATOR = "smollm2-135m-instruct"
# Words of the texts, which are made by rule: what matters is how many tokens they have.
WORDS = (
    "the a this every one river harvest teacher engine winter market signal garden letter bridge planet doctor answer music paper "
    "quietly quickly moves holds found opens carries measures explains under across before without towards green early narrow"
).split()
FRAMES = 0.97, 1.03


def texts(count, words, seed):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=max(3, int(draw.gauss(words, words / 6))))) + "." for _ in range(count)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Stub:
    """A language model behind OpenAI's API that answers after a pause, with the words of the text in another order."""

    def __init__(self, pause):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                time.sleep(pause)
                words = [word for word in asked["messages"][-1]["content"].split() if word.isalpha()][-14:]
                message = {"role": "assistant", "content": " ".join(reversed(words)) + "."}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size, daemon_threads = 512, True

        server = Server(("127.0.0.1", 0), Handler)
        self.spec = f"openai:stub@http://127.0.0.1:{server.server_address[1]}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()


class Build:
    """One binary, and the servers that it runs."""

    def __init__(self, name, binary, home, models):
        self.name, self.binary, self.home = name, binary.resolve(), home
        self.environment = dict(os.environ, ISOMER_HOME=str(home), ISOMER_LOG="error")
        self.servers = []
        home.mkdir()
        for folder in ("models", "data"):
            if (models / folder).exists():
                (home / folder).symlink_to(models / folder)

    def run(self, *arguments, **variables):
        """A whole process: seconds, and what it printed."""
        begun = time.perf_counter()
        done = subprocess.run(
            [str(self.binary), *map(str, arguments)], env=self.environment | variables, capture_output=True, text=True, cwd=self.home
        )
        seconds = time.perf_counter() - begun
        # 1 and 4 are verdicts of a gate.
        if done.returncode not in (0, 1, 4):
            sys.exit(f"{self.name}: isomer {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return seconds, done.stdout

    def serve(self, **variables):
        port = free_port()
        log = self.home / f"serve-{port}.log"
        process = subprocess.Popen(
            [str(self.binary), "serve", "--listen", f"127.0.0.1:{port}", "--log", "error"],
            env=self.environment | variables, stdout=open(log, "w"), stderr=subprocess.STDOUT, cwd=self.home,
        )
        self.servers.append(process)
        for _ in range(1200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                return port, process
            if process.poll() is not None:
                sys.exit(f"{self.name}: isomer serve ended:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)
        sys.exit(f"{self.name}: isomer serve does not listen")

    def stop(self):
        for process in self.servers:
            process.kill()
            process.wait()


def post(connection, body):
    connection.request("POST", "/v1/embeddings", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        sys.exit(f"/v1/embeddings answered {answer.status}: {content[:500]}")
    return [base64.b64decode(row["embedding"]) for row in json.loads(content)["data"]]


def encode(port, model, lines, batch=32, in_flight=8):
    """Vectors of texts as bytes, over HTTP with some requests in flight."""
    local = threading.local()

    def one(first):
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port)
        return post(local.connection, {"model": model, "input": lines[first : first + batch], "encoding_format": "base64"})

    with concurrent.futures.ThreadPoolExecutor(in_flight) as pool:
        return [row for rows in pool.map(one, range(0, len(lines), batch)) for row in rows]


def least_cosine(ours, theirs):
    least = 1.0
    for one, other in zip(ours, theirs, strict=True):
        a, b = (struct.unpack(f"<{len(row) // 4}f", row) for row in (one, other))
        dot, lengths = sum(x * y for x, y in zip(a, b)), (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
        least = min(least, dot / lengths)
    return least


def peak_mib(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


class Table:
    def __init__(self, pairs):
        self.pairs, self.rows, self.failed = pairs, [], []

    def paired(self, case, old, new, unit="s", beside=None):
        """Does a case by both, in pairs. `old` and `new` give seconds, or a pair of seconds and results."""
        times, results = {"old": [], "new": []}, {}
        for number in range(self.pairs):
            for name, work in [("old", old), ("new", new)][:: 1 if number % 2 == 0 else -1]:
                outcome = work(number)
                seconds, results[name] = outcome if isinstance(outcome, tuple) else (outcome, None)
                times[name].append(seconds)
        ratios = [after / before for before, after in zip(times["old"], times["new"])]
        verdict = "slower" if min(ratios) > FRAMES[1] else "faster" if max(ratios) < FRAMES[0] else ""
        beside = beside(results["old"], results["new"]) if beside else ""
        self.rows.append((case, statistics.median(times["old"]), statistics.median(times["new"]), unit, ratios, verdict, beside))
        self.say()

    def say(self):
        case, old, new, unit, ratios, verdict, beside = self.rows[-1]
        print(
            f"| {case} | {old:.4g} {unit} | {new:.4g} {unit} | {statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f}) | {verdict} | {beside} |",
            flush=True,
        )

    def vectors(self, exact):
        def beside(old, new):
            least = least_cosine(new, old)
            if exact and least < 0.99999:
                self.failed.append(f"f32 vectors differ: cosine {least:.7f}")
            return f"least cosine {least:.7f}"

        return beside


def scores(report, path=""):
    """Every score of an evaluation or a report; how long it took is none."""
    if isinstance(report, dict):
        for key, value in report.items():
            if key != "evaluation_time":
                yield from scores(value, f"{path}/{key}")
    elif isinstance(report, list):
        for number, value in enumerate(report):
            yield from scores(value, f"{path}/{number}")
    elif isinstance(report, float):
        yield path, report


def largest_difference(old, new):
    before, after = dict(scores(old)), dict(scores(new))
    if before.keys() != after.keys():
        return f"{len(before.keys() ^ after.keys())} scores are not in both"
    return f"largest difference of {len(before)} scores {max((abs(before[key] - after[key]) for key in before), default=0):.3g}"


def equal_texts(old, new):
    before, after = (["".join(json.dumps(row.get("text", row))) for row in rows] for rows in (old, new))
    return f"{sum(a == b for a, b in zip(before, after))} of {len(before)} texts equal"


# ---------------------------------------------------------------- the cases


def encoding(table, builds, args):
    cases = [("short", SMALL, texts(640, 14, 1)), ("long", SMALL, texts(64, 200, 2))]
    if args.large:
        cases += [("short", LARGE, texts(160, 14, 3)), ("long", LARGE, texts(16, 200, 4))]
    for precision in ("f32", "int8"):
        servers = {build.name: build.serve(ISOMER_EMBED__PRECISION=precision) for build in builds}
        for kind, model, lines in cases:
            for port, _ in servers.values():
                encode(port, model, lines[:8])

            def work(name):
                def timed(number):
                    # Other texts in each pair: nothing is answered by a cache.
                    own = [f"{line} {number}" for line in lines]
                    begun = time.perf_counter()
                    rows = encode(servers[name][0], model, own)
                    return time.perf_counter() - begun, rows

                return timed

            table.paired(f"{len(lines)} {kind} texts, {model}, {precision}", work("old"), work("new"), beside=table.vectors(precision == "f32"))

        def query(name):
            def timed(number):
                connection, times = http.client.HTTPConnection("127.0.0.1", servers[name][0]), []
                for line in texts(60, 10, 100 + number):
                    begun = time.perf_counter()
                    post(connection, {"model": SMALL, "input": [line], "encoding_format": "base64"})
                    times.append(time.perf_counter() - begun)
                return statistics.median(times) * 1e3

            return timed

        table.paired(f"p50 of a query, {SMALL}, {precision}", query("old"), query("new"), "ms")
        table.paired(
            f"peak memory of that server, {precision}", lambda _: peak_mib(servers["old"][1]), lambda _: peak_mib(servers["new"][1]), "MiB"
        )
        for build in builds:
            build.stop()


def first_vector(table, old, new, folder):
    file = folder / "one.txt"
    file.write_text("One short text.\n")
    work = lambda build: lambda _: build.run("embed", "--model", SMALL, "--input", file)[0]
    table.paired("whole process to the first vector", work(old), work(new))


def gateway(table, builds):
    ports = {build.name: build.serve(ISOMER_ROUTING__CACHE_BYTES=str(1 << 20))[0] for build in builds}
    line = ["A text that every request asks for."]

    def work(name):
        def timed(_):
            begun = time.perf_counter()
            encode(ports[name], SMALL, line * 1000, batch=1, in_flight=16)
            return time.perf_counter() - begun

        return timed

    for port in ports.values():
        encode(port, SMALL, line)
    table.paired("1,000 requests that the gateway's cache answers", work("old"), work("new"))
    for build in builds:
        build.stop()


def generation(table, old, new, folder):
    file = folder / "sources.txt"
    file.write_text("\n".join(texts(8, 12, 7)) + "\n")

    def work(build):
        def timed(number):
            seconds, output = build.run(
                "transform", "--transformation", "paraphrase", "--generator", f"local:{GENERATOR}", "--seed", number, "--input", file, "--format", "json"
            )
            return seconds, [json.loads(line) for line in output.splitlines() if line.startswith("{")]

        return timed

    table.paired("8 paraphrases by the local generator", work(old), work(new), beside=equal_texts)


def check(table, old, new, folder, args):
    stub = Stub(0.05)

    def work(build, generator, more):
        def timed(number):
            out = folder / f"{build.name}-{number}-{len(more)}"
            seconds, _ = build.run(
                "check", "--suite", "quick", "--model", SMALL, "--generator", generator, "--seeds", 100 + number, "--out", out, "--quiet", *more
            )
            report = json.loads((out / "report.json").read_text())
            return seconds, [row for row in report["scores"]]

        return timed

    case = lambda generator, more: (work(old, generator, more), work(new, generator, more))
    table.paired("quick suite, generator of 50 ms", *case(stub.spec, []), beside=largest_difference)
    more = [] if args.large else ["--limit", "12"]
    table.paired(f"quick suite{'' if args.large else ', 12 rows'}, local generator", *case(f"local:{GENERATOR}", more), beside=largest_difference)


def evaluation(table, old, new, folder):
    draw = random.Random(11)
    first, second = texts(400, 14, 8), texts(400, 14, 9)
    file = folder / "sts.jsonl"
    rows = ({"sentence1": a, "sentence2": b, "score": draw.uniform(0, 5)} for a, b in zip(first, second))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def work(build):
        def timed(_):
            seconds, output = build.run("eval", "--task", "sts", "--model", SMALL, "--data", file, "--format", "json")
            return seconds, json.loads(output)

        return timed

    table.paired("STS of 400 pairs", work(old), work(new), beside=largest_difference)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=pathlib.Path, required=True, help="the build before (a release build)")
    parser.add_argument("--new", type=pathlib.Path, required=True, help="the build after")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of each case (default: %(default)s)")
    parser.add_argument("--large", action="store_true", help="also long texts of the larger encoder, and the whole quick suite")
    args = parser.parse_args()
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "isomer"
    models = pathlib.Path(os.environ.get("ISOMER_HOME", default))
    pulled = [SMALL, GENERATOR] + ([LARGE] if args.large else [])
    subprocess.run([str(args.new), "models", "pull", "--quiet", *pulled], check=True, stdout=subprocess.DEVNULL)
    table = Table(args.pairs)
    print(f"old {args.old}, new {args.new}; load {os.getloadavg()[0]:.2f}\n")
    print("| case | old | new | new / old (range of pairs) | | results |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="isomer-two-builds-") as folder:
        folder = pathlib.Path(folder)
        builds = [Build(name, binary, folder / name, models) for name, binary in [("old", args.old), ("new", args.new)]]
        try:
            first_vector(table, *builds, folder)
            encoding(table, builds, args)
            gateway(table, builds)
            evaluation(table, *builds, folder)
            generation(table, *builds, folder)
            check(table, *builds, folder, args)
        finally:
            for build in builds:
                build.stop()
    print(f"\nload at the end {os.getloadavg()[0]:.2f}")
    for failure in table.failed:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
