#!/usr/bin/env python3
"""embed-svc through gRPC compared with its peers: the same model folder, texts and cores, interleaved in one run.

Contestants, each in a separate process that stays, with the model loaded and warmed up:
  * isomer: `isomer serve` (one per requested precision), called by a Python gRPC client with several requests in flight;
    everything counts: tokenisation, the network stack, the client's decoding;
  * st: sentence-transformers on PyTorch;
  * ort, ort-int8: ONNX Runtime on the transformer exported from the same folder (int8: its dynamic quantisation), texts sorted
    by length and padded per batch as sentence-transformers does, mean pooling and normalisation in numpy;
  * openvino, openvino-latency, openvino-int8: OpenVINO on the same exported transformer in f32 (INFERENCE_PRECISION_HINT), batches
    as for ONNX Runtime; openvino with one stream a thread and as many requests in flight (its throughput hint), openvino-latency
    with one stream (its latency hint), openvino-bf16 with the throughput hint and INFERENCE_PRECISION_HINT bf16, openvino-int8 with
    the throughput hint on weights and activations quantised by NNCF, which is calibrated on the first 300 texts. ONEDNN_MAX_CPU_ISA=AVX2 holds it to AVX2;
  * tei: text-embeddings-inference (its router built with the features `grpc` and `candle`), called through its own gRPC stream,
    which takes and returns one text per message; it forms its own batches.
Per round every contestant encodes every file once. Medians of texts/s over the rounds; ratios are medians of the per-round ratio
isomer / peer. With --latency each text of the first file is also sent alone, one after the other: p50 and p99 of a query. Cosine: row by row to sentence-transformers. Memory: peak resident set of each process (for isomer the server).

With --instructions avx2 all of them are held to AVX2: ours by embed.instructions, PyTorch by ATEN_CPU_CAPABILITY, oneDNN (PyTorch, OpenVINO) by
ONEDNN_MAX_CPU_ISA, MKL by MKL_ENABLE_INSTRUCTIONS. ONNX Runtime has no such setting and is refused then.

With --sgemm the products of the model are also timed alone, in PyTorch's sgemm with the same threads (the best of several runs, weights packed or
not as it likes): texts/s if a contestant did nothing but its multiply-adds, attention's included, at that speed, and each f32 contestant's share.

Linux only. Exit code 0: measured; 1: a process failed or a cosine is below --min-cosine.
"""

import argparse
import collections
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from embed_vs_sentence_transformers import environment, on_cores, peak_mib, read_lines  # noqa: E402

