#!/usr/bin/env python3
"""mteb's classification and clustering on the same vectors: isomer-learn beside scikit-learn 1.8, interleaved in one run.

Timed on both sides: choosing the rows, fitting, predicting, every score that mteb reports. Reading files is not timed. Both
use all the cores they are given (`--threads`). Processor seconds are printed beside the seconds, because they say more on a busy
machine; ours include reading the files. Exits with 1 if a score differs in the fourth decimal.

    cargo build --release -p isomer-learn --example learn_peers
    isomer embed --input train.txt --output train.npy            # and so on; labels: a JSON list of strings beside them
    python learn_peers.py --tool target/release/examples/learn_peers --few-shot train.npy train.json test.npy test.json \\
        --whole-train train.npy train.json test.npy test.json --fast news.npy news.json --legacy news.npy news.json
"""
import argparse, json, os, random, resource, statistics, subprocess, sys, time, warnings

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--tool", required=True, help="the compiled example learn_peers of isomer-learn")
for task in ("few-shot", "whole-train"):
    parser.add_argument(f"--{task}", nargs=4, action="append", default=[], metavar=("TRAIN", "LABELS", "TEST", "LABELS"))
for task in ("fast", "legacy"):
    parser.add_argument(f"--{task}", nargs=2, action="append", default=[], metavar=("VECTORS", "LABELS"))
parser.add_argument("--samples-per-label", type=int, default=8)
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()
# Set before numpy reads them.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = str(args.threads)

import numpy as np
import sklearn
from sklearn import metrics
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression

if not sklearn.__version__.startswith("1.8."):
    sys.exit(f"scikit-learn 1.8 is needed, found {sklearn.__version__}")
warnings.simplefilter("ignore")


def labels(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def classified(fits, test, truth):
    """Mean of mteb's scores over fits of (vectors, labels)."""
    rows, iterations = [], 0
    for x, y in fits:
        model = LogisticRegression(max_iter=100, random_state=42).fit(x, y)
        predicted = model.predict(test)
        iterations += int(model.n_iter_[0])
        scores = {"accuracy": metrics.accuracy_score(truth, predicted)}
        for average, end in (("macro", ""), ("weighted", "_weighted")):
            for key, fn in (("f1", metrics.f1_score), ("precision", metrics.precision_score), ("recall", metrics.recall_score)):
                scores[key + end] = fn(truth, predicted, average=average)
        if len(set(truth)) == 2:
            positive = max(truth)
            scores["ap"] = scores["ap_weighted"] = metrics.average_precision_score(
                [t == positive for t in truth], [p == positive for p in predicted])
        rows.append(scores)
    mean = {key: float(np.mean([r[key] for r in rows])) for key in rows[0]}
    return mean | {"iterations": iterations}


def few_shot(x, y, test, truth):
    order = list(range(len(y)))

    def fits():
        for _ in range(10):
            np.random.RandomState(42).shuffle(order)
            count, rows = {}, []
            for i in order:
                if count.get(y[i], 0) < args.samples_per_label:
                    rows.append(i)
                    count[y[i]] = count.get(y[i], 0) + 1
            yield x[rows], [y[i] for i in rows]

    return classified(fits(), test, truth)


def fast(x, y):
    draw, y, found = random.Random(42), np.array(y), {"v_measure": [], "ami": []}
    for _ in range(10):
        rows = draw.choices(range(len(x)), k=16384)
        model = MiniBatchKMeans(n_clusters=len(set(y)), batch_size=512, init="k-means++", n_init=1, random_state=42)
        clusters = model.fit_predict(x[rows])
        found["v_measure"].append(metrics.v_measure_score(y[rows], clusters))
        found["ami"].append(metrics.adjusted_mutual_info_score(y[rows], clusters))
    return {k: float(np.mean(v)) for k, v in found.items()} | {f"{k}_std": float(np.std(v)) for k, v in found.items()}


def legacy(x, y):
    model = MiniBatchKMeans(n_clusters=len(set(y)), batch_size=500, n_init="auto", random_state=42).fit(x)
    return {"v_measure": metrics.v_measure_score(y, model.labels_)}


def measured(command, more, peer):
    """Seconds and processor seconds of each repeat on both sides, and both sides' scores."""
    ours, theirs, our_cpu, their_cpu = [], [], [], []
    for _ in range(args.repeats):
        # Interleaved, so that other load affects both sides. Two runs inside the tool: the first
        # one warms up its threads.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = json.loads(subprocess.run([args.tool, *command, "2", *more], check=True, stdout=subprocess.PIPE, text=True).stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours.append(min(done["seconds"]))
        our_cpu.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(done["seconds"]))
        start, start_cpu = time.perf_counter(), time.process_time()
        expected = peer()
        their_cpu.append(time.process_time() - start_cpu)
        theirs.append(time.perf_counter() - start)
    return ours, theirs, our_cpu, their_cpu, done["scores"], expected


runs = []
for task, files in [("few-shot", f) for f in args.few_shot] + [("whole-train", f) for f in args.whole_train]:
    x, y, t, ty = np.load(files[0]), labels(files[1]), np.load(files[2]), labels(files[3])
    if task == "few-shot":
        runs.append((task, files, x, y, [str(args.samples_per_label)], lambda x=x, y=y, t=t, ty=ty: few_shot(x, y, t, ty)))
    else:
        runs.append((task, files, x, y, [], lambda x=x, y=y, t=t, ty=ty: classified([(x, y)], t, ty)))
for task, files in [("fast", f) for f in args.fast] + [("legacy", f) for f in args.legacy]:
    x, y = np.load(files[0]), labels(files[1])
    runs.append((task, files, x, y, [], lambda run={"fast": fast, "legacy": legacy}[task], x=x, y=y: run(x, y)))

print(f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, {args.threads} threads, best (median) of {args.repeats}, seconds\n")
print("| task | vectors | isomer | scikit-learn | times | processor: isomer | scikit-learn | times | scores |")
print("|---|---|---|---|---|---|---|---|---|")
wrong = 0
for task, files, x, y, more, peer in runs:
    ours, theirs, our_cpu, their_cpu, got, expected = measured([task, *files], more, peer)
    off = [f"{k} {got[k]:.6f} / {expected[k]:.6f}" for k in expected if abs(got[k] - expected[k]) > 5e-5]
    wrong += len(off)
    first = next(iter(expected))
    agree = "; ".join(off) if off else f"equal ({first} {expected[first]:.4f})"
    show = lambda s: f"{min(s):.3f} ({statistics.median(s):.3f})"
    what = f"{os.path.basename(files[0])} {x.shape[0]} x {x.shape[1]}, {len(set(y))} classes"
    print(f"| {task} | {what} | {show(ours)} | {show(theirs)} | {min(theirs) / min(ours):.1f} | {min(our_cpu):.3f} | "
          f"{min(their_cpu):.3f} | {min(their_cpu) / min(our_cpu):.1f} | {agree} |", flush=True)
sys.exit(1 if wrong else 0)
