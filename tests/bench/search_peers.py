"""Approximate search beside its peers: Isomer's graph, hnswlib and Faiss (HNSWFlat), same M, ef_construction and ef_search.

    cargo build --release --manifest-path crates/scoring/Cargo.toml --example hnsw
    pip install hnswlib faiss-cpu
    python tests/bench/search_peers.py --isomer target/release/examples/hnsw --documents 100000

Documents and queries lie around 1,000 centres on the unit sphere with noise of the centre's own length, and are normalised; the
best are asked for by cosine. Every system runs in a process of its own with the same number of threads, one after the other, in
interleaved rounds. Seconds are those that passed and, in brackets, those that all threads worked (user and system time), which
other work on the machine disturbs less. Recall is the share of the exact best `--k`, which one product of matrices finds.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

M = 32


def crowd(args):
    rng = np.random.default_rng(1)
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    centres = unit(rng.standard_normal((1000, args.width), dtype=np.float32))

    def draw(rows):
        noise = rng.standard_normal((rows, args.width), dtype=np.float32) / np.float32(np.sqrt(args.width))
        noise += centres[rng.integers(0, len(centres), rows)]
        return unit(noise)

    return draw(args.queries), draw(args.documents)


def exact(queries, documents, k):
    best = None
    for start in range(0, len(documents), 50_000):
        scores = queries @ documents[start : start + 50_000].T
        rows = np.argpartition(-scores, k, axis=1)[:, :k]
        found = np.stack([np.take_along_axis(scores, rows, 1), rows + start], axis=2)
        best = found if best is None else np.concatenate([best, found], axis=1)
    order = np.argsort(-best[:, :, 0], axis=1)[:, :k]
    return np.take_along_axis(best[:, :, 1], order, 1).astype(np.int64)


def timed(name, work):
    started, before = time.perf_counter(), time.process_time()
    result = work()
    print(f"{name} {time.perf_counter() - started:.4f} {time.process_time() - before:.2f}", flush=True)
    return result


def peer(kind, queries, documents, width, k, construction, search, repeats, hits):
    """One run of a peer in this process, which prints what the example `hnsw` prints."""
    width, k, construction, searches = int(width), int(k), int(construction), [int(ef) for ef in search.split(",")]
    threads = int(os.environ["RAYON_NUM_THREADS"])
    queries, documents = (np.fromfile(path, "<f4").reshape(-1, width) for path in (queries, documents))
    if kind == "hnswlib":
        import hnswlib

        index = hnswlib.Index(space="ip", dim=width)
        index.init_index(len(documents), M=M, ef_construction=construction, random_seed=42)
        index.set_num_threads(threads)
        timed("build", lambda: index.add_items(documents))
        hold = lambda ef: index.set_ef(max(ef, k))
        find = lambda: index.knn_query(queries, k)[0]
    else:
        import faiss

        faiss.omp_set_num_threads(threads)
        index = faiss.IndexHNSWFlat(width, M, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = construction
        timed("build", lambda: index.add(documents))
        hold = lambda ef: setattr(index.hnsw, "efSearch", ef)
        find = lambda: index.search(queries, k)[1]
    for ef in searches:
        hold(ef)
        for _ in range(int(repeats)):
            found = timed(f"search-{ef}", find)
        found.astype("<u4").tofile(f"{hits}.{ef}")


def run(command, searches, threads):
    """Seconds passed and worked by `build` and by each search (the best of its repeats)."""
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [text.split() for text in output.splitlines()]
    times = lambda name: [(float(wall), float(cpu)) for what, wall, cpu in lines if what == name]
    return times("build")[0], [min(times(f"search-{ef}")) for ef in searches]


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--peer":
        return peer(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", required=True, help="the built example `hnsw`")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--ef-construction", type=int, default=100)
    parser.add_argument("--ef-search", type=int, nargs="+", default=[100], help="candidates held; several: the same graph is searched with each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="rounds; each builds every index anew")
    parser.add_argument("--only", nargs="+", default=["isomer", "hnswlib", "faiss"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}" for name in ("queries", "documents", "hits")]
        queries, documents = crowd(args)
        queries.tofile(paths[0])
        documents.tofile(paths[1])
        truth = exact(queries, documents, args.k)
        del documents
        terms = [*paths[:2], *map(str, (args.width, args.k, args.ef_construction)), ",".join(map(str, args.ef_search)), "5", paths[2]]
        results = {name: [] for name in args.only}
        for number in range(args.repeats):
            for name, kept in results.items():
                start = [args.isomer] if name == "isomer" else [sys.executable, str(pathlib.Path(__file__).resolve()), "--peer", name]
                build, times = run([*start, *terms], args.ef_search, args.threads)
                hits = [np.fromfile(f"{paths[2]}.{ef}", "<u4").reshape(-1, args.k) for ef in args.ef_search]
                recalls = [np.mean([len(set(a) & set(b)) / args.k for a, b in zip(found, truth)]) for found in hits]
                kept.append((build, times, recalls))
                print(f"round {number + 1}, {name}: {kept[-1]}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print(f"{args.documents} x {args.width}, {args.queries} queries, M {M}, ef_construction {args.ef_construction}\n")
    print(f"| system | build, s (worked) | ef_search | queries/s | ms worked a query | recall@{args.k} |\n|---|---|---|---|---|---|")
    middle = lambda values: statistics.median(values)
    for name, kept in results.items():
        build, work = middle(k[0][0] for k in kept), middle(k[0][1] for k in kept)
        for place, ef in enumerate(args.ef_search):
            passed, worked = middle(k[1][place][0] for k in kept), middle(k[1][place][1] for k in kept)
            each, recall = worked * 1000 / args.queries, middle(k[2][place] for k in kept)
            print(f"| {name} | {build:.1f} ({work:.1f}) | {ef} | {args.queries / passed:,.0f} | {each:.2f} | {recall:.4f} |")


if __name__ == "__main__":
    main()
