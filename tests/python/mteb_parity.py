"""Whole data sets scored twice from the same vectors: by Isomer (TaskService.Score) and by mteb's own task classes.

    pip install -r tests/python/requirements.txt mteb==2.20.0 scikit-learn==1.8.0
    python tests/python/mteb_parity.py --isomer target/release/isomer --data ../shared/data --cache .vectors

Every text is encoded once with `isomer embed` and its vector kept below --cache. mteb runs its real task class (its
sampling, evaluators, rounding) with a model that looks vectors up. Prints a table: task, profile, ours, mteb's, difference.
Exits with 1 if a main score differs by more than --tolerance (default 5e-5: four decimals).
"""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import warnings

import numpy as np
from isomer_stubs import CheckFailed, channel, expect, generated_stubs

warnings.filterwarnings("ignore")


def named(profile):
    """A profile as the command line spells it."""
    return profile.lower().replace("_", "-")


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


# ----------------------------------------------------------------------------------------------------------
# vectors


class Vectors:
    """Vectors by text, made by `isomer embed` and kept on disk."""

    def __init__(self, isomer, model, cache):
        self.isomer, self.model = isomer, model
        self.folder = pathlib.Path(cache) / model.replace("/", "_")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.by_text = {}

    def load(self, name, texts):
        """Loads or makes the vectors of a data set's texts."""
        distinct = sorted(set(texts))
        digest = hashlib.sha256("\0".join(distinct).encode()).hexdigest()[:16]
        path = self.folder / f"{name}-{digest}.npy"
        if not path.exists():
            started = time.time()
            listed, made = path.with_suffix(".jsonl"), path.with_suffix(".part.npy")
            listed.write_text("".join(json.dumps({"text": t}) + "\n" for t in distinct), encoding="utf-8")
            command = [self.isomer, "embed", "--model", self.model, "--input", str(listed), "--output", str(made)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            made.rename(path)
            listed.unlink()
            print(f"{name}: {len(distinct)} texts encoded in {time.time() - started:.0f} s", file=sys.stderr)
        found = np.load(path)
        expect(len(found) == len(distinct), f"{path}: {len(found)} vectors for {len(distinct)} texts; delete it")
        self.by_text.update(zip(distinct, found))
        # mteb strips documents; tokenizers do not see white space at the ends of a text, so the
        # vector is the same.
        for text, vector in zip(distinct, found):
            self.by_text.setdefault(text.strip(), vector)

    def of(self, texts):
        return np.stack([self.by_text[t] for t in texts]).astype(np.float32)


# -------------------------------------------------------------------------------------------------------------
# ours


class Ours:
    """Isomer's TaskService."""

    def __init__(self, stubs, address):
        self.task, self.common = stubs.message("isomer/eval/v1/task"), stubs.message("isomer/common/v1/common")
        self.stub = stubs.grpc("isomer/eval/v1/task").TaskServiceStub(channel(address))

    def matrix(self, vectors):
        vectors = np.ascontiguousarray(vectors, dtype="<f4")
        return self.common.Matrix(
            rows=vectors.shape[0], cols=vectors.shape[1], dtype=self.common.DTYPE_F32, data=vectors.tobytes()
        )

    def score(self, task, profile, **fields):
        request = self.task.ScoreRequest(
            task_type=getattr(self.task, f"TASK_TYPE_{task}"),
            profile=getattr(self.task, f"METRIC_PROFILE_{profile}"),
            **fields,
        )
        return self.stub.Score(request, timeout=600)


# ------------------------------------------------------------------------------------------------------------
# mteb


class Lookup:
    """A model for mteb that knows the vectors of all texts."""

    def __init__(self, vectors):
        from mteb.models.model_meta import ModelMeta
        from mteb.similarity_functions import cos_sim, pairwise_cos_sim

        self.vectors, self.similarity, self.similarity_pairwise = vectors, cos_sim, pairwise_cos_sim
        self.mteb_model_meta = ModelMeta.create_empty({"name": "isomer/lookup", "revision": "1"})

    def encode(self, inputs, **_):
        return self.vectors.of([text for batch in inputs for text in batch["text"]])


def evaluated(name, data, split, subset, vectors):
    """Main and all scores of mteb's own task class on our vectors."""
    import mteb

    task = mteb.get_task(name) if isinstance(name, str) else name
    task.dataset = data
    task.data_loaded = True
    scores = task.evaluate(Lookup(vectors), split, [subset], encode_kwargs={"batch_size": 512})[subset]
    return scores


def split_data(corpus, queries, judged, ranked=None):
    from datasets import Dataset
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

    return RetrievalSplitData(
        corpus=Dataset.from_list([{"id": i, "title": "", "text": t} for i, t in corpus]),
        queries=Dataset.from_list([{"id": i, "text": t} for i, t in queries]),
        relevant_docs=judged,
        top_ranked=ranked,
    )


# -----------------------------------------------------------------------------------------------------------
# cases


@dataclasses.dataclass
class Case:
    """A data set: its texts, and both scores for each profile."""

    name: str
    texts: list
    # Yields (profile, metric key, ours, mteb's).
    compare: object


def sts(name, task, path, subset="default", split="test"):
    data = rows(path)
    first, second = [r["sentence1"] for r in data], [r["sentence2"] for r in data]
    gold = [float(r["score"]) for r in data]

    def compare(ours, vectors):
        from datasets import Dataset, DatasetDict

        table = DatasetDict({split: Dataset.from_dict({"sentence1": first, "sentence2": second, "score": gold})})
        theirs = evaluated(task, table if subset == "default" else {subset: table}, split, subset, vectors)
        m = ours.task.PairVectors(first=ours.matrix(vectors.of(first)), second=ours.matrix(vectors.of(second)), labels=gold)
        mine = ours.score("STS", "MTEB_V2", pairs=m)
        for key in ("cosine_spearman", "cosine_pearson", "euclidean_spearman", "manhattan_spearman"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]
        for profile in ("MTEB_V1", "HTEB"):
            yield named(profile), "cosine_spearman", ours.score("STS", profile, pairs=m).main_score, theirs["cosine_spearman"]

    return Case(name, first + second, compare)


def pairs(name, task, path, subset, split="test"):
    data = rows(path)
    first, second = [r["sentence1"] for r in data], [r["sentence2"] for r in data]
    labels = [int(r["label"]) for r in data]

    def compare(ours, vectors):
        from datasets import Dataset, DatasetDict

        columns = {"sentence1": first, "sentence2": second, "labels": labels}
        table = DatasetDict({split: Dataset.from_dict(columns)})
        theirs = evaluated(task, {subset: table}, split, subset, vectors)
        m = ours.task.PairVectors(first=ours.matrix(vectors.of(first)), second=ours.matrix(vectors.of(second)), labels=labels)
        mine = ours.score("PAIR_CLASSIFICATION", "MTEB_V2", pairs=m)
        for key in ("max_ap", "cosine_ap", "max_accuracy", "max_f1"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]
        for profile in ("MTEB_V1", "HTEB"):
            other = ours.score("PAIR_CLASSIFICATION", profile, pairs=m)
            yield named(profile), other.main_score_key, other.main_score, theirs[other.main_score_key]

    return Case(name, first + second, compare)


def nfcorpus(folder):
    corpus = [(r["_id"], f"{r.get('title') or ''} {r['text']}".strip()) for r in rows(folder / "corpus.jsonl")]
    queries = [(r["_id"], r["text"]) for r in rows(folder / "queries.jsonl")]
    judged = {}
    for line in (folder / "qrels/test.tsv").read_text().splitlines():
        query, document, grade = line.split("\t")
        if grade.strip().lstrip("-").isdigit():
            judged.setdefault(query, {})[document] = int(grade)
    return corpus, [q for q in queries if q[0] in judged], judged


def retrieval(name, folder):
    corpus, queries, judged = nfcorpus(folder)

    def compare(ours, vectors):
        theirs = evaluated("NFCorpus", {"default": {"test": split_data(corpus, queries, judged)}}, "test", "default", vectors)
        message = ours.task.RetrievalVectors
        m = message(
            queries=ours.matrix(vectors.of([t for _, t in queries])),
            query_ids=[i for i, _ in queries],
            documents=ours.matrix(vectors.of([t for _, t in corpus])),
            document_ids=[i for i, _ in corpus],
            judgements=[
                message.Judgement(query_id=q, document_id=d, relevance=g) for q, ds in judged.items() for d, g in ds.items()
            ],
        )
        mine = ours.score("RETRIEVAL", "MTEB_V2", retrieval=m)
        for key in ("ndcg_at_10", "map_at_100", "recall_at_100", "mrr_at_10", "nauc_ndcg_at_10_diff1"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]

    return Case(name, [t for _, t in corpus] + [t for _, t in queries], compare)


def reranking(name, folder):
    """NFCorpus made into a reranking task: the judged documents of a query, and forty others."""
    corpus, queries, judged = nfcorpus(folder)
    ids, text_of = [i for i, _ in corpus], dict(corpus)
    items = []
    for n, (query, text) in enumerate(queries):
        positive = [d for d, g in judged[query].items() if g > 0][:20]
        taken = set(judged[query])
        others = [ids[(n * 37 + k * 91) % len(ids)] for k in range(60)]
        negative = list(dict.fromkeys(d for d in others if d not in taken))[:40]
        items.append((query, text, [text_of[d] for d in positive], [text_of[d] for d in negative]))

    def compare(ours, vectors):
        from sklearn.metrics import average_precision_score
        from mteb.similarity_functions import cos_sim

        documents, judged_, ranked, asked = [], {}, {}, []
        for n, (query, text, positive, negative) in enumerate(items):
            asked.append((f"test_query{n}", text))
            judged_[f"test_query{n}"], ranked[f"test_query{n}"] = {}, []
            for kind, texts, grade in (("apositive", positive, 1), ("negative", negative, 0)):
                for i, document in enumerate(texts):
                    id_ = f"{kind}_test_query{n}_{i:05}"
                    documents.append((id_, document))
                    judged_[f"test_query{n}"][id_] = grade
                    ranked[f"test_query{n}"].append(id_)
        data = {"default": {"test": split_data(documents, asked, judged_, ranked)}}
        theirs = evaluated("AskUbuntuDupQuestions", data, "test", "default", vectors)
        message = ours.task.RerankingVectors
        m = message(
            queries=ours.matrix(vectors.of([q[1] for q in items])),
            documents=ours.matrix(vectors.of([t for q in items for t in q[2] + q[3]])),
            items=[message.Item(queries=1, positives=len(q[2]), negatives=len(q[3])) for q in items],
        )
        mine = ours.score("RERANKING", "MTEB_V2", reranking=m)
        for key in ("map_at_1000", "mrr_at_10", "ndcg_at_10", "nauc_map_at_1000_max"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]
        by_hand = [
            average_precision_score(
                [1] * len(p) + [0] * len(n), cos_sim(vectors.of([t]), vectors.of(p + n)).numpy()[0]
            )
            for _, t, p, n in items
        ]
        for profile in ("MTEB_V1", "HTEB"):
            yield named(profile), "map", ours.score("RERANKING", profile, reranking=m).scores["map"], float(np.mean(by_hand))

    return Case(name, [t for _, t in corpus] + [t for _, t in queries], compare)


def summarisation(name, path):
    data = rows(path)

    def compare(ours, vectors):
        from datasets import Dataset, DatasetDict
        from mteb.similarity_functions import cos_sim
        from scipy.stats import spearmanr

        keys = ("text", "human_summaries", "machine_summaries", "relevance")
        table = DatasetDict({"test": Dataset.from_dict({k: [r[k] for r in data] for k in keys})})
        message = ours.task.SummarisationVectors
        m = message(
            human=ours.matrix(vectors.of([t for r in data for t in r["human_summaries"]])),
            machine=ours.matrix(vectors.of([t for r in data for t in r["machine_summaries"]])),
            texts=[message.Text(human=len(r["human_summaries"]), relevance=r["relevance"]) for r in data],
        )
        for profile, task in (("MTEB_V2", "SummEvalSummarization.v2"), ("MTEB_V1", "SummEval")):
            theirs = evaluated(task, table, "test", "default", vectors)
            mine = ours.score("SUMMARISATION", profile, summarisation=m)
            yield named(profile), "cosine_spearman", mine.main_score, theirs["cosine_spearman"]
        best = lambda r: cos_sim(vectors.of(r["machine_summaries"]), vectors.of(r["human_summaries"])).numpy().max(axis=1)
        pooled = spearmanr([g for r in data for g in r["relevance"]], np.concatenate([best(r) for r in data])).statistic
        yield "hteb", "cosine_spearman", ours.score("SUMMARISATION", "HTEB", summarisation=m).main_score, float(pooled)

    return Case(name, [t for r in data for t in r["human_summaries"] + r["machine_summaries"]], compare)


def clsd(name, path, subset):
    data = rows(path)

    def compare(ours, vectors):
        corpus, queries, judged = [], [], {}
        for n, r in enumerate(data, 1):
            queries.append((f"Q{n}", r["source"]))
            judged[f"Q{n}"] = {}
            for text in [r["target"], *r["distractors"]]:
                corpus.append((f"D{len(corpus) + 1}", text))
                if text == r["target"]:
                    judged[f"Q{n}"][corpus[-1][0]] = 1
        data_ = {subset: {"test": split_data(corpus, queries, judged)}}
        theirs = evaluated("CrossLingualSemanticDiscriminationWMT19", data_, "test", subset, vectors)
        others = [(t, r["target"]) for r in data for t in r["distractors"]]
        sources, targets = vectors.of([r["source"] for r in data]), vectors.of([r["target"] for r in data])
        m = ours.task.ClsdVectors(
            sources=ours.matrix(sources),
            targets=ours.matrix(targets),
            distractors=ours.matrix(vectors.of([t for t, _ in others])),
            counts=[len(r["distractors"]) for r in data],
            same_as_target=[i for i, (t, target) in enumerate(others) if t == target],
        )
        mine = ours.score("CLSD", "MTEB_V2", clsd=m)
        for key in ("recall_at_1", "ndcg_at_10"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]
        unit = lambda v: v / np.linalg.norm(v, axis=-1, keepdims=True)
        own = np.sum(unit(sources) * unit(targets), axis=1)
        best = [np.max(unit(vectors.of(r["distractors"])) @ unit(s)) for s, r in zip(sources, data)]
        by_hand = float(np.mean(own > np.array(best)))
        yield "hteb", "candidates_precision_at_1", mine.scores["candidates_precision_at_1"], by_hand

    return Case(name, [t for r in data for t in [r["source"], r["target"], *r["distractors"]]], compare)


def bitext(name, path):
    """The sources and targets of CLSD as a bitext."""
    data = rows(path)
    first, second = [r["source"] for r in data], [r["target"] for r in data]

    def compare(ours, vectors):
        from datasets import Dataset, DatasetDict
        import mteb

        task = mteb.get_task("Tatoeba")
        subset = task.hf_subsets[0]
        table = DatasetDict({"test": Dataset.from_dict({"sentence1": first, "sentence2": second})})
        theirs = evaluated(task, {subset: table}, "test", subset, vectors)
        m = ours.task.PairVectors(first=ours.matrix(vectors.of(first)), second=ours.matrix(vectors.of(second)))
        mine = ours.score("BITEXT", "MTEB_V2", pairs=m)
        for key in ("f1", "precision", "accuracy"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]

    return Case(name, first + second, compare)


def classification(name, task, train_path, test_path, subset="default"):
    train, test = rows(train_path), rows(test_path)

    def compare(ours, vectors):
        from datasets import Dataset, DatasetDict
        import mteb
        from sklearn.linear_model import LogisticRegression

        columns = lambda data: Dataset.from_dict({"text": [r["text"] for r in data], "label": [r["label"] for r in data]})
        table = DatasetDict({"train": columns(train), "test": columns(test)})
        chosen = mteb.get_task(task)
        theirs = evaluated(chosen, table if subset == "default" else {subset: table}, "test", subset, vectors)
        of = lambda data: vectors.of([r["text"] for r in data])
        labels = lambda data: [str(r["label"]) for r in data]
        m = ours.task.ClassificationVectors(
            train=ours.matrix(of(train)), train_labels=labels(train), test=ours.matrix(of(test)), test_labels=labels(test)
        )
        options = ours.task.TaskOptions(samples_per_label=chosen.samples_per_label)
        mine = ours.score("CLASSIFICATION", "MTEB_V2", classification=m, options=options)
        for key in ("accuracy", "f1", "f1_weighted"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]
        fit = LogisticRegression(random_state=1337, max_iter=100).fit(of(train), labels(train))
        by_hand = float(np.mean(fit.predict(of(test)) == np.array(labels(test))))
        yield "hteb", "accuracy", ours.score("CLASSIFICATION", "HTEB", classification=m).main_score, by_hand

    return Case(name, [r["text"] for r in train + test], compare)


def clustering(name, path, subset):
    data = rows(path)
    texts, labels = [r["text"] for r in data], [str(r["label"]) for r in data]

    def compare(ours, vectors):
        from datasets import Dataset, DatasetDict
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import v_measure_score

        table = DatasetDict({"test": Dataset.from_dict({"sentences": [texts], "labels": [labels]})})
        theirs = evaluated("MasakhaNEWSClusteringS2S", {subset: table}, "test", subset, vectors)
        m = ours.task.ClusteringVectors(vectors=ours.matrix(vectors.of(texts)), labels=labels, sets=[len(texts)])
        mine = ours.score("CLUSTERING", "MTEB_V2", clustering=m)
        yield "mteb-v2", "v_measure", mine.scores["v_measure"], theirs["v_measure"]
        yield "mteb-v1", "v_measure", ours.score("CLUSTERING", "MTEB_V1", clustering=m).main_score, theirs["v_measure"]
        runs = []
        for seed in (1337, 1338, 1339):
            kmeans = MiniBatchKMeans(n_clusters=len(set(labels)), batch_size=500, n_init="auto", random_state=seed)
            runs.append(v_measure_score(labels, kmeans.fit(vectors.of(texts)).labels_))
        yield "hteb", "v_measure", ours.score("CLUSTERING", "HTEB", clustering=m).main_score, float(np.mean(runs))

    return Case(name, texts, compare)


def fast_clustering(name, path):
    """The same texts through mteb's current form of clustering; half of the documents, so that their random choice matters."""
    data = rows(path)
    texts, labels = [r["text"] for r in data], [str(r["label"]) for r in data]

    def compare(ours, vectors):
        from datasets import Dataset, DatasetDict
        import mteb

        task = mteb.get_task("TwentyNewsgroupsClustering.v2")
        task.max_fraction_of_documents_to_embed = 0.5
        table = DatasetDict({"test": Dataset.from_dict({"sentences": texts, "labels": labels})})
        theirs = evaluated(task, table, "test", "default", vectors)
        m = ours.task.ClusteringVectors(vectors=ours.matrix(vectors.of(texts)), labels=labels)
        mine = ours.score("CLUSTERING", "MTEB_V2", clustering=m, options=ours.task.TaskOptions(max_fraction=0.5))
        for key in ("v_measure", "v_measure_std"):
            yield "mteb-v2", key, mine.scores[key], theirs[key]

    return Case(name, texts, compare)


def cases(root):
    """Every case whose files exist, the fastest to encode first."""
    made = [
        ("STSBenchmark", lambda p: sts("STSBenchmark", "STSBenchmark", p), "STSBenchmark/test.jsonl"),
        ("STS17 (en-en)", lambda p: sts("STS17 (en-en)", "STS17", p, "en-en"), "STS17/test.en-en.jsonl"),
        ("STS17 (en-ar)", lambda p: sts("STS17 (en-ar)", "STS17", p, "en-ar"), "STS17/test.en-ar.jsonl"),
        ("STS17 (es-es)", lambda p: sts("STS17 (es-es)", "STS17", p, "es-es"), "STS17/test.es-es.jsonl"),
        ("MasakhaNEWS (eng)", lambda p: clustering("MasakhaNEWS (eng)", p, "eng"), "MasakhaNEWSClusteringS2S/test.eng.jsonl"),
        ("MasakhaNEWS (fra)", lambda p: clustering("MasakhaNEWS (fra)", p, "fra"), "MasakhaNEWSClusteringS2S/test.fra.jsonl"),
        ("PawsX (de)", lambda p: pairs("PawsX (de)", "PawsXPairClassification", p, "de"), "PawsXPairClassification/test.de.jsonl"),
        ("AmazonCounterfactual (en)", lambda p: classification("AmazonCounterfactual (en)", "AmazonCounterfactualClassification", p.with_name("train.en.jsonl"), p, "en"), "AmazonCounterfactualClassification/test.en.jsonl"),
        ("SemRel24 (eng)", lambda p: sts("SemRel24 (eng)", "SemRel24STS", p, "eng"), "SemRel24STS/test.eng.jsonl"),
        ("SummEval", lambda p: summarisation("SummEval", p), "SummEval/test.jsonl"),
        ("Banking77", lambda p: classification("Banking77", "Banking77Classification", p.with_name("train.jsonl"), p), "Banking77Classification/test.jsonl"),
        ("CLSD-WMT19 (de-fr)", lambda p: clsd("CLSD-WMT19 (de-fr)", p, "deu-fra"), "CLSD-WMT19/de-fr.jsonl"),
        ("CLSD-WMT19 as bitext", lambda p: bitext("CLSD-WMT19 as bitext", p), "CLSD-WMT19/de-fr.jsonl"),
        ("SICK-R", lambda p: sts("SICK-R", "SICK-R", p), "SICK-R/test.jsonl"),
        ("NFCorpus", lambda p: retrieval("NFCorpus", p.parent), "NFCorpus/corpus.jsonl"),
        ("NFCorpus as reranking", lambda p: reranking("NFCorpus as reranking", p.parent), "NFCorpus/corpus.jsonl"),
    ]
    for language in ("ar-ar", "en-tr", "es-en"):
        name = f"STS17 ({language})"
        made.append((name, lambda p, n=name, l=language: sts(n, "STS17", p, l), f"STS17/test.{language}.jsonl"))
    for language in ("arb", "hau", "hin"):
        name = f"SemRel24 ({language})"
        made.append((name, lambda p, n=name, l=language: sts(n, "SemRel24STS", p, l), f"SemRel24STS/test.{language}.jsonl"))
    for language in ("hau", "swa"):
        name = f"MasakhaNEWS ({language})"
        path = f"MasakhaNEWSClusteringS2S/test.{language}.jsonl"
        made.append((name, lambda p, n=name, l=language: clustering(n, p, l), path))
    made.append(("MasakhaNEWS (eng) as documents", lambda p: fast_clustering("MasakhaNEWS (eng) as documents", p), "MasakhaNEWSClusteringS2S/test.eng.jsonl"))
    for language in ("de", "en", "fr", "it"):
        name = f"RTE3 ({language})"
        made.append((name, lambda p, n=name, l=language: pairs(n, "RTE3", p, l), f"RTE3/test.{language}.jsonl"))
    made.append(("PawsX (zh)", lambda p: pairs("PawsX (zh)", "PawsXPairClassification", p, "zh"), "PawsXPairClassification/test.zh.jsonl"))
    for language in ("de", "ja", "en-ext"):
        name, task = f"AmazonCounterfactual ({language})", "AmazonCounterfactualClassification"
        make = lambda p, n=name, l=language: classification(n, task, p.with_name(f"train.{l}.jsonl"), p, l)
        made.append((name, make, f"{task}/test.{language}.jsonl"))
    made.append(("CLSD-WMT19 (fr-de)", lambda p: clsd("CLSD-WMT19 (fr-de)", p, "fra-deu"), "CLSD-WMT19/fr-de.jsonl"))
    for name, make, path in made:
        if (root / path).exists():
            yield name, lambda make=make, path=path: make(root / path)
        else:
            print(f"skipped: no {path}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------------------
# main


@contextlib.contextmanager
def served(isomer):
    """A server of our own on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    # Whole data sets come in one message.
    limits = {"ISOMER_SERVER__LIMITS__MAX_MESSAGE_BYTES": str(1 << 28), "ISOMER_SERVER__LIMITS__MAX_BYTES_IN_FLIGHT": str(1 << 30)}
    process = subprocess.Popen(
        [isomer, "serve", "--listen", address], env=os.environ | limits, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(address.split(":"), timeout=1):
                break
            expect(process.poll() is None, f"{isomer} serve ended with {process.returncode}")
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", default="isomer", help="the isomer binary")
    parser.add_argument("--server", help="a running server to score with, instead of one of our own")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--data", default=os.environ.get("ISOMER_SHARED", "../shared") + "/data", type=pathlib.Path)
    parser.add_argument("--cache", default=".vectors", help="folder for vectors")
    parser.add_argument("--only", nargs="*", help="parts of data set names")
    parser.add_argument("--encode-only", action="store_true")
    parser.add_argument("--tolerance", default=5e-5, type=float)
    args = parser.parse_args()
    vectors = Vectors(args.isomer, args.model, args.cache)
    chosen = [(n, make) for n, make in cases(args.data) if not args.only or any(part in n for part in args.only)]
    if args.encode_only:
        for name, make in chosen:
            vectors.load(name.split(" as ")[0].replace(" ", "_"), make().texts)
        return 0
    worst = 0.0
    failed = []
    print(f"| data set | profile | score | Isomer | reference | difference |\n|---|---|---|---|---|---|", flush=True)
    server = contextlib.nullcontext(args.server) if args.server else served(args.isomer)
    with generated_stubs() as stubs, server as address:
        ours = Ours(stubs, address)
        for name, make in chosen:
            case = make()
            vectors.by_text.clear()
            vectors.load(name.split(" as ")[0].replace(" ", "_"), case.texts)
            for profile, key, mine, theirs in case.compare(ours, vectors):
                difference = abs(mine - theirs)
                worst = max(worst, difference)
                if difference > args.tolerance:
                    failed.append(f"{name} {profile} {key}")
                print(f"| {name} | {profile} | {key} | {mine:.6f} | {theirs:.6f} | {difference:.1e} |", flush=True)
    print(f"\nlargest difference {worst:.1e}", file=sys.stderr)
    for line in failed:
        print(f"differs: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CheckFailed as failure:
        print(f"mteb parity: {failure}", file=sys.stderr)
        sys.exit(1)
