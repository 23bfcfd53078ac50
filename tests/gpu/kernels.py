#!/usr/bin/env python3
"""Looks at the GPU code inside a CUDA build, without a GPU.

    python3 tests/gpu/kernels.py target/cuda/release/isomer [--capability 90] [--cuobjdump FILE]
    python3 tests/gpu/kernels.py target/cuda/release/build/candle-kernels-*/out/{*.ptx,libmoe.a}      before the binary is linked

Isomer launches no kernels of its own: `embed-svc/src/backend/candle` calls Candle, whose kernels lie in the binary as PTX, each
looked up by name when it is first launched, and cuBLAS. A name that is missing would show on a GPU only, at the first request.
So this lists the kernels that the operations of that folder ask for, by the rules of candle-core 0.11 and candle-nn 0.11, and
fails unless each is in the PTX, and every PTX module was compiled for the capability. With cuobjdump the machine code of the
kernels that are compiled beforehand (Candle's quantised ones, and flash attention) is listed too: all of it must be for the capability.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

# What the operations of embed-svc/src/backend/candle launch, by type of element. `index_select` is
# `is_u32`, `contiguous` is `ucopy`, `cat` is `copy2d`, `to_dtype` is `cast`, and a tensor times a
# number is `affine`.
STATES = "affine badd bmul is_u32 ucopy copy2d ugelu ugelu_erf urelu usilu utanh layernorm rmsnorm".split()
F32 = "bsub softmax rope_thd gather_u32".split()
U32 = "ucopy is_u32".split()


def wanted():
    """Names of all kernels that are launched, in every precision."""
    names = {f"{kernel}_{dtype}" for kernel in STATES for dtype in ("f32", "f16", "bf16")}
    names |= {f"{kernel}_f32" for kernel in F32} | {f"{kernel}_u32" for kernel in U32}
    for half in ("f16", "bf16"):
        names |= {f"cast_{half}_f32", f"cast_f32_{half}"}
    return names


def modules(data):
    """The PTX modules in the bytes of a binary: target and names of kernels of each."""
    found = []
    starts = [match.start() for match in re.finditer(rb"\.version \d+\.\d+\s+\.target ", data)]
    for start, end in zip(starts, [*starts[1:], len(data)]):
        target = re.compile(rb"\.target (\w+)").search(data, start)[1].decode()
        entries = re.findall(rb"\.entry (\w+)\s*\(", data[start:end])
        found.append((target, {name.decode() for name in entries}))
    return found


def faults(found, capability):
    """What is wrong with the modules of a binary."""
    if not found:
        return ["no PTX is in the binary: it was built without feature `cuda`"]
    wrong = []
    targets = collections.Counter(target for target, _ in found)
    # nvcc writes sm_90a where instructions of that generation alone are allowed.
    for target, count in targets.items():
        if target.removesuffix("a") != f"sm_{capability}":
            wrong.append(f"{count} PTX modules are for {target}, expected sm_{capability}; set CUDA_COMPUTE_CAP={capability}")
    there = set().union(*(names for _, names in found))
    missing = sorted(wanted() - there)
    if missing:
        wrong.append(f"{len(missing)} kernels that are launched are missing: {', '.join(missing)}; see the list in tests/gpu/kernels.py")
    return wrong


def machine_code(binary, cuobjdump):
    """Targets of the machine code in a binary, with how many images each has."""
    done = subprocess.run([cuobjdump, "--list-elf", str(binary)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{cuobjdump} --list-elf {binary} ended with {done.returncode}: {done.stderr.strip()}")
    return collections.Counter(re.findall(r"\.(sm_\w+)\.cubin", done.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, nargs="+", help="a binary, or PTX and archives that go into one")
    parser.add_argument("--capability", type=int, default=90, help="compute capability (default: %(default)s)")
    parser.add_argument("--cuobjdump", type=pathlib.Path, help="NVIDIA's tool, to list machine code too")
    args = parser.parse_args()
    found = [module for file in args.file for module in modules(file.read_bytes())]
    wrong = faults(found, args.capability)
    kernels = set().union(*(names for _, names in found)) if found else set()
    targets = collections.Counter(target for target, _ in found)
    print(f"PTX: {len(found)} modules ({dict(targets)}), {len(kernels)} kernels; {len(wanted() & kernels)} of the {len(wanted())} that are launched")
    if args.cuobjdump:
        images = sum((machine_code(file, args.cuobjdump) for file in args.file if file.suffix != ".ptx"), collections.Counter())
        print(f"machine code: {dict(images)}")
        wrong += [f"machine code for {target}" for target in images if target.removesuffix("a") != f"sm_{args.capability}"]
        if not images:
            wrong.append("no machine code: the statically compiled kernels are missing")
    for fault in wrong:
        print(f"FAILED: {fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
