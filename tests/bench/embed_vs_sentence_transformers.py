#!/usr/bin/env python3
"""`isomer embed` compared with sentence-transformers: the same model folder, the same texts, the same cores, in one run.

Per round and text file, one after the other: isomer over the whole file, isomer over its first line, sentence-transformers over the
whole file (in a process that stays, model loaded and warmed up). Medians over the rounds are compared.
  * sentences/s excludes loading. sentence-transformers is timed around `encode`; isomer is a process, so the time of its one-line
    run (start, load, one text) is subtracted from the whole run of the same round, and one text from the count.
  * cold start: a fresh process until its first vector is written (isomer: until it has exited).
  * peak RSS: the largest resident set of a fresh process that encodes the whole file.
  * cosine: row by row between the two matrices.

Linux only. Exit code 0: measured. 1: a process failed, or a cosine is below --min-cosine.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", type=pathlib.Path, required=True, help="the isomer binary (a release build)")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="sentence-transformers folder")
    parser.add_argument("texts", type=pathlib.Path, nargs="+", help="files of plain lines")
    parser.add_argument("--batch", type=int, default=32, help="texts per batch, for both (default: %(default)s)")
    parser.add_argument("--isomer-batch", type=int, help="texts per request for isomer (default: --batch)")
    parser.add_argument("--threads", type=int, default=2, help="cores and threads for each (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--cold-repeats", type=int, default=3, help="fresh processes of sentence-transformers per file (default: %(default)s)")
    parser.add_argument("--min-cosine", type=float, default=0.9999, help="fail below this (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="also write every number to this file")
    parser.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args)
    # A bare name would be looked up on PATH even if the file is in this folder.
    args.isomer, args.model = args.isomer.resolve(), args.model.resolve()
    try:
        return bench(args)
    except (RuntimeError, OSError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


# ---------------------------------------------------------------- both sides


def environment(threads):
    """Offline, quiet, and as many threads as cores for every library on either side."""
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS"]
    fixed = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true", "ISOMER_OFFLINE": "1"}
    return os.environ | dict.fromkeys(names, str(threads)) | fixed


def on_cores(threads):
    """Binds a child to the first `threads` cores that we may use, so that both sides run on the same ones."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < threads:
        raise RuntimeError(f"{threads} threads requested, {len(cores)} cores available; lower --threads")
    return lambda: os.sched_setaffinity(0, cores[:threads])


def read_lines(path):
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


# ---------------------------------------------------------------- isomer


def isomer_embed(args, texts, output):
    """One `isomer embed` process: (seconds, peak RSS in MiB)."""
    command = [args.isomer, "embed", "--quiet", "--model", args.model, "--input", texts, "--output", output]
    command += ["--batch", str(args.isomer_batch or args.batch)]
    started = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), env=environment(args.threads), preexec_fn=on_cores(args.threads), stderr=subprocess.PIPE
    )
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"isomer embed ended with {process.returncode}: {complaint.decode(errors='replace').strip()}")
    return seconds, usage.ru_maxrss / 1024


# ---------------------------------------------------------------- sentence-transformers


