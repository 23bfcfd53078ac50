#!/usr/bin/env python3
"""embed-svc on a GPU compared with sentence-transformers on the same GPU: the same model folder and texts, in one run.

Contestants, each in a separate process that stays, with the model loaded and warmed up; they run one after the other, never two at once:
  * isomer-bf16, isomer-f16, isomer-f32: `isomer serve` in that precision, called by a Python gRPC client with several requests
    in flight; tokenisation, network stack and the client's decoding count. If Python has no grpcio, `isomer embed` on the
    whole file instead, less its run on one line (start and load); the table says which.
  * st-bf16, st-f16, st-f32: sentence-transformers with scaled-dot-product attention; st-flash-bf16, st-flash-f16: with
    FlashAttention 2, if flash-attn is installed.
First each contestant tries the batches of --batches (st: texts a batch; isomer: texts a request, with a token budget that holds --in-flight
of them) once per file, warmed up; then --repeats interleaved rounds with the best of each. Medians; ratios per round.

Cosine: row by row to st-f32, else to isomer-f32, else to the first contestant. MFU: model FLOPs
over seconds over --peak-tflops: for a text of n tokens 2 · n · (weights of linear layers) + 4 · n² · hidden · layers; work
beyond that (padding, tokenising) counts as time only. --peak-tflops is the peak in the measured arithmetic: an H200 has 989 TFLOP/s dense
in bf16 and f16.

--device cpu tries the script itself without a GPU (f32 contestants only). Exit code 0: measured; 1: something failed.
"""

import argparse
import atexit
import collections
import json
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from embed_vs_sentence_transformers import read_lines  # noqa: E402

