"""Scoring beside its peers, interleaved in one run: exact search beside torch.topk, STS and reranking beside mteb's evaluators.

    cargo build --release -p isomer-scoring --example search && cargo build --release -p isomer
    python tests/bench/eval_peers.py --search target/release/examples/search --isomer target/release/isomer

Search: 200,000 x 384 random documents, 1,000 queries, the best 1,000 by cosine, all cores, vectors in memory, normalisation
included on both sides. STS, reranking, and classification and clustering of the given files: the whole gRPC call (packed
vectors sent, every metric returned) beside mteb's task on the same vectors, which is the time that a user waits;
`learn_peers.py` times the fits alone.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "clients" / "python" / "src")]


def timed(work):
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def line(name, ours, theirs):
    a, b = statistics.median(ours), statistics.median(theirs)
    spread = lambda t: f"{min(t):.2f} to {max(t):.2f}"
    print(f"| {name} | {a:.2f} s ({spread(ours)}) | {b:.2f} s ({spread(theirs)}) | {b / a:.2f} |", flush=True)


def search(args):
    import torch

    rng = np.random.default_rng(1)
    queries = rng.standard_normal((args.queries, args.width), dtype=np.float32)
    documents = rng.standard_normal((args.documents, args.width), dtype=np.float32)

    def theirs():
        # As mteb's search wrapper: chunks of 50,000 documents, the best k + 1 of each, then the
        # best of those.
        q = torch.nn.functional.normalize(torch.from_numpy(queries))
        values, rows = [], []
        for start in range(0, len(documents), 50_000):
            d = torch.nn.functional.normalize(torch.from_numpy(documents[start : start + 50_000]))
            v, i = torch.topk(q @ d.T, min(args.k + 1, len(d)), dim=1)
            values.append(v)
            rows.append(i + start)
        values, rows = torch.cat(values, 1), torch.cat(rows, 1)
        best = torch.topk(values, args.k, dim=1).indices
        return torch.gather(rows, 1, best).numpy()

    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}" for name in ("queries", "documents", "hits")]
        queries.tofile(paths[0])
        documents.tofile(paths[1])
        ours, peer = [], []
        for _ in range(args.repeats):
            command = [args.search, paths[0], paths[1], str(args.width), str(args.k), "1", paths[2]]
            ours.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            seconds, expected = timed(theirs)
            peer.append(seconds)
        found = np.fromfile(paths[2], dtype="<u4").reshape(args.queries, args.k)
    same = np.mean([len(set(a) & set(b)) / args.k for a, b in zip(found, expected)])
    line(f"search {args.documents} x {args.width}, {args.queries} queries, top {args.k} (same hits {same:.5f})", ours, peer)


def labelled(args, ours):
    """Classification and clustering from files of vectors and labels: (name, ours, mteb's) for each."""
    import json

    import mteb
    from datasets import Dataset, DatasetDict
    from mteb_parity import evaluated

    class Numbered:
        """Texts are row numbers."""

        def __init__(self, *parts):
            self.matrix = np.concatenate(parts)

        def of(self, texts):
            return self.matrix[[int(t) for t in texts]]

    labels = lambda path: json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    work = []
    for train, train_labels, test, test_labels in args.classification:
        x, t, y, ty = np.load(train), np.load(test), labels(train_labels), labels(test_labels)
        known = Numbered(x, t)
        columns = lambda first, labels: Dataset.from_dict({"text": [str(first + i) for i in range(len(labels))], "label": labels})
        table = DatasetDict({"train": columns(0, y), "test": columns(len(x), ty)})

        def mine(x=x, t=t, y=y, ty=ty):
            m = ours.task.ClassificationVectors(train=ours.matrix(x), train_labels=y, test=ours.matrix(t), test_labels=ty)
            return ours.score("CLASSIFICATION", "MTEB_V2", classification=m)

        theirs = lambda table=table, known=known: evaluated("Banking77Classification", table, "test", "default", known)
        work.append((f"classification, 10 x 8-shot of {len(x)}, {len(set(y))} classes", mine, theirs))
    for vectors, names in args.clustering:
        x, y = np.load(vectors), labels(names)
        known = Numbered(x)
        texts = [str(i) for i in range(len(x))]

        def documents(x=x, y=y):
            m = ours.task.ClusteringVectors(vectors=ours.matrix(x), labels=y)
            return ours.score("CLUSTERING", "MTEB_V2", clustering=m, options=ours.task.TaskOptions(max_fraction=1.0))

        def fast(texts=texts, y=y, known=known):
            task = mteb.get_task("TwentyNewsgroupsClustering.v2")
            task.max_fraction_of_documents_to_embed = 1.0
            table = DatasetDict({"test": Dataset.from_dict({"sentences": texts, "labels": y})})
            return evaluated(task, table, "test", "default", known)

        def sets(x=x, y=y):
            m = ours.task.ClusteringVectors(vectors=ours.matrix(x), labels=y, sets=[len(y)])
            return ours.score("CLUSTERING", "MTEB_V2", clustering=m)

        def legacy(texts=texts, y=y, known=known):
            table = DatasetDict({"test": Dataset.from_dict({"sentences": [texts], "labels": [y]})})
            return evaluated("MasakhaNEWSClusteringS2S", {"eng": table}, "test", "eng", known)

        work.append((f"clustering, ten of 16,384 drawn from {len(x)}", documents, fast))
        work.append((f"clustering, one set of {len(x)}", sets, legacy))
    return work


def tasks(args):
    import isomer_client
    from isomer_client.proto.common.v1 import common_pb2
    from isomer_client.proto.eval.v1 import task_pb2
    from mteb_parity import Ours, evaluated, served, split_data
    from datasets import Dataset, DatasetDict

    rng = np.random.default_rng(2)

    class Known:
        def __init__(self, count):
            self.matrix = rng.standard_normal((count, args.width), dtype=np.float32)

        def of(self, texts):
            return self.matrix[[int(t) for t in texts]]

    class Plain(Ours):
        """Messages of the protos, as any client makes them, by the client package's connection."""

        def __init__(self, client):
            self.task, self.common, self.stub = task_pb2, common_pb2, self
            self.Score = client.tasks.score

    with served(args.isomer) as address, isomer_client.Client(address) as client:
        ours = Plain(client)
        pairs = 20_000
        known, first, second = Known(2 * pairs), [str(i) for i in range(pairs)], [str(i + pairs) for i in range(pairs)]
        gold = rng.uniform(0, 5, pairs).round(1).tolist()
        table = DatasetDict({"test": Dataset.from_dict({"sentence1": first, "sentence2": second, "score": gold})})

        def sts():
            return client.tasks.score_pairs(known.of(first), known.of(second), gold, profile="mteb-v2")

        def sts_as_message():
            vectors = ours.task.PairVectors(first=ours.matrix(known.of(first)), second=ours.matrix(known.of(second)), labels=gold)
            return ours.score("STS", "MTEB_V2", pairs=vectors)

        sts_of_mteb = lambda: evaluated("STSBenchmark", table, "test", "default", known)
        queries, each = 2_000, 30
        many = Known(queries * (each + 1))
        asked = [(f"test_query{i}", str(i)) for i in range(queries)]
        documents, judged, ranked = [], {}, {}
        for i in range(queries):
            judged[f"test_query{i}"], ranked[f"test_query{i}"] = {}, []
            for n in range(each):
                id_ = f"{'apositive' if n < 5 else 'negative'}_test_query{i}_{n:05}"
                documents.append((id_, str(queries + i * each + n)))
                judged[f"test_query{i}"][id_] = int(n < 5)
                ranked[f"test_query{i}"].append(id_)
        data = {"default": {"test": split_data(documents, asked, judged, ranked)}}

        def reranking():
            message = ours.task.RerankingVectors
            vectors = message(
                queries=ours.matrix(many.matrix[:queries]),
                documents=ours.matrix(many.matrix[queries:]),
                items=[message.Item(queries=1, positives=5, negatives=each - 5)] * queries,
            )
            return ours.score("RERANKING", "MTEB_V2", reranking=vectors)

        work = labelled(args, ours) + [
            (f"STS, {pairs} pairs", sts, sts_of_mteb),
            (f"STS, {pairs} pairs, as a message", sts_as_message, sts_of_mteb),
            (f"reranking, {queries} x {each}", reranking, lambda: evaluated("AskUbuntuDupQuestions", data, "test", "default", many)),
        ]
        for name, mine, theirs in work:
            times = [(timed(mine)[0], timed(theirs)[0]) for _ in range(args.repeats)]
            line(name, [a for a, _ in times], [b for _, b in times])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", help="the built example `search`; without it search is not timed")
    parser.add_argument("--isomer", help="the isomer binary; without it STS and reranking are not timed")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--k", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    files = ("TRAIN.npy", "LABELS.json", "TEST.npy", "LABELS.json")
    parser.add_argument("--classification", nargs=4, action="append", default=[], metavar=files, help="through mteb's own task too")
    parser.add_argument("--clustering", nargs=2, action="append", default=[], metavar=("VECTORS.npy", "LABELS.json"))
    args = parser.parse_args()
    print("| what | Isomer | peer | times as fast |\n|---|---|---|---|")
    if args.search:
        search(args)
    if args.isomer:
        tasks(args)


if __name__ == "__main__":
    main()