class SentenceTransformers:
    """A process with the model loaded; it encodes a file on request."""

    def __init__(self, args, warm=True):
        command = [sys.executable, __file__, "--worker", "--isomer", args.isomer, "--model", args.model, "unused"]
        command += ["--batch", args.batch, "--threads", args.threads]
        command += [] if warm else ["--cold"]
        self._process = subprocess.Popen(
            list(map(str, command)),
            env=environment(args.threads),
            preexec_fn=on_cores(args.threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.versions = self._answer()

    def encode(self, texts, output):
        """(seconds inside `encode`, peak RSS of the process so far in MiB)."""
        self._process.stdin.write(json.dumps([str(texts), str(output)]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return answer["seconds"], answer["peak_mib"]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the sentence-transformers process ended with {self._process.wait()}")
        return json.loads(line)


def worker(args):
    """The process behind `SentenceTransformers`. Answers are lines on stdout."""
    import numpy as np
    import sentence_transformers
    import torch

    torch.set_num_threads(args.threads)
    model = sentence_transformers.SentenceTransformer(str(args.model), device="cpu")

    def encode(lines):
        return model.encode(lines, batch_size=args.batch, show_progress_bar=False, convert_to_numpy=True)

    if not args.cold:
        encode(["warm up", "another, somewhat longer text to warm up with"])
    versions = {"sentence-transformers": sentence_transformers.__version__, "torch": torch.__version__}
    print(json.dumps(versions | {"torch threads": torch.get_num_threads()}), flush=True)
    for line in sys.stdin:
        texts, output = map(pathlib.Path, json.loads(line))
        lines = read_lines(texts)
        started = time.perf_counter()
        vectors = encode(lines)
        seconds = time.perf_counter() - started
        np.save(output, vectors)
        print(json.dumps({"seconds": seconds, "peak_mib": peak_mib()}), flush=True)
    return 0


def peak_mib():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def fresh_start(args, file, output):
    """A fresh sentence-transformers process: (seconds until its first vector is written, peak RSS in MiB after the whole file)."""
    started = time.perf_counter()
    fresh = SentenceTransformers(args, warm=False)
    fresh.encode(file["one"], output)
    seconds = time.perf_counter() - started
    _, peak = fresh.encode(file["path"], output)
    fresh.close()
    return seconds, peak


# ---------------------------------------------------------------- the comparison


def bench(args):
    say = lambda text: print(text, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="isomer-bench-") as folder:
        folder = pathlib.Path(folder)
        ours, theirs, scratch = folder / "isomer.npy", folder / "st.npy", folder / "scratch.npy"
        say("loading sentence-transformers")
        reference = SentenceTransformers(args)
        files = []
        for path in args.texts:
            one_line = folder / f"{path.stem}.first"
            one_line.write_text(read_lines(path)[0] + "\n", encoding="utf-8")
            files.append({"path": path, "one": one_line, "count": len(read_lines(path)), "rounds": []})
        # One round that is not counted: it loads files into the page cache and gives the cosines.
        for file in files:
            isomer_embed(args, file["path"], ours)
            reference.encode(file["path"], theirs)
            file["cosine"] = cosines(ours, theirs)
        for number in range(args.repeats):
            for file in files:
                whole, peak = isomer_embed(args, file["path"], scratch)
                cold, _ = isomer_embed(args, file["one"], scratch)
                seconds, _ = reference.encode(file["path"], scratch)
                if whole <= cold:
                    raise RuntimeError(f"{file['path'].name}: the whole file took no longer than its first line; use more texts")
                file["rounds"].append(
                    {
                        "isomer_rate": (file["count"] - 1) / (whole - cold),
                        "isomer_whole_s": whole,
                        "isomer_cold_s": cold,
                        "isomer_peak_mib": peak,
                        "st_rate": file["count"] / seconds,
                    }
                )
                last = file["rounds"][-1]
                say(f"round {number + 1}/{args.repeats} {file['path'].name}: {last['isomer_rate']:.0f} and {last['st_rate']:.0f} sentences/s")
        reference.close()
        say("fresh starts of sentence-transformers")
        for file in files:
            starts = [fresh_start(args, file, scratch) for _ in range(args.cold_repeats)]
            file["st_cold_s"], file["st_peak_mib"] = (statistics.median(column) for column in zip(*starts))
    print(table(args, files, reference.versions))
    if args.json:
        args.json.write_text(json.dumps(document(args, files, reference.versions), indent=2) + "\n", encoding="utf-8")
    worst = min(file["cosine"]["min"] for file in files)
    if worst < args.min_cosine:
        raise RuntimeError(f"the two disagree: smallest cosine {worst:.7f}, required {args.min_cosine}")
    return 0


def cosines(ours, theirs):
    import numpy as np

    a, b = (np.load(path).astype(np.float64) for path in (ours, theirs))
    if a.shape != b.shape:
        raise RuntimeError(f"isomer wrote {a.shape}, sentence-transformers {b.shape}")
    rows = (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return {"min": float(rows.min()), "mean": float(rows.mean())}


def median(file, key):
    return statistics.median(round_[key] for round_ in file["rounds"])


def span(file, key):
    values = [round_[key] for round_ in file["rounds"]]
    return f"{statistics.median(values):.0f} ({min(values):.0f}–{max(values):.0f})"


def table(args, files, versions):
    stack = ", ".join(f"{name} {value}" for name, value in versions.items())
    lines = [
        f"{args.model.name}, {args.threads} threads, batch {args.batch} (isomer: requests of {args.isomer_batch or args.batch}), "
        f"{args.repeats} interleaved rounds, median (range); {stack}",
        "",
        "| texts | system | sentences/s | ratio | peak RSS, MiB | cold start, s | cosine, min (mean) |",
        "|---|---|---|---|---|---|---|",
    ]
    for file in files:
        ratio = statistics.median(r["isomer_rate"] / r["st_rate"] for r in file["rounds"])
        cosine = f"{file['cosine']['min']:.7f} ({file['cosine']['mean']:.7f})"
        name = f"{file['path'].stem} ({file['count']})"
        lines.append(
            f"| {name} | isomer embed | {span(file, 'isomer_rate')} | {ratio:.2f} | {median(file, 'isomer_peak_mib'):.0f} "
            f"| {median(file, 'isomer_cold_s'):.2f} | {cosine} |"
        )
        lines.append(
            f"| | sentence-transformers | {span(file, 'st_rate')} | 1 | {file['st_peak_mib']:.0f} "
            f"| {file['st_cold_s']:.2f} | |"
        )
    return "\n".join(lines)


def document(args, files, versions):
    return {
        "model": args.model.name,
        "threads": args.threads,
        "batch": args.batch,
        "isomer_batch": args.isomer_batch or args.batch,
        "machine": platform.machine(),
        "versions": versions,
        "files": [
            {"name": file["path"].name, "texts": file["count"]}
            | {key: file[key] for key in ("cosine", "st_cold_s", "st_peak_mib", "rounds")}
            for file in files
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
