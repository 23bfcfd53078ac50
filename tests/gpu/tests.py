"""Tests of what the pack and the run compute: digests, FLOPs, 16-bit floats, random weights, kernels, reports.

python3 -m unittest discover -s tests/gpu -p tests.py
"""

import contextlib
import io
import json
import math
import pathlib
import random
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import kernels
import parts
import report
import shapes
import vectors
from vectors import Unusable

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "embed-svc/tests/fixtures"


class Folder(unittest.TestCase):
    def setUp(self):
        # Rows are printed as they are made.
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        held = tempfile.TemporaryDirectory(prefix="isomer-gpu-tests-")
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)


class Parts(Folder):
    def setUp(self):
        super().setUp()
        self.tree, self.out = self.folder / "tree", self.folder / "out"
        (self.tree / "bin").mkdir(parents=True)
        (self.tree / "bin/program").write_bytes(bytes(range(256)) * 50)
        (self.tree / "bin/program").chmod(0o755)
        # Not compressible, so that there are several parts.
        (self.tree / "weights").write_bytes(random.Random(1).randbytes(10_000))
        parts.write(self.tree, self.out, 4096, {"inputs": "x"})

    def test_parts_are_bounded_and_give_the_same_files(self):
        manifest = parts.read(self.out, self.folder / "again")
        self.assertGreater(len(manifest["parts"]), 2)
        self.assertTrue(all(part["bytes"] <= 4096 for part in manifest["parts"]))
        for name in ("bin/program", "weights"):
            self.assertEqual((self.folder / "again" / name).read_bytes(), (self.tree / name).read_bytes())
        self.assertTrue((self.folder / "again/bin/program").stat().st_mode & 0o100)

    def test_the_same_files_give_the_same_parts(self):
        before = parts.check(self.out)
        (self.tree / "weights").touch()
        self.assertEqual(parts.write(self.tree, self.out, 4096, {"inputs": "x"}), before)

    def test_a_part_that_is_damaged_cut_or_missing_is_refused_by_its_name(self):
        part = self.out / "part-001"
        whole = part.read_bytes()
        for data, word in [(whole[:-1] + bytes([whole[-1] ^ 1]), "damaged"), (whole[:-1], "4095 bytes"), (None, "missing")]:
            part.unlink() if data is None else part.write_bytes(data)
            with self.assertRaisesRegex(Unusable, f"part-001 .*{word}"):
                parts.read(self.out, self.folder / "again")

    def test_a_pack_that_was_interrupted_is_not_whole(self):
        (self.out / "manifest.json").unlink()
        with self.assertRaisesRegex(Unusable, "not whole"):
            parts.read(self.out, self.folder / "again")


