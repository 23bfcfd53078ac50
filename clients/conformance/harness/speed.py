"""Short texts through a client and through its language's bare stub, each in a process of its own: `speed --isomer FILE NAME COMMAND NAME COMMAND …`.

A command gets the server's address and the number of texts, makes the texts of
clients/python/bench/speed.py, encodes some to warm up and then all, 256 a request and 4 in flight,
and prints `{"seconds", "cpu", "peak", "sum"}` of once through all texts after that. The first named is the bare stub.
Rounds are interleaved; the table has medians.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import tempfile

from .servers import ROOT, Isomer


def python_bench():
    spec = importlib.util.spec_from_file_location("python_bench", ROOT / "clients/python/bench/speed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser(prog="speed")
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("ways", nargs="+", help="a name and its command, in turn")
    arguments = parser.parse_args()
    ways = dict(zip(arguments.ways[::2], arguments.ways[1::2]))
    load = os.getloadavg()[0]
    found = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="isomer-speed-") as name:
        folder = pathlib.Path(name)
        (folder / "wide").mkdir()
        python_bench().wide_model(folder / "wide")
        binary = str(pathlib.Path(arguments.isomer).resolve())
        server = Isomer(binary, folder, "speed", f'[embed.encoders]\nwide = "{folder / "wide"}"\n').start()
        try:
            for _ in range(arguments.repeats):
                for way, command in ways.items():
                    words = [*shlex.split(command), server.address, str(arguments.texts)]
                    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
                    found[way].append(json.loads(done.stdout))
        finally:
            server.stop()
    sums = {round(one["sum"], 1) for ones in found.values() for one in ones}
    assert len(sums) == 1, f"the ways do not agree on the vectors: {sums}"
    stub = next(iter(ways))
    print(f"{arguments.texts} texts, 384 columns, 256 a request, 4 in flight; medians of {arguments.repeats}; load {load:.1f} at the start")
    print(f"{'':24}{'texts/s':>10}{'client CPU s':>14}{'CPU, stub = 1':>15}{'texts/CPU s':>13}{'peak MB':>9}")
    for way, ones in found.items():
        seconds, cpu, peak = (statistics.median(one[key] for one in ones) for key in ("seconds", "cpu", "peak"))
        # Rounds compare with themselves: the machine may be busier in one than in another.
        beside = statistics.median(ours["cpu"] / bare["cpu"] for ours, bare in zip(ones, found[stub]))
        print(f"{way:24}{arguments.texts / seconds:>10,.0f}{cpu:>14.3f}{beside:>15.2f}{arguments.texts / cpu:>13,.0f}{peak / 1e6:>9.0f}")


if __name__ == "__main__":
    main()