ISOMER = ["isomer-bf16", "isomer-f16", "isomer-f32"]
PEERS = ["st-bf16", "st-f16", "st-f32", "st-flash-bf16", "st-flash-f16"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", type=pathlib.Path, required=True, help="the isomer binary (`just cuda`)")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="sentence-transformers folder")
    parser.add_argument("texts", type=pathlib.Path, nargs="+", help="files of plain lines")
    parser.add_argument("--device", default="cuda:0", help="device of both (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=ISOMER + PEERS, help="contestants (default: all that run on this device)")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256, 1024], help="tried by each (default: %(default)s)")
    parser.add_argument("--in-flight", type=int, default=8, help="requests in flight to isomer (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--peak-tflops", type=float, help="peak of the device in the measured arithmetic; without it no MFU is printed")
    parser.add_argument("--min-cosine", type=float, default=0.999, help="16-bit contestants fail below this (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="also write every number to this file")
    parser.add_argument("--worker", choices=ISOMER + PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.isomer, args.model = args.isomer.resolve(), args.model.resolve()
    if not args.only:
        f32 = args.device == "cpu"
        args.only = [name for name in ISOMER + PEERS if (name.endswith("-f32") or not f32) and "flash" not in name]
    if args.worker:
        return work(args)
    try:
        return bench(args)
    except (RuntimeError, OSError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


# ---------------------------------------------------------------- contestants: texts in, vectors
# out


def work(args):
    """A contestant's process: reads (file, batch, output) from stdin, prints the seconds."""
    import numpy as np

    contestant = IsomerServer if args.worker in ISOMER else SentenceTransformers
    if contestant is IsomerServer:
        try:
            import grpc  # noqa: F401
            import grpc_tools  # noqa: F401
        except ImportError:
            contestant = IsomerProcess
    contestant = contestant(args)
    print(json.dumps({"how": contestant.how}), flush=True)
    for line in sys.stdin:
        texts, batch, output = json.loads(line)
        seconds, vectors = contestant.encode(pathlib.Path(texts), batch)
        if output:
            np.save(output, vectors)
        print(json.dumps({"seconds": seconds}), flush=True)
    contestant.close()
    return 0


class SentenceTransformers:
    def __init__(self, args):
        import sentence_transformers
        import torch

        kind, dtype = args.worker.removeprefix("st-").rpartition("-")[::2]
        dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
        attention = "flash_attention_2" if kind == "flash" else "sdpa"
        settings = {"dtype": dtypes[dtype], "attn_implementation": attention}
        self.model = sentence_transformers.SentenceTransformer(str(args.model), device=args.device, model_kwargs=settings)
        # No TF32: f32 means f32.
        torch.backends.cuda.matmul.allow_tf32 = False
        self.how = f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}, {attention}"

    def encode(self, texts, batch):
        import numpy as np

        lines = read_lines(texts)
        started = time.perf_counter()
        vectors = self.model.encode(lines, batch_size=batch, show_progress_bar=False, convert_to_numpy=True)
        return time.perf_counter() - started, vectors.astype(np.float32)

    def close(self):
        pass


def isomer_environment(args):
    """The server's settings: a token budget that holds all texts in flight."""
    precision = args.worker.removeprefix("isomer-")
    return os.environ | {
        "ISOMER_OFFLINE": "1",
        "ISOMER_EMBED__ALLOW_PATHS": "true",
        "ISOMER_EMBED__DEVICE": args.device,
        "ISOMER_EMBED__PRECISION": precision,
        "ISOMER_EMBED__MAX_BATCH_TOKENS": os.environ.get("ISOMER_EMBED__MAX_BATCH_TOKENS", str(1 << 16)),
        "ISOMER_EMBED__MAX_QUEUED_TOKENS": str(1 << 24),
    }


class IsomerServer:
    how = "isomer serve through gRPC"

    def __init__(self, args):
        import grpc
        import isomer_stubs

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [args.isomer, "serve", "--listen", f"127.0.0.1:{port}", "--log", "error"]
        self.process = subprocess.Popen(list(map(str, command)), env=isomer_environment(args), stdout=subprocess.DEVNULL)
        self.args = args
        atexit.register(self.process.kill)
        self.scope = isomer_stubs.generated_stubs()
        stubs = self.scope.__enter__()
        self.messages, services = stubs.message("isomer/encoder/v1/encoder"), stubs.grpc("isomer/encoder/v1/encoder")
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        grpc.channel_ready_future(channel).result(timeout=120)
        self.stub = services.EncoderServiceStub(channel)

    def encode(self, texts, batch):
        import numpy as np

        lines = read_lines(texts)
        started = time.perf_counter()
        waiting, rows = collections.deque(), []

        def take():
            answer = waiting.popleft().result().embeddings
            rows.append(np.frombuffer(answer.data, "<f4").reshape(answer.rows, answer.cols))

        for first in range(0, len(lines), batch):
            inputs = [self.messages.Input(text=text) for text in lines[first : first + batch]]
            waiting.append(self.stub.Encode.future(self.messages.EncodeRequest(encoder_id=str(self.args.model), inputs=inputs)))
            if len(waiting) >= self.args.in_flight:
                take()
        while waiting:
            take()
        vectors = np.concatenate(rows)
        return time.perf_counter() - started, vectors

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)


class IsomerProcess:
    how = "isomer embed, whole file less one line"

    def __init__(self, args):
        self.args = args
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="isomer-gpu-"))

    def run(self, texts, batch):
        output = self.folder / "vectors.npy"
        command = [self.args.isomer, "embed", "--quiet", "--model", self.args.model, "--input", texts, "--output", output, "--batch", batch]
        started = time.perf_counter()
        subprocess.run(list(map(str, command)), env=isomer_environment(self.args), check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started, output

    def encode(self, texts, batch):
        import numpy as np

        one = self.folder / "one.txt"
        one.write_text(read_lines(texts)[0] + "\n", encoding="utf-8")
        alone, _ = self.run(one, batch)
        whole, output = self.run(texts, batch)
        return max(whole - alone, 1e-9), np.load(output)

    def close(self):
        pass


class Contestant:
    """A contestant's process, controlled from here."""

    def __init__(self, args, name):
        self.name = name
        command = [sys.executable, __file__, "--worker", name, "--isomer", args.isomer, "--model", args.model, "--device", args.device]
        command += ["--in-flight", args.in_flight, "unused"]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.how = self.answer()["how"]

    def encode(self, texts, batch, output=None):
        self.process.stdin.write(json.dumps([str(texts), batch, output and str(output)]) + "\n")
        self.process.stdin.flush()
        return self.answer()["seconds"]

    def answer(self):
        while line := self.process.stdout.readline():
            try:
                return json.loads(line)
            except ValueError:
                continue
        raise RuntimeError(f"the process of {self.name} ended with {self.process.wait()}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


# ---------------------------------------------------------------- FLOPs of a model


def linear_weights(folder):
    """Elements of the matrices that every token is multiplied with: all two-dimensional ones except lookup tables."""
    total = 0
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as data:
            (length,) = struct.unpack("<Q", data.read(8))
            header = json.loads(data.read(length))
        for name, tensor in header.items():
            tables = ("embedding", "embed_tokens", "pooler", "relative_attention_bias", "lm_head")
            if name != "__metadata__" and len(tensor["shape"]) == 2 and not any(table in name for table in tables):
                total += tensor["shape"][0] * tensor["shape"][1]
    if total == 0:
        raise RuntimeError(f"{folder} holds no safetensors with linear layers")
    return total


def flops(folder, texts):
    """Model FLOPs of a file of texts: products with the weights, scores, and their products with the values."""
    import tokenizers

    config = json.loads((folder / "config.json").read_text())
    number = lambda *names: next(config[name] for name in names if name in config)
    layers, hidden = number("num_hidden_layers", "n_layers", "n_layer"), number("hidden_size", "dim", "n_embd")
    limit = 512
    if (folder / "sentence_bert_config.json").exists():
        limit = json.loads((folder / "sentence_bert_config.json").read_text()).get("max_seq_length") or limit
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch(read_lines(texts))]
    weights = linear_weights(folder)
    return sum(2 * n * weights + 4 * n * n * hidden * layers for n in lengths), sum(lengths)


# ---------------------------------------------------------------- the comparison


def bench(args):
    import numpy as np

    say = lambda text: print(text, file=sys.stderr, flush=True)
    names = [name for name in ISOMER + PEERS if name in args.only]
    say(f"loading {', '.join(names)}")
    contestants = [Contestant(args, name) for name in names]
    counts = {path: len(read_lines(path)) for path in args.texts}
    costs = {path: flops(args.model, path) for path in args.texts}
    best, cosines, rates = {}, {}, collections.defaultdict(list)
    failed = []
    with tempfile.TemporaryDirectory(prefix="isomer-gpu-bench-") as folder:
        folder = pathlib.Path(folder)
        for path in args.texts:
            for contestant in contestants:
                tried = {}
                for batch in args.batches:
                    # Not counted: kernels are chosen and memory is allocated in the first run of a
                    # shape.
                    contestant.encode(path, batch, folder / f"{contestant.name}.npy")
                    tried[batch] = contestant.encode(path, batch)
                best[path, contestant.name] = min(tried, key=tried.get)
                say(f"{path.stem} {contestant.name}: " + ", ".join(f"batch {b} {counts[path] / s:.0f}/s" for b, s in tried.items()))
            reference = next((name for name in ("st-f32", "isomer-f32") if name in names), names[0])
            exact = np.load(folder / f"{reference}.npy").astype(np.float64)
            for name in names:
                own = np.load(folder / f"{name}.npy").astype(np.float64)
                if own.shape != exact.shape:
                    raise RuntimeError(f"{name} made {own.shape} vectors, {reference} {exact.shape}")
                rows = (own * exact).sum(1) / (np.linalg.norm(own, axis=1) * np.linalg.norm(exact, axis=1))
                cosines[path, name] = float(rows.min())
                least = 0.9999 if name.endswith("f32") else args.min_cosine
                if not cosines[path, name] >= least:
                    failed.append(f"{path.stem} {name}: least cosine {cosines[path, name]:.6f} to {reference}, required {least}")
        for number in range(args.repeats):
            for path in args.texts:
                for contestant in contestants:
                    seconds = contestant.encode(path, best[path, contestant.name])
                    rates[path, contestant.name].append(counts[path] / seconds)
                say(f"round {number + 1}/{args.repeats} {path.stem}: " + ", ".join(f"{n} {rates[path, n][-1]:.0f}" for n in names))
    for contestant in contestants:
        contestant.close()
    report(args, contestants, counts, costs, best, cosines, rates)
    if failed:
        raise RuntimeError("; ".join(failed))
    return 0


def report(args, contestants, counts, costs, best, cosines, rates):
    names = [contestant.name for contestant in contestants]
    print(f"{args.model.name} on {args.device}, {args.repeats} interleaved rounds, median (range)")
    for contestant in contestants:
        print(f"{contestant.name}: {contestant.how}")
    print("\n| texts | system | batch | texts/s | tokens/s | MFU | isomer / it | least cosine |\n|---|---|---|---|---|---|---|---|")
    rows = []
    for path, count in counts.items():
        for name in names:
            values = rates[path, name]
            median = statistics.median(values)
            work, tokens = costs[path]
            mfu = f"{100 * work * median / count / (args.peak_tflops * 1e12):.1f} %" if args.peak_tflops else ""
            # The ratio to isomer in the same arithmetic.
            own = rates.get((path, f"isomer-{name.rpartition('-')[2]}")) if name in PEERS else None
            ratio = f"{statistics.median(a / b for a, b in zip(own, values)):.2f}" if own else ""
            print(
                f"| {path.stem} ({count}) | {name} | {best[path, name]} | {median:.0f} ({min(values):.0f}–{max(values):.0f}) "
                f"| {tokens * median / count:.0f} | {mfu} | {ratio} | {cosines[path, name]:.6f} |"
            )
            rows.append({"texts": path.stem, "system": name, "batch": best[path, name], "rates": values, "flops": work, "tokens": tokens})
    if args.json:
        args.json.write_text(json.dumps({"model": args.model.name, "device": args.device, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
