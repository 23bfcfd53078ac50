"""Short texts through this client, the bare generated stub and OpenAI's client, each in a process of its own.

The texts and the encoder are those of clients/python/bench. Rounds are interleaved; the table has medians.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python/bench"))
import speed  # noqa: E402
from harness.servers import Isomer  # noqa: E402

WAYS = ["bare stub", "isomer-client", "isomer-client, Connect", "isomer-client, gRPC-Web", "openai"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isomer-speed-") as name:
        folder = pathlib.Path(name)
        (folder / "wide").mkdir()
        speed.wide_model(folder / "wide")
        (folder / "texts.json").write_text(json.dumps(speed.texts(arguments.texts)))
        server = Isomer(str(pathlib.Path(arguments.isomer).resolve()), folder, "speed", f'[embed.encoders]\nwide = "{folder / "wide"}"\n').start()
        found = {way: [] for way in WAYS}
        try:
            for _ in range(arguments.repeats):
                for way in WAYS:
                    command = ["node", str(HERE.parent / "build/bench/way.js"), way, server.address, str(folder / "texts.json")]
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    found[way].append(json.loads(done.stdout))
        finally:
            server.stop()
    every = [one for ones in found.values() for one in ones]
    assert all(one["numbers"] == arguments.texts * speed.COLUMNS for one in every), "a way lost vectors"
    assert len({round(one["sum"], 1) for one in every}) == 1, "the ways do not agree on the vectors"
    print(f"{arguments.texts} texts, {speed.COLUMNS} columns, {speed.BATCH} a request, {speed.IN_FLIGHT} in flight; medians of {arguments.repeats}")
    print(f"{'':24}{'texts/s':>10}{'client CPU s':>14}{'CPU, stub = 1':>15}{'texts/CPU s':>13}{'peak MB':>9}{'added MB':>10}")
    for way, ones in found.items():
        one = {key: statistics.median(each[key] for each in ones) for key in ones[0]}
        # Rounds compare with themselves: the machine may be busier in one than in another.
        beside = statistics.median(ours["cpu"] / bare["cpu"] for ours, bare in zip(ones, found["bare stub"]))
        print(
            f"{way:24}{arguments.texts / one['seconds']:>10,.0f}{one['cpu']:>14.3f}{beside:>15.2f}"
            f"{arguments.texts / one['cpu']:>13,.0f}{one['peak'] / 1e6:>9.0f}{one['memory'] / 1e6:>10.0f}"
        )


if __name__ == "__main__":
    main()