class Numbers(Folder):
    def test_weights_are_rounded_to_f16_and_other_tensors_stay(self):
        source, target = self.folder / "source", self.folder / "target"
        values = [1.0, 1 / 3, -65504.0, 0.0]
        with open(source, "wb") as file:
            tensors = {"ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}
            vectors.write_header(file, tensors | {"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [8, 24]}})
            file.write(struct.pack("<q4f", 7, *values))
        vectors.halve(source, target)
        tensors, begin = vectors.header(target)
        self.assertEqual(tensors["w"], {"dtype": "F16", "shape": [2, 2], "data_offsets": [8, 16]})
        number, *halves = struct.unpack("<q4e", target.read_bytes()[begin:])
        self.assertEqual((number, halves), (7, [1.0, 0.333251953125, -65504.0, 0.0]))

    def test_a_weight_beyond_f16_is_refused(self):
        with self.assertRaisesRegex(Unusable, "beyond the range of f16"):
            vectors.to_f16(struct.pack("<f", 70_000.0), "w")

    def test_a_vector_that_is_not_finite_fails_parity(self):
        self.assertEqual(vectors.least_cosine([[1.0, 0.0]], [[2.0, 0.0]]), 1.0)
        self.assertTrue(math.isnan(vectors.least_cosine([[1.0, math.nan]], [[1.0, 0.0]])))
        whole = report.Report(self.folder / "report", {})
        for parity in (math.nan, 0.99998, 0.99999):
            whole.add("x", precision="f32", parity=parity, tolerance=report.tolerance("x", "f32"))
        self.assertEqual([row["result"] for row in whole.rows], ["FAILED", "FAILED", "ok"])
        self.assertEqual(json.loads((self.folder / "report.json").read_text())["rows"][0]["parity"], "nan")

    def test_a_score_that_is_off_fails(self):
        whole = report.Report(self.folder / "report", {})
        for apart in (1e-6, 0.1, math.nan):
            whole.add("x", precision="f32", apart=apart, most=report.SCORES["f32"])
        self.assertEqual([row["result"] for row in whole.rows], ["ok", "FAILED", "FAILED"])


class Shapes(Folder):
    def test_flops_are_those_counted_by_hand(self):
        # qwen3, causal, two layers of width 32, 4 query heads and 2 key heads of 16, inner 64: a
        # layer has 32·(64 + 32 + 32) + 64·32 + 3·32·64 weights.
        weights = 2 * (32 * 128 + 64 * 32 + 3 * 32 * 64)
        self.assertEqual(shapes.linear_weights(FIXTURES / "qwen3"), weights)
        self.assertEqual(shapes.flops(FIXTURES / "qwen3", 10), 2 * 10 * weights + 4 * 55 * 64 * 2)

    def test_the_large_shape_has_the_parameters_of_its_name(self):
        self.assertAlmostEqual(shapes.parameters("decoder-7b") / 1e9, 7.57, places=2)

    def test_the_largest_shape_is_the_largest_that_fits(self):
        gib = 1 << 30
        fits = lambda memory, disk, precision: shapes.largest(memory * gib, disk * gib, precision)
        self.assertEqual(fits(79, 60, "f32"), "decoder-7b")
        self.assertEqual(fits(24, 60, "f32"), "decoder-4b")
        self.assertEqual(fits(24, 60, "bf16"), "decoder-7b")
        self.assertEqual(fits(79, 10, "bf16"), "decoder-4b")

    def test_random_weights_come_from_the_seed_and_are_exact_in_f16(self):
        make = lambda name, seed: shapes.make_decoder("decoder-tiny", self.folder / name, FIXTURES / "qwen3", seed, processes=1)
        first, again, other = make("a", 1), make("b", 1), make("c", 2)
        shard = "model-00002-of-00004.safetensors"
        self.assertEqual((first / shard).read_bytes(), (again / shard).read_bytes())
        self.assertNotEqual((first / shard).read_bytes(), (other / shard).read_bytes())
        tensors, begin = vectors.header(first / shard)
        start, end = tensors["layers.0.mlp.up_proj.weight"]["data_offsets"]
        data = (first / shard).read_bytes()[begin + start : begin + end]
        values = [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2)]
        self.assertEqual(list(struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values))), values)
        spread = math.sqrt(sum(value * value for value in values) / len(values)) * math.sqrt(64)
        self.assertTrue(0.3 < spread < 3, spread)
        self.assertLess(abs(sum(values)) / len(values), 0.02)

    def test_peaks_are_found_by_the_name_that_the_driver_gives(self):
        self.assertEqual(shapes.peak("NVIDIA H100 80GB HBM3", "bf16"), 989.4)
        self.assertEqual(shapes.peak("NVIDIA H100 PCIe", "f32"), 51.0)
        self.assertEqual(shapes.peak("NVIDIA H200", "f32"), 66.9)
        self.assertIsNone(shapes.peak("AMD EPYC", "f32"))


class Kernels(unittest.TestCase):
    def binary(self, target="sm_90a", without=""):
        entries = "".join(f".visible .entry {name}(\n" for name in sorted(kernels.wanted()) if name != without)
        module = f"//\n.version 9.0\n.target {target}\n.address_size 64\n"
        return b"\x7fELF\0" + (module + entries).encode() + b"\0" + (module + ".visible .entry other(\n").encode()

    def test_a_binary_with_all_kernels_passes(self):
        self.assertEqual(kernels.faults(kernels.modules(self.binary()), 90), [])

    def test_another_capability_a_missing_kernel_and_no_ptx_are_found(self):
        for data, word in [
            (self.binary(target="sm_80"), "2 PTX modules are for sm_80"),
            (self.binary(without="softmax_f32"), "missing: softmax_f32"),
            (b"\x7fELF", "without feature `cuda`"),
        ]:
            self.assertRegex(" ".join(kernels.faults(kernels.modules(data), 90)), word)


if __name__ == "__main__":
    unittest.main()