CONTESTANTS = ["isomer", "isomer-bf16", "isomer-int8", "st", "ort", "ort-int8", "openvino", "openvino-latency", "openvino-bf16", "openvino-int8", "tei"]
# Texts that a query's latency is measured on, and those that NNCF is calibrated on.
QUERIES, CALIBRATION = 300, 300


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", type=pathlib.Path, required=True, help="the isomer binary (a release build)")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="sentence-transformers folder")
    parser.add_argument("--tei", type=pathlib.Path, help="the text-embeddings-router binary, for the contestant tei")
    parser.add_argument("texts", type=pathlib.Path, nargs="+", help="files of plain lines")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=["isomer", "st", "ort"], help="contestants")
    parser.add_argument("--batch", type=int, default=32, help="texts per batch or request, for all (default: %(default)s)")
    parser.add_argument("--in-flight", type=int, default=8, help="requests in flight to isomer (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="cores and threads for each (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--latency", action="store_true", help=f"also the latency of single texts, of {QUERIES} of the first file")
    parser.add_argument("--instructions", choices=["best", "avx2"], default="best", help="widest instructions (default: %(default)s)")
    parser.add_argument("--sgemm", action="store_true", help="also the speed of PyTorch's sgemm on the model's shapes, and each system's share of it")
    parser.add_argument("--min-cosine", type=float, default=0.9999, help="f32 contestants fail below this (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="also write every number to this file")
    parser.add_argument("--worker", choices=[*CONTESTANTS, "sgemm"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.isomer, args.model = args.isomer.resolve(), args.model.resolve()
    if args.instructions == "avx2" and any(name.startswith("ort") for name in args.only) and not args.worker:
        parser.error("ONNX Runtime cannot be held to AVX2: leave it out")
    if "tei" in args.only and not args.tei and not args.worker:
        parser.error("the contestant tei needs --tei BINARY")
    if args.worker == "sgemm":
        return sgemm(args)
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
    """A contestant's process: reads file names from stdin, prints seconds and memory."""
    kinds = {"st": sentence_transformers, "ort": onnx_runtime, "openvino": openvino, "tei": text_embeddings_inference, "isomer": isomer}
    encode, peak = kinds[args.worker.split("-")[0]](args)
    encode(["warm up", "another, somewhat longer text to warm up with"] * 8)
    print(json.dumps("ready"), flush=True)
    import numpy as np

    for line in sys.stdin:
        texts, output = json.loads(line)
        lines = read_lines(pathlib.Path(texts))
        if output is None:
            times = [timed(encode, [text]) for text in lines[:QUERIES]]
            print(json.dumps({"latencies": times}), flush=True)
            continue
        started = time.perf_counter()
        vectors = encode(lines)
        seconds = time.perf_counter() - started
        np.save(output, vectors)
        print(json.dumps({"seconds": seconds, "peak_mib": peak()}), flush=True)
    return 0


def sgemm(args):
    """Prints, for each file, the texts/s at the speed of sgemm alone, that speed, and the tokens of a text."""
    import tokenizers
    import torch

    torch.set_num_threads(args.threads)
    config = json.loads((args.model / "config.json").read_text())
    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    tokenizer = tokenizers.Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tokenizer.enable_truncation(json.loads((args.model / "sentence_bert_config.json").read_text())["max_seq_length"])
    tokenizer.no_padding()
    found = {}
    for path in args.texts:
        tokens = [len(encoding.ids) for encoding in tokenizer.encode_batch(read_lines(path))]
        rows = min(args.batch * round(statistics.mean(tokens)), 4096)
        work = seconds = 0.0
        for outputs, inputs in [(3 * hidden, hidden), (hidden, hidden), (inner, hidden), (hidden, inner)]:
            x, weights = torch.randn(rows, inputs), torch.randn(outputs, inputs)
            runs = [timed(torch.nn.functional.linear, x, weights) for _ in range(30)]
            work += 2 * rows * outputs * inputs
            seconds += min(runs)
        rate = work / seconds
        # Scores and context are n x n products of all heads together.
        asked = sum(layers * (n * work / rows + 4 * n * n * hidden) for n in tokens)
        found[path.stem] = {"texts": len(tokens) * rate / asked, "gflops": rate / 1e9, "tokens": statistics.mean(tokens)}
    print(json.dumps(found), flush=True)
    return 0


def timed(encode, *lines):
    started = time.perf_counter()
    encode(*lines)
    return time.perf_counter() - started


def sentence_transformers(args):
    import sentence_transformers
    import torch

    torch.set_num_threads(args.threads)
    model = sentence_transformers.SentenceTransformer(str(args.model), device="cpu")
    return (lambda lines: model.encode(lines, batch_size=args.batch, show_progress_bar=False)), peak_mib


class Exported:
    """The transformer of a folder as an ONNX file, with what is around it: tokens, batches, pooling.

    Supports models with mean pooling and normalisation only, and refuses others.
    """

    def __init__(self, args):
        import tokenizers
        import torch
        import transformers

        pooling = json.loads((args.model / "1_Pooling" / "config.json").read_text())
        modules = json.loads((args.model / "modules.json").read_text())
        if not pooling.get("pooling_mode_mean_tokens") or len(modules) > 3:
            raise RuntimeError("the contestants on ONNX are written for mean pooling with or without normalisation")
        self.normalise, self.batch = len(modules) == 3, args.batch
        model = transformers.AutoModel.from_pretrained(args.model).eval()
        self.takes_types = model.config.model_type == "bert"
        names = ["input_ids", "attention_mask"] + (["token_type_ids"] if self.takes_types else [])

        class States(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, *inputs):
                return self.model(**dict(zip(names, inputs))).last_hidden_state

        self.path = pathlib.Path(tempfile.mkdtemp(prefix="isomer-onnx-")) / "model.onnx"
        example = tuple(torch.ones(2, 8, dtype=torch.long) for _ in names)
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
        torch.onnx.export(
            States(), example, self.path, input_names=names, output_names=["states"], dynamo=True, dynamic_shapes=(tuple(axes for _ in names),),
            verbose=False,
        )
        self.tokenizer = tokenizers.Tokenizer.from_file(str(args.model / "tokenizer.json"))
        limits = json.loads((args.model / "sentence_bert_config.json").read_text())
        self.tokenizer.enable_truncation(limits["max_seq_length"])
        padding = self.tokenizer.padding
        self.tokenizer.enable_padding(**({"pad_id": padding["pad_id"], "pad_token": padding["pad_token"]} if padding else {}))

    def batches(self, lines):
        """Batches of texts of like length: the numbers of the texts, and the model's inputs."""
        import numpy as np

        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        for first in range(0, len(order), self.batch):
            batch = order[first : first + self.batch]
            encodings = self.tokenizer.encode_batch([lines[i] for i in batch])
            ids = np.array([e.ids for e in encodings], dtype=np.int64)
            inputs = {"input_ids": ids, "attention_mask": np.array([e.attention_mask for e in encodings], dtype=np.int64)}
            if self.takes_types:
                inputs["token_type_ids"] = np.zeros_like(ids)
            yield batch, inputs

    def pooled(self, states, inputs):
        import numpy as np

        mask = inputs["attention_mask"]
        pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        if self.normalise:
            pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled


def onnx_runtime(args):
    import numpy as np
    import onnxruntime

    exported = Exported(args)
    path = exported.path
    if args.worker == "ort-int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path = exported.path.with_name("int8.onnx")
        quantize_dynamic(exported.path, path, weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def encode(lines):
        rows = [None] * len(lines)
        for batch, inputs in exported.batches(lines):
            (states,) = session.run(None, inputs)
            for i, row in zip(batch, exported.pooled(states, inputs)):
                rows[i] = row
        return np.stack(rows).astype(np.float32)

    return encode, peak_mib


def openvino(args):
    import numpy as np
    import openvino

    exported = Exported(args)
    core = openvino.Core()
    model = core.read_model(exported.path)
    if args.worker == "openvino-int8":
        import nncf

        samples = [inputs for _, inputs in exported.batches(read_lines(args.texts[0])[:CALIBRATION])]
        model = nncf.quantize(model, nncf.Dataset(samples), model_type=nncf.ModelType.TRANSFORMER)
    one = args.worker == "openvino-latency"
    settings = {
        "PERFORMANCE_HINT": "LATENCY" if one else "THROUGHPUT", "NUM_STREAMS": 1 if one else args.threads,
        "INFERENCE_NUM_THREADS": args.threads, "INFERENCE_PRECISION_HINT": "bf16" if args.worker == "openvino-bf16" else "f32",
    }
    requests = openvino.AsyncInferQueue(core.compile_model(model, "CPU", settings), 1 if one else args.threads)
    rows = []

    def finished(request, asked):
        batch, inputs = asked
        for i, row in zip(batch, exported.pooled(request.get_output_tensor(0).data, inputs)):
            rows[i] = row

    requests.set_callback(finished)

    def encode(lines):
        rows[:] = [None] * len(lines)
        for batch, inputs in exported.batches(lines):
            requests.start_async(inputs, (batch, inputs))
        requests.wait_all()
        return np.stack(rows).astype(np.float32)

    return encode, peak_mib


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start_server(args, command, variables, port):
    """A gRPC server that ends with this process, and an open channel to it."""
    import atexit

    import grpc

    server = subprocess.Popen(
        list(map(str, command)), env=environment(args.threads) | variables, preexec_fn=on_cores(args.threads), stdout=subprocess.DEVNULL
    )
    atexit.register(server.kill)
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
    grpc.channel_ready_future(channel).result(timeout=120)
    return server, channel


def peak_of(server):
    for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the server's memory cannot be read")


def isomer(args):
    import isomer_stubs
    import numpy as np

    port = free_port()
    command = [args.isomer, "serve", "--listen", f"127.0.0.1:{port}", "--log", "error"]
    variables = {"ISOMER_EMBED__ALLOW_PATHS": "true"}
    variables["ISOMER_EMBED__INSTRUCTIONS"] = args.instructions
    if "-" in args.worker:
        variables["ISOMER_EMBED__PRECISION"] = args.worker.removeprefix("isomer-")
    server, channel = start_server(args, command, variables, port)
    scope = isomer_stubs.generated_stubs()
    stubs = scope.__enter__()
    messages, services = stubs.message("isomer/encoder/v1/encoder"), stubs.grpc("isomer/encoder/v1/encoder")
    stub = services.EncoderServiceStub(channel)

    def encode(lines):
        waiting, rows = collections.deque(), []

        def take():
            answer = waiting.popleft().result().embeddings
            rows.append(np.frombuffer(answer.data, "<f4").reshape(answer.rows, answer.cols))

        for first in range(0, len(lines), args.batch):
            inputs = [messages.Input(text=text) for text in lines[first : first + args.batch]]
            waiting.append(stub.Encode.future(messages.EncodeRequest(encoder_id=str(args.model), inputs=inputs)))
            if len(waiting) >= args.in_flight:
                take()
        while waiting:
            take()
        return np.concatenate(rows)

    return encode, lambda: peak_of(server)


def text_embeddings_inference(args):
    import numpy as np
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    # The two messages of its proto that are used here; fields that are left out are skipped on
    # reading.
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="tei.proto", package="tei.v1", syntax="proto3")
    for name, field, number, kind, label in [
        ("EmbedRequest", "inputs", 1, kinds.TYPE_STRING, kinds.LABEL_OPTIONAL),
        ("EmbedRequest", "truncate", 2, kinds.TYPE_BOOL, kinds.LABEL_OPTIONAL),
        ("EmbedResponse", "embeddings", 1, kinds.TYPE_FLOAT, kinds.LABEL_REPEATED),
    ]:
        if not file.message_type or file.message_type[-1].name != name:
            file.message_type.add(name=name)
        file.message_type[-1].field.add(name=field, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    request, response = (message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tei.v1.{name}")) for name in ("EmbedRequest", "EmbedResponse"))

    port = free_port()
    command = [args.tei, "--model-id", args.model, "--hostname", "127.0.0.1", "--port", port, "--dtype", "float32", "--auto-truncate"]
    server, channel = start_server(args, command, {"MKL_NUM_THREADS": str(args.threads), "RAYON_NUM_THREADS": str(args.threads)}, port)
    stream = channel.stream_stream("/tei.v1.Embed/EmbedStream", request.SerializeToString, response.FromString)

    def encode(lines):
        answers = stream(request(inputs=line, truncate=True) for line in lines)
        return np.stack([np.fromiter(answer.embeddings, np.float32) for answer in answers])

    return encode, lambda: peak_of(server)


# Hold PyTorch, oneDNN and MKL to AVX2.
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


class Contestant:
    """A contestant's process, controlled from here."""

    def __init__(self, args, name):
        command = [sys.executable, __file__, "--worker", name, "--isomer", args.isomer, "--model", args.model, *args.texts]
        command += ["--tei", args.tei] if args.tei else []
        command += ["--batch", args.batch, "--threads", args.threads, "--in-flight", args.in_flight, "--instructions", args.instructions]
        self.name = name
        variables = environment(args.threads) | (AVX2 if args.instructions == "avx2" else {})
        self.process = subprocess.Popen(
            list(map(str, command)), env=variables, preexec_fn=on_cores(args.threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self.answer()

    def encode(self, texts, output):
        self.process.stdin.write(json.dumps([str(texts), str(output)]) + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        return answer["seconds"], answer["peak_mib"]

    def latencies(self, texts):
        """Seconds of each of its first texts, sent alone."""
        self.process.stdin.write(json.dumps([str(texts), None]) + "\n")
        self.process.stdin.flush()
        return self.answer()["latencies"]

    def answer(self):
        """The next line that a contestant printed; exporters print to stdout too."""
        while line := self.process.stdout.readline():
            try:
                return json.loads(line)
            except ValueError:
                continue
        raise RuntimeError(f"the process of {self.name} ended with {self.process.wait()}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


# ---------------------------------------------------------------- the comparison


def shown(rate):
    """Texts a second: whole above ten, else two digits."""
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


def bench(args):
    import numpy as np

    say = lambda text: print(text, file=sys.stderr, flush=True)
    names = [name for name in CONTESTANTS if name in args.only]
    say(f"loading {', '.join(names)}")
    contestants = [Contestant(args, name) for name in names]
    counts = {path.stem: len(read_lines(path)) for path in args.texts}
    rates = {(file, name): [] for file in counts for name in names}
    cosines, peaks = {}, {}
    with tempfile.TemporaryDirectory(prefix="isomer-bench-") as folder:
        folder = pathlib.Path(folder)
        # One round that is not counted, for the vectors.
        for path in args.texts:
            for contestant in contestants:
                contestant.encode(path, folder / f"{contestant.name}.npy")
            reference = np.load(folder / f"{'st' if 'st' in names else names[0]}.npy").astype(np.float64)
            for name in names:
                ours = np.load(folder / f"{name}.npy").astype(np.float64)
                if ours.shape != reference.shape:
                    raise RuntimeError(f"{name} made {ours.shape} vectors, the reference {reference.shape}")
                rows = (ours * reference).sum(1) / (np.linalg.norm(ours, axis=1) * np.linalg.norm(reference, axis=1))
                cosines[path.stem, name] = float(rows.min())
        for number in range(args.repeats):
            for path in args.texts:
                for contestant in contestants:
                    seconds, peaks[contestant.name] = contestant.encode(path, folder / "scratch.npy")
                    rates[path.stem, contestant.name].append(counts[path.stem] / seconds)
                last = ", ".join(f"{name} {shown(rates[path.stem, name][-1])}" for name in names)
                say(f"round {number + 1}/{args.repeats} {path.stem}: texts/s {last}")
    latencies = {contestant.name: [] for contestant in contestants}
    for _ in range(args.repeats if args.latency else 0):
        for contestant in contestants:
            latencies[contestant.name] += contestant.latencies(args.texts[0])
    for contestant in contestants:
        contestant.close()
    alone = Contestant(args, "sgemm").first if args.sgemm else {}
    print(f"{args.model.name}, {args.threads} threads, instructions: {args.instructions}, batch {args.batch}, {args.in_flight} requests in flight, {args.repeats} interleaved rounds, median (range)\n")
    print("| texts | system | texts/s | isomer / it | least cosine | peak RSS, MiB |\n|---|---|---|---|---|---|")
    for file in counts:
        for name in names:
            values = rates[file, name]
            same = f"isomer-{name.rpartition('-')[2]}"
            own = rates.get((file, same if same in names else "isomer"))
            ratio = f"{statistics.median(a / b for a, b in zip(own, values)):.2f}" if own else ""
            print(
                f"| {file} ({counts[file]}) | {name} | {shown(statistics.median(values))} ({shown(min(values))}–{shown(max(values))}) | {ratio} "
                f"| {cosines[file, name]:.6f} | {peaks[name]:.0f} |"
            )
    for file, bound in alone.items():
        print(f"\n{file}: {bound['tokens']:.1f} tokens a text; sgemm {bound['gflops']:.0f} GFLOP/s on its shapes, which is {bound['texts']:.0f} texts/s")
        shares = [f"{name} {statistics.median(rates[file, name]) / bound['texts']:.0%}" for name in names if not name.endswith(("int8", "bf16"))]
        print(f"share of it: {', '.join(shares)}")
    if args.latency:
        print(f"\n| one text of {args.texts[0].stem} at a time | p50, ms | p99, ms |\n|---|---|---|")
        for name, values in latencies.items():
            p50, p99 = statistics.median(values), statistics.quantiles(values, n=100)[98]
            print(f"| {name} | {p50 * 1e3:.2f} | {p99 * 1e3:.2f} |")
    if args.json:
        rows = [{"texts": file, "system": name, "rates": values} for (file, name), values in rates.items()]
        args.json.write_text(json.dumps({"model": args.model.name, "threads": args.threads, "batch": args.batch, "rows": rows}, indent=2) + "\n")
    exact = [value for (_, name), value in cosines.items() if not name.endswith(("int8", "bf16"))]
    if min(exact) < args.min_cosine:
        raise RuntimeError(f"f32 contestants disagree: smallest cosine {min(exact):.7f}, required {args.min_cosine}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
