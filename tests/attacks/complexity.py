#!/usr/bin/env python3
"""How the CPU time of a call grows while its request doubles, for each rpc and route that takes a list or a text.

Each row sends its request at 1/16, 1/8, … of the largest legal size to an idle server, and reads the server's CPU time for it from /proc. The growth between two sizes is an
exponent: 1 where time doubles with the size, 2 where it quadruples. A row holds if the exponent of its last two doublings is at most 1.3 (n log n), or if a call takes under 50 ms,
or if the server refuses the size for its cost. A call is cut off after 10 s, and larger sizes are then not tried.

    tests/attacks/run complexity
    tests/attacks/run complexity --only StatisticsService

Prints for each row the CPU milliseconds at each size (`r`: refused, `+`: cut off) and the exponent, and exits with 1 if a row grows faster. A debug build multiplies times but not
exponents.
"""

import argparse
import math
import pathlib
import shutil
import sys
import tempfile

import subject

from isomer_stubs import generated_stubs
from legal import Requests
from memory import Process, asked, posted

SHARES = [2.0**-power for power in range(4, -1, -1)]
LARGEST_EXPONENT, LEAST_SECONDS, DEADLINE, QUIET = 1.3, 0.05, 10, 30


class Cost:
    """Cost of one call."""

    def __init__(self, share, seconds, outcome):
        self.share, self.seconds, self.outcome = share, seconds, outcome

    def __str__(self):
        return f"{self.seconds * 1000:.0f}{ {'ok': '', 'refused': 'r', 'cut': '+'}[self.outcome]}"


class Server:
    def __init__(self, gateway, key):
        self.gateway, self.key, self.process = gateway, key, Process(gateway.process.pid)

    def cost(self, row, share):
        body = row.body(share)
        before = self.process.cpu_seconds()
        call = posted if row.is_http else asked
        outcome = call(self.gateway.address, row.path, body, self.key, DEADLINE)
        # Work after the caller has left counts too, except that of a call that was cut off.
        spent = self.process.cpu_seconds() - before
        self.process.is_quiet(QUIET)
        return Cost(share, spent if outcome == "cut" else self.process.cpu_seconds() - before, outcome)

    def costs(self, row):
        costs = []
        for share in SHARES:
            costs.append(self.cost(row, share))
            if costs[-1].outcome == "cut":
                break
        return costs


def exponent(costs):
    """Growth over the last two doublings of calls that were computed; None if there are too few."""
    computed = [cost for cost in costs if cost.outcome != "refused"][-3:]
    if len(computed) < 2 or computed[-1].seconds < LEAST_SECONDS:
        return None
    # The clock ticks every 10 ms.
    first, last = max(computed[0].seconds, 0.01), computed[-1].seconds
    return math.log2(last / first) / math.log2(computed[-1].share / computed[0].share)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the isomer command; tests/attacks/run gives it")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="isomer-complexity-"))
    gateway = subject.Gateway(arguments.isomer, folder / "home", folder, subject.Models())
    broken = []
    with generated_stubs() as modules:
        key = gateway.admin()
        gateway.start()
        try:
            server = Server(gateway, key)
            print(f"{'route':75} {'exponent':>8}  CPU ms at 1/16, 1/8, 1/4, 1/2 and all of the largest size")
            for row in Requests(modules).all():
                if arguments.only not in row.name:
                    continue
                # Loads what the first call loads.
                server.cost(row, 0)
                costs = server.costs(row)
                grown = exponent(costs)
                is_broken = grown is not None and grown > LARGEST_EXPONENT
                broken += [row.name] if is_broken else []
                shown = "-" if grown is None else f"{grown:.2f}"
                print(f"{row.name:75.75} {shown:>8}  {' '.join(map(str, costs))}{'  BROKEN' if is_broken else ''}", flush=True)
        finally:
            gateway.kill()
            gateway.process.wait()
            shutil.rmtree(folder)
    print(f"\n{len(broken)} rows grow faster than n log n")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
