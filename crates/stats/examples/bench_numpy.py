"""The Hodges–Lehmann bootstrap in numpy and in isomer-stats, in one run.

    cargo build --release -p isomer-stats --example bench
    python crates/stats/examples/bench_numpy.py target/release/examples/bench

numpy: all n (n + 1) / 2 Walsh averages of each resample, and their median by partition.
"""

import re
import statistics
import subprocess
import sys
import time

import numpy as np

n, resamples = 300, 1000
values = np.array([((i * 7919) % 10007) / 10007 - 0.4 for i in range(n)])
first, second = np.triu_indices(n)


def bootstrap(seed):
    rng = np.random.default_rng(seed)
    shifts = np.empty(resamples)
    for i in range(resamples):
        x = values[rng.integers(0, n, n)]
        shifts[i] = np.median((x[first] + x[second]) / 2)
    return np.quantile(shifts, [0.025, 0.975])


times = []
for seed in range(5):
    start = time.perf_counter()
    bootstrap(seed)
    times.append(time.perf_counter() - start)
numpy_ms = 1e3 * statistics.median(times)
out = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout
ours_ms = float(re.search(r": ([\d.]+) ms", out).group(1))
print(f"numpy {np.__version__}: {numpy_ms:.1f} ms (median of 5)")
print(out, end="")
print(f"{numpy_ms / ours_ms:.0f} times as fast")
