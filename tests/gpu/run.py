#!/usr/bin/env python3
"""Measures Isomer on a GPU machine from a folder that tests/gpu/pack made. Needs Python 3.11, the driver, and the CUDA 13 libraries.

    python3 run.py                       everything, on cuda:0, from the parts beside this file
    python3 run.py --device cpu          the same code on the CPU in f32, with small shapes: the dry run
    python3 run.py --stages fixtures models --precisions bf16      some of it

Stages:
  * fixtures: every tiny checkpoint, in each precision, against the golden vectors or scores of its reference.
  * models: the packed real models: load, parity with the CPU's vectors and with sentence-transformers', texts/s, tokens/s, MFU, memory.
  * decoder: the same for the largest random decoder that fits (7.6 billion parameters), made here from a seed. In f32 texts in
    company are compared with the same texts alone; f16 and bf16 are compared with f32.
  * cancel: requests that are cut off and a load that is cut off: memory comes back, and the next request is served.
  * peers: tests/bench/encode_gpu.py beside sentence-transformers (with FlashAttention 2 if flash-attn is installed), and
    text-embeddings-inference if its router is on the PATH. What cannot be imported or found is a row that says so.

Parts are compared with the manifest's digests first. The report (report.json, report.md) is written anew after each row.
MFU: FLOPs of the shape (shapes.py) over seconds over the device's peak, which is looked up for H100 and H200 or given.
Exit code 0: all measured, all parity within its tolerance; 1: something failed; 2: the pack or the machine cannot be used.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import shapes  # noqa: E402
from stages import LENGTHS, STAGES, Run  # noqa: E402
from vectors import Unusable  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=pathlib.Path, default=HERE, help="folder of the parts (default: this file's)")
    parser.add_argument("--work", type=pathlib.Path, help="where to unpack (default: `unpacked` in the pack)")
    parser.add_argument(
        "--report", type=pathlib.Path, default=pathlib.Path("report"), help="files to write, without suffix (default: %(default)s)"
    )
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu (default: %(default)s)")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--precisions", nargs="+", choices=["f32", "f16", "bf16"], help="default: all three; on the CPU f32")
    parser.add_argument("--decoder", choices=list(shapes.DECODERS), help="default: the largest that fits; on the CPU decoder-tiny")
    parser.add_argument("--lengths", nargs="+", choices=LENGTHS, default=LENGTHS, help="tokens of the texts (default: all)")
    parser.add_argument("--seconds", type=float, default=4, help="about how long one timed pass may take (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="timed passes, of which the median counts (default: %(default)s)")
    parser.add_argument("--in-flight", type=int, default=8, help="requests in flight (default: %(default)s)")
    parser.add_argument("--peak-tflops", type=float, help="the device's peak in f16 and bf16 (default: looked up by its name)")
    parser.add_argument("--peak-tflops-f32", type=float, help="its peak in f32 without TF32 (default: looked up)")
    parser.add_argument(
        "--library-path", action="append", default=[], help="folder with libraries that the binary needs; repeat for several"
    )
    args = parser.parse_args()
    args.pack = args.pack.resolve()
    args.work = (args.work or args.pack / "unpacked").resolve()
    args.precisions = args.precisions or (["f32"] if args.device == "cpu" else ["f32", "f16", "bf16"])
    try:
        return Run(args).all()
    except Unusable as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
