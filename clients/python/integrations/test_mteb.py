"""mteb runs the encoder unchanged; its scores are those that the server computes of the same data."""

from __future__ import annotations

import csv
import gzip
import json
import pathlib
from typing import Any, Dict, List

import numpy as np
import pytest

mteb = pytest.importorskip("mteb")
import datasets
from isomer_client import Source
from isomer_client.integrations.mteb import IsomerCrossEncoder, IsomerEncoder
from isomer_client.integrations.vectors import Gase
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

ROOT = pathlib.Path(__file__).resolve().parents[3]


def quick_rows() -> List[Dict[str, Any]]:
    """The pairs of the data set `quick/sts`, which ships with Isomer."""
    folder = ROOT / "crates/datasets/quick"
    path = next(path for path in sorted(folder.rglob("*")) if "sts" in str(path.relative_to(folder)) and path.is_file())
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as file:
        if ".jsonl" in path.name:
            return [json.loads(line) for line in file if line.strip()]
        return list(csv.DictReader(file, delimiter="\t" if ".tsv" in path.name else ","))


class QuickSts(AbsTaskSTS):
    metadata = TaskMetadata(
        name="QuickSts",
        dataset={"path": "local/quick", "revision": "1"},
        description="pairs that ship with Isomer",
        reference=None,
        type="STS",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
        date=None,
        domains=None,
        task_subtypes=None,
        license=None,
        annotations_creators=None,
        dialect=None,
        sample_creation=None,
        bibtex_citation=None,
    )
    min_score = 0
    max_score = 5

    def load_data(self, *_: Any, **__: Any) -> None:
        rows = [{"sentence1": row["sentence1"], "sentence2": row["sentence2"], "score": float(row["score"])} for row in quick_rows()]
        self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_list(rows)})
        self.data_loaded = True


def evaluated(model: Any) -> Any:
    results = mteb.evaluate(model, [QuickSts()], cache=None, overwrite_strategy="always")
    return results.task_results[0].scores["test"][0]


def test_mteb_evaluates_it_and_the_server_scores_the_same(client: Any) -> None:
    scores = evaluated(IsomerEncoder("tiny", client))
    due = client.tasks.score_dataset("quick/sts", encoder="tiny", task="sts")
    assert scores["main_score"] == pytest.approx(due.main_score, abs=1e-6)
    assert scores["cosine_pearson"] == pytest.approx(due.scores["cosine_pearson"], abs=1e-6)


def test_gase_changes_the_scores_and_the_name(client: Any) -> None:
    plain = IsomerEncoder("tiny", client)
    augmented = IsomerEncoder("tiny", client, gase=Gase([Source("stopword_removal")], queries_only=False))
    assert augmented.mteb_model_meta.name == f"{plain.mteb_model_meta.name}-gase"
    assert evaluated(augmented)["main_score"] != evaluated(plain)["main_score"]


def test_a_cross_encoder_scores_pairs_in_their_order(client: Any) -> None:
    queries, documents = ["roses", "roses", "trains"], ["The gardener watered the roses.", "Our train.", "Our train."]
    model = IsomerCrossEncoder("reranker", client)
    batches = [{"text": queries[:2]}, {"text": queries[2:]}], [{"text": documents[:1]}, {"text": documents[1:]}]
    found = model.predict(*batches, task_metadata=QuickSts.metadata, hf_split="test", hf_subset="default")
    due = [client.rerank(query, [document], encoder="reranker")[0].score for query, document in zip(queries, documents)]
    np.testing.assert_array_equal(found, np.array(due, np.float32))
