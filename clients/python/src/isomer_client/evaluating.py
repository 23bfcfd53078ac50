"""Vectors, suites and scores as requests of the evaluation services: pure, the same for both clients."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy.typing as npt

from .errors import InvalidArgument
from .matrix import LargeRequest
from .proto.eval.v1 import run_pb2, statistics_pb2, task_pb2
from .transforming import chosen

Series = Mapping[str, Sequence[float]]
TASKS: Dict[str, int] = {
    name.removeprefix("TASK_TYPE_").lower().replace("_", "-"): number
    for name, number in task_pb2.TaskType.items()
    if number != task_pb2.TASK_TYPE_UNSPECIFIED
}
PROFILES = {
    "mteb-v2": task_pb2.METRIC_PROFILE_MTEB_V2,
    "mteb-v1": task_pb2.METRIC_PROFILE_MTEB_V1,
    "hteb": task_pb2.METRIC_PROFILE_HTEB,
}
ALTERNATIVES = {
    "two-sided": statistics_pb2.ALTERNATIVE_TWO_SIDED,
    "greater": statistics_pb2.ALTERNATIVE_GREATER,
    "less": statistics_pb2.ALTERNATIVE_LESS,
}
HISTORY_QUANTITIES = {
    "total": run_pb2.HISTORY_QUANTITY_TOTAL,
    "original": run_pb2.HISTORY_QUANTITY_ORIGINAL,
}
HISTORY_REFERENCES = {
    "baseline": run_pb2.HISTORY_REFERENCE_BASELINE,
    "first": run_pb2.HISTORY_REFERENCE_FIRST,
}
FORMATS = {
    "json": run_pb2.REPORT_FORMAT_JSON,
    "markdown": run_pb2.REPORT_FORMAT_MARKDOWN,
    "html": run_pb2.REPORT_FORMAT_HTML,
    "junit": run_pb2.REPORT_FORMAT_JUNIT,
    "items": run_pb2.REPORT_FORMAT_ITEMS,
}
STATISTICS = {
    name.removeprefix("BOOTSTRAP_STATISTIC_").lower().replace("_", "-"): number
    for name, number in statistics_pb2.BootstrapStatistic.items()
    if number
}
BOOTSTRAPS = {"percentile": statistics_pb2.BOOTSTRAP_METHOD_PERCENTILE, "bca": statistics_pb2.BOOTSTRAP_METHOD_BCA}
PAIRED_TESTS = {
    name.removeprefix("PAIRED_TEST_").lower().replace("_", "-"): number for name, number in statistics_pb2.PairedTest.items() if number
}


def score(task: Optional[str], profile: Optional[str], **parts: Any) -> task_pb2.ScoreRequest:
    return task_pb2.ScoreRequest(task_type=chosen("task", task, TASKS), profile=chosen("profile", profile, PROFILES), **parts)


def pairs(
    task: str, profile: Optional[str], first: npt.ArrayLike, second: npt.ArrayLike, labels: Sequence[float], per_item: bool
) -> LargeRequest[task_pb2.ScoreRequest]:
    request = LargeRequest(score(task, profile, pairs=task_pb2.PairVectors(labels=labels), per_item=per_item))
    request.put(("pairs", "first"), first)
    request.put(("pairs", "second"), second)
    return request


def retrieval(
    profile: Optional[str],
    queries: npt.ArrayLike,
    query_ids: Sequence[str],
    documents: npt.ArrayLike,
    document_ids: Sequence[str],
    judgements: Mapping[str, Mapping[str, int]],
    per_item: bool,
) -> LargeRequest[task_pb2.ScoreRequest]:
    judged = [
        task_pb2.RetrievalVectors.Judgement(query_id=query, document_id=document, relevance=relevance)
        for query, documents_of_it in judgements.items()
        for document, relevance in documents_of_it.items()
    ]
    named = task_pb2.RetrievalVectors(query_ids=query_ids, document_ids=document_ids, judgements=judged)
    request = LargeRequest(score("retrieval", profile, retrieval=named, per_item=per_item))
    request.put(("retrieval", "queries"), queries)
    request.put(("retrieval", "documents"), documents)
    return request


def series(values: Series) -> List[statistics_pb2.ScoreSeries]:
    return [statistics_pb2.ScoreSeries(name=name, values=numbers) for name, numbers in values.items()]


def one_series(values: Union[Series, Sequence[float]], name: str) -> statistics_pb2.ScoreSeries:
    if isinstance(values, Mapping):
        if len(values) != 1:
            raise InvalidArgument(f"{name} has {len(values)} series", field=name, reason="INVALID_ARGUMENT", hint="give one")
        return series(values)[0]
    return statistics_pb2.ScoreSeries(name=name, values=values)


def suite(source: Union[str, "os.PathLike[str]"]) -> run_pb2.SuiteRef:
    """A suite that ships with Isomer by its name, or a suite file, which is sent as its text."""
    if isinstance(source, str) and not source.endswith(".toml"):
        return run_pb2.SuiteRef(builtin=source)
    path = pathlib.Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"suite cannot be read: {error}", field="suite", hint="give a suite's name, or a file that is there") from error
    return run_pb2.SuiteRef(toml=text, file_name=path.name, base_dir=str(path.resolve().parent))
