"""The stages of a run: what is asked of the server, and the rows that come of it."""

import json
import os
import platform
import shutil
import subprocess
import time

import parts
import peers
import shapes
from report import SCORES, Report, tolerance
from server import Server, cancel, library_path, median
from vectors import Unusable, floats, least_cosine, rows, tensor

STAGES = ["fixtures", "models", "decoder", "cancel", "peers"]
LENGTHS = ["short", "250", "8192"]
# The token that ends a text of the random decoders, whose tokenizer is the fixture `qwen3`'s.
END = 417


class Run:
    def __init__(self, args):
        self.args, self.cpu = args, args.device == "cpu"
        if self.cpu and args.precisions != ["f32"]:
            raise Unusable("the CPU computes in f32 only; leave out --precisions or give --device cuda:0")
        manifest = parts.read(args.pack, args.work)
        self.tree, self.made = args.work, None
        self.binary = self.tree / "bin/isomer"
        self.device = {"name": processor(), "memory": None, "driver": "none"} if self.cpu else gpu(args.device)
        self.libraries = args.library_path if self.cpu else library_path(self.tree / "lib", args.library_path)
        facts = {
            "device": f"{self.device['name']} ({args.device})",
            "driver": self.device["driver"],
            "memory MiB": self.device["memory"] or "not a GPU's",
            "pack": manifest["inputs"],
            "build": manifest["build"],
            "commit": manifest["commit"],
            "host": f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        }
        self.report = Report(args.report, facts)
        self.models = sorted(path.name for path in (self.tree / "models").iterdir())

    def all(self):
        for stage in STAGES:
            if stage not in self.args.stages:
                continue
            print(f"== {stage}", flush=True)
            try:
                getattr(self, f"run_{stage}")()
            except (Unusable, OSError, subprocess.SubprocessError) as error:
                # The other stages still count; the run as a whole fails.
                self.report.add(stage, result="FAILED", note=str(error))
        for row in self.report.failed:
            print(f"FAILED: {row['what']} {row.get('precision', '')} {row.get('note', '')}")
        print(f"report: {self.report.path.with_suffix('.md')}, {len(self.report.rows)} rows, {len(self.report.failed)} failed")
        return 1 if self.report.failed else 0

    def server(self, precision):
        log = self.args.report.with_suffix(".log").resolve()
        return Server(self.binary, self.args.device, precision, self.tree / "home", self.libraries, log)

    def peak(self, precision):
        given = self.args.peak_tflops_f32 if precision == "f32" else self.args.peak_tflops
        return given or shapes.peak(self.device["name"], precision)

    # ---------------------------------------------------------------- the tiny checkpoints

    def run_fixtures(self):
        root = self.tree / "fixtures"
        folders = sorted(path.parent for path in root.glob("*/golden.json"))
        if len(folders) < 27:
            raise Unusable(f"{root} holds {len(folders)} fixtures, expected at least 27; make the pack again")
        for precision in self.args.precisions:
            with self.server(precision) as server:
                for folder in folders:
                    # Word vectors are a text file, not a folder.
                    whole = any((folder / name).is_file() for name in ("config.json", "modules.json"))
                    for model in [folder] if whole else sorted(folder.glob("*.txt")):
                        try:
                            self.fixture(server, folder, model, precision)
                        except Unusable as error:
                            self.report.add(f"fixture {model.name}", precision=precision, result="FAILED", note=str(error))

    def fixture(self, server, folder, model, precision):
        golden = json.loads((folder / "golden.json").read_text())
        texts = json.loads((folder / golden["texts"]).read_text())
        name = f"fixture {model.name}"
        if "pairs" in golden:
            wanted, shape = tensor(folder / "golden.safetensors", "scores")
            if len(shape) > 1 and shape[1] > 1:
                note = "it gives a score a class, and /v1/rerank one a pair"
                self.report.add(name, precision=precision, result="not measured", note=note)
                return
            found = [server.scores(model, texts[a], [texts[b]])[0] for a, b in golden["pairs"]]
            apart = max(abs(a - b) for a, b in zip(found, wanted))
            self.report.add(name, shape=f"{len(found)} pairs", precision=precision, apart=apart, most=SCORES[precision])
            return
        prompts = golden.get("prompts") or {}
        for key, prompt in [("embeddings", None), *((key, value["prompt_name"]) for key, value in prompts.items())]:
            values, (count, width) = tensor(folder / "golden.safetensors", key)
            fields = {"prompt_name": prompt} if prompt else {}
            if golden.get("normalised") is not None:
                fields["normalized"] = golden["normalised"]
            found, _ = server.encode(model, texts[:count], **fields)
            self.report.add(
                f"{name}, {prompt}" if prompt else name,
                shape=f"{count} texts",
                precision=precision,
                parity=least_cosine(found, rows(values, width)),
                tolerance=tolerance(folder.name, precision),
            )

    # ---------------------------------------------------------------- the real models

    def run_models(self):
        for name in self.models:
            folder, goldens = self.tree / "models" / name, self.tree / "goldens" / name
            limit = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
            for precision in self.args.precisions:
                with self.server(precision) as server:
                    self.load(server, name, folder, precision, ["A first text."])
                    self.parity(server, name, folder, goldens, precision)
                    for length in self.args.lengths:
                        if length != "short" and int(length) > limit:
                            note = f"the model reads {limit} tokens at most"
                            self.report.add(name, shape=f"{length} tokens", precision=precision, result="not measured", note=note)
                            continue
                        self.speed(server, name, folder, precision, length, lambda count: shapes.texts(length, count))

    def load(self, server, name, folder, precision, inputs):
        empty, started = server.memory.last, time.perf_counter()
        server.encode(folder, inputs)
        seconds = time.perf_counter() - started
        note = f"{seconds:.1f} s to load the model and encode a first text; {empty:.0f} MiB in use before"
        self.report.add(f"{name}, load", precision=precision, peak_mib=server.memory.peak, note=note)

    def parity(self, server, name, folder, goldens, precision):
        facts = json.loads((goldens / "golden.json").read_text())
        found, _ = server.encode(folder, facts["texts"], batch=32)
        for whose, note in facts["whose"].items():
            count = facts["counts"][whose]
            wanted = rows(floats((goldens / f"{whose}.f32").read_bytes()), facts["dimensions"])
            self.report.add(
                f"{name}, parity with {whose}",
                shape=f"{count} texts",
                precision=precision,
                parity=least_cosine(found[:count], wanted),
                tolerance=tolerance(name, precision),
                note=note,
            )

    def speed(self, server, name, folder, precision, length, inputs):
        """A row of speed. `inputs` makes so many inputs."""
        tokens = 14 if length == "short" else int(length)
        peak = self.peak(precision)
        # How many texts a pass takes is guessed from a third of the peak; a CPU counts as 0.1
        # TFLOP/s.
        expected = self.args.seconds * (peak or 0.1) * 1e12 / 3 / shapes.flops(folder, tokens)
        if self.cpu and not peak:
            expected = min(expected, 4096 // tokens)
        in_flight = self.args.in_flight
        count = int(min(max(expected, 1 if self.cpu else in_flight), 40_000))
        batch = max(1, min(256, 16_384 // tokens, count // in_flight))
        texts = inputs(count)
        server.memory.reset()
        # Not counted: kernels are chosen and memory is allocated in the first pass of a shape.
        sample = texts[: max(1, min(64, 16_384 // tokens))]
        _, counted = server.encode(folder, sample, batch)
        tokens = counted / len(sample)
        server.seconds(folder, texts[: max(batch, count // 4)], batch, in_flight)
        rates = [count / server.seconds(folder, texts, batch, in_flight) for _ in range(self.args.repeats)]
        rate = median(rates)
        self.report.add(
            name,
            shape=f"{count} of {tokens:.4g} tokens",
            precision=precision,
            texts_s=rate,
            tokens_s=rate * tokens,
            mfu=rate * shapes.flops(folder, round(tokens)) / (peak * 1e12) if peak else None,
            peak_mib=server.memory.peak,
            rates=rates,
            note=f"batches of {batch}, {in_flight} in flight, {min(rates):.4g} to {max(rates):.4g} texts/s",
        )

    # ---------------------------------------------------------------- a random decoder

    def decoder_of(self, shape):
        """The folder of a random decoder, made once a run."""
        if self.made and self.made[0] == shape:
            return self.made[1]
        folder, started = self.tree / shape, time.perf_counter()
        shapes.make_decoder(shape, folder, self.tree / "fixtures/qwen3")
        note = f"{shapes.parameters(shape) / 1e9:.2f} billion parameters, made in {time.perf_counter() - started:.0f} s"
        self.report.add(shape, result="made", note=note)
        self.made = (shape, folder)
        return folder

    def shape(self, precision):
        if self.args.decoder:
            return self.args.decoder
        if self.cpu:
            return "decoder-tiny"
        return shapes.largest(self.device["memory"] << 20, shutil.disk_usage(self.tree).free, precision)

    def run_decoder(self):
        # One shape for all precisions: f16 and bf16 are compared with f32.
        shape = self.shape(self.args.precisions[0])
        folder, exact = self.decoder_of(shape), None
        checked = [one for length in ("short", "250") for one in shapes.ids(length, 6, END)]
        for precision in self.args.precisions:
            with self.server(precision) as server:
                self.load(server, shape, folder, precision, checked[:1])
                found, _ = server.encode(folder, checked)
                if precision == "f32":
                    exact = found
                    alone = [server.encode(folder, [one])[0][0] for one in checked]
                    self.compare(shape, precision, "texts alone with texts in company", least_cosine(alone, found), len(checked))
                elif exact:
                    self.compare(shape, precision, "f32 here", least_cosine(found, exact), len(checked))
                else:
                    self.report.add(f"{shape}, parity", precision=precision, result="not measured", note="f32 was not asked for")
                for length in self.args.lengths:
                    self.speed(server, shape, folder, precision, length, lambda count: shapes.ids(length, count, END))

    def compare(self, shape, precision, whose, value, count):
        self.report.add(
            f"{shape}, parity with {whose}", shape=f"{count} texts", precision=precision, parity=value, tolerance=tolerance(shape, precision)
        )

    # ---------------------------------------------------------------- what is cut off

    def run_cancel(self):
        precision, name = self.args.precisions[-1], self.models[0]
        shape = "decoder-small" if self.cpu and not self.args.decoder else self.shape(precision)
        large = self.decoder_of(shape)
        folder, goldens = self.tree / "models" / name, self.tree / "goldens" / name
        facts = json.loads((goldens / "golden.json").read_text())
        wanted = rows(floats((goldens / "cpu.f32").read_bytes()), facts["dimensions"])[:4]
        with self.server(precision) as server:

            def served():
                """Seconds until the next request is answered, and its parity."""
                started = time.perf_counter()
                found, _ = server.encode(folder, facts["texts"][:4])
                return time.perf_counter() - started, least_cosine(found, wanted)

            work = shapes.texts("250", 8 if self.cpu else 256)
            served()
            server.encode(folder, work[:8], 8)
            time.sleep(1)
            before = server.memory.last
            held = [server.begin(folder, work) for _ in range(4 if self.cpu else 32)]
            time.sleep(0.5)
            for connection in held:
                cancel(connection)
            self.cut(server, f"{name}, {len(held)} requests cut off", precision, served, before, 64 + 0.25 * before)

            before, weights = server.memory.last, 2 * shapes.parameters(shape) / (1 << 20) * (2 if precision == "f32" else 1)
            connection = server.begin(large, shapes.ids("short", 1, END))
            started = time.monotonic()
            while server.memory.last < before + 0.05 * weights and time.monotonic() - started < 60:
                time.sleep(0.01)
            cancel(connection)
            # On a GPU nothing may stay. On the CPU the allocator keeps freed memory for the next
            # load, so no more than one load's may stay.
            more = 64 + (1.25 if self.cpu else 0.15) * weights
            self.cut(server, f"{shape}, load cut off", precision, served, before, more)
            # The model that was cut off can still be had.
            self.load(server, f"{shape} after the load that was cut off", large, precision, shapes.ids("short", 1, END))

    def cut(self, server, what, precision, served, before, more):
        """A row: the next request is right, and memory falls to what it was and `more` at most, and stays there: what was cut
        off does not go on unseen."""
        seconds, parity = served()
        returned = server.memory.settles(before + more, 4 if self.cpu else 20, 120 if self.cpu else 300)
        note = f"next request after {seconds:.2f} s; memory {before:.0f} MiB before, {server.memory.last:.0f} after"
        if returned is None:
            self.report.add(what, precision=precision, result="FAILED", note=f"{note}; it did not come back", peak_mib=server.memory.peak)
            return
        note += f", at most {more:.0f} more from {seconds + returned:.1f} s on"
        limit = tolerance("", precision)
        self.report.add(what, precision=precision, parity=parity, tolerance=limit, note=note, peak_mib=server.memory.peak)

    # ---------------------------------------------------------------- others

    def run_peers(self):
        texts = self.tree / "texts"
        texts.mkdir(exist_ok=True)
        for length, count in (("short", 64 if self.cpu else 20_000), ("250", 8 if self.cpu else 4_000)):
            (texts / f"{length}.txt").write_text("\n".join(shapes.texts(length, count)) + "\n")
        peers.sentence_transformers(self)
        peers.text_embeddings_inference(self)


def gpu(device):
    """Name, memory and driver of a GPU."""
    query = ["nvidia-smi", f"--id={device.removeprefix('cuda:')}", "--query-gpu=name,memory.total,driver_version"]
    try:
        found = subprocess.run([*query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise Unusable("nvidia-smi is not there: no NVIDIA driver; run on a GPU machine, or give --device cpu") from None
    if found.returncode:
        raise Unusable(f"nvidia-smi knows no {device}: {found.stdout.strip() or found.stderr.strip()}")
    name, memory, driver = (part.strip() for part in found.stdout.strip().splitlines()[0].split(","))
    return {"name": name, "memory": int(memory), "driver": driver}


def processor():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
