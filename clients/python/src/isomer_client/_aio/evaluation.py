"""Scores, statistics and runs."""

from __future__ import annotations

import os
import uuid
from typing import Any, AsyncIterator, Callable, Mapping, Optional, Sequence, Union

import numpy.typing as npt

from .. import evaluating, methods, results
from ..evaluating import Series
from ..proto.eval.v1 import run_pb2, statistics_pb2, task_pb2
from ..transforming import chosen
from .base import AsyncPart

# The retry policy says how often a broken stream of events is restarted before its error is raised;
# a run itself may take hours.
ENDED = (run_pb2.RUN_STATE_SUCCEEDED, run_pb2.RUN_STATE_FAILED, run_pb2.RUN_STATE_CANCELLED)


class AsyncTasks(AsyncPart):
    """TaskService: vectors, or a data set and an encoder, to scores."""

    def list(self, *, timeout: Optional[float] = None) -> AsyncIterator[task_pb2.TaskInfo]:
        """The kinds of task, with the fields and the main score of each."""
        return self._pages(methods.LIST_TASKS, task_pb2.ListTasksRequest(), timeout, "tasks")

    def datasets(self, *, family: str = "", task: Optional[str] = None, timeout: Optional[float] = None) -> AsyncIterator[task_pb2.DatasetInfo]:
        """The data sets that can be named, of all papers or of one."""
        request = task_pb2.ListDatasetsRequest(family=family, task_type=chosen("task", task, evaluating.TASKS))
        return self._pages(methods.LIST_DATASETS, request, timeout, "datasets")

    async def score(self, request: task_pb2.ScoreRequest, *, timeout: Optional[float] = None) -> task_pb2.ScoreResponse:
        """The scores of any task: the request as the protos have it. `isomer_client.matrix.packed` makes matrices."""
        return await self._call(methods.SCORE, request, timeout)

    async def score_pairs(
        self,
        first: npt.ArrayLike,
        second: npt.ArrayLike,
        labels: Sequence[float] = (),
        *,
        task: str = "sts",
        profile: Optional[str] = None,
        per_item: bool = False,
        timeout: Optional[float] = None,
    ) -> task_pb2.ScoreResponse:
        """Pairs of vectors: `sts` and `pair-classification` with labels, `bitext` without."""
        request = evaluating.pairs(task, profile, first, second, labels, per_item)
        return await self._call(methods.SCORE, request, timeout)

    async def score_retrieval(
        self,
        queries: npt.ArrayLike,
        query_ids: Sequence[str],
        documents: npt.ArrayLike,
        document_ids: Sequence[str],
        judgements: Mapping[str, Mapping[str, int]],
        *,
        profile: Optional[str] = None,
        per_item: bool = False,
        timeout: Optional[float] = None,
    ) -> task_pb2.ScoreResponse:
        """Queries and documents, with judgements as `{query: {document: relevance}}`."""
        request = evaluating.retrieval(profile, queries, query_ids, documents, document_ids, judgements, per_item)
        return await self._call(methods.SCORE, request, timeout)

    async def score_dataset(
        self,
        dataset: Union[str, task_pb2.DatasetRef],
        *,
        encoder: str,
        task: Optional[str] = None,
        profile: Optional[str] = None,
        limit: Optional[int] = None,
        per_item: bool = False,
        timeout: Optional[float] = None,
    ) -> task_pb2.ScoreResponse:
        """A data set, by its name or as a DatasetRef, encoded and scored by the server."""
        named = task_pb2.DatasetRef(named=dataset) if isinstance(dataset, str) else dataset
        inputs = task_pb2.DatasetInput(dataset=named, encoder_id=encoder, limit=limit)
        return await self._call(methods.SCORE, evaluating.score(task, profile, dataset=inputs, per_item=per_item), timeout)


class AsyncStatistics(AsyncPart):
    """StatisticsService. Scores are `{system: [a score of each data set]}`; equal numbers and seeds give equal answers."""

    async def compare(
        self,
        reference: Union[Series, Sequence[float]],
        treatments: Series,
        *,
        alternative: Optional[str] = None,
        resamples: int = 0,
        confidence: float = 0.0,
        seed: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> statistics_pb2.CompareResponse:
        """Each treatment against the reference, paired: shift with interval, signed-rank test, Holm's adjustment."""
        request = statistics_pb2.CompareRequest(
            reference=evaluating.one_series(reference, "reference"),
            treatments=evaluating.series(treatments),
            alternative=chosen("alternative", alternative, evaluating.ALTERNATIVES),
            resamples=resamples,
            confidence=confidence,
            seed=seed,
        )
        return await self._call(methods.COMPARE, request, timeout)

    async def rank_stability(
        self, original: Series, transformed: Series, *, timeout: Optional[float] = None
    ) -> statistics_pb2.RankStabilityResponse:
        """Kendall's tau-b between encoders' scores on originals and on rewrites."""
        request = statistics_pb2.RankStabilityRequest(
            original=evaluating.series(original), transformed=evaluating.series(transformed)
        )
        return await self._call(methods.RANK_STABILITY, request, timeout)

    async def agreement(
        self,
        raters: Series,
        *,
        weights: str = "",
        scale: Sequence[float] = (),
        confidence: float = 0.0,
        timeout: Optional[float] = None,
    ) -> statistics_pb2.AgreementResponse:
        """Agreement of raters; NaN where a rating is missing."""
        rated = [statistics_pb2.AgreementRequest.Rater(name=name, ratings=ratings) for name, ratings in raters.items()]
        request = statistics_pb2.AgreementRequest(raters=rated, weights=weights, scale=scale, confidence=confidence)
        return await self._call(methods.AGREEMENT, request, timeout)

    async def reliability(
        self,
        encoders: Series,
        strata: Sequence[str],
        *,
        splits: int = 0,
        seed: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> statistics_pb2.ReliabilityResponse:
        """Split-half reliability of a profile."""
        request = statistics_pb2.ReliabilityRequest(encoders=evaluating.series(encoders), strata=strata, splits=splits, seed=seed)
        return await self._call(methods.RELIABILITY, request, timeout)

    async def compare_pairs(
        self,
        systems: Series,
        *,
        test: Optional[str] = None,
        alpha: float = 0.0,
        resamples: int = 0,
        confidence: float = 0.0,
        seed: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> statistics_pb2.ComparePairsResponse:
        """Every system against every other, with significance letters."""
        request = statistics_pb2.ComparePairsRequest(
            systems=evaluating.series(systems),
            test=chosen("test", test, evaluating.PAIRED_TESTS),
            alpha=alpha,
            resamples=resamples,
            confidence=confidence,
            seed=seed,
        )
        return await self._call(methods.COMPARE_PAIRS, request, timeout)

    async def compare_ranks(
        self, systems: Series, *, alpha: float = 0.0, timeout: Optional[float] = None
    ) -> statistics_pb2.CompareRanksResponse:
        """Whether systems differ in rank: Friedman's test, Nemenyi's critical difference."""
        request = statistics_pb2.CompareRanksRequest(systems=evaluating.series(systems), alpha=alpha)
        return await self._call(methods.COMPARE_RANKS, request, timeout)

    async def adjust_p_values(
        self, p_values: Sequence[float], *, timeout: Optional[float] = None
    ) -> statistics_pb2.AdjustPValuesResponse:
        """Holm's, and Benjamini and Hochberg's adjustment."""
        request = statistics_pb2.AdjustPValuesRequest(p_values=p_values)
        return await self._call(methods.ADJUST_P_VALUES, request, timeout)

    async def bootstrap(
        self,
        values: Sequence[float],
        *,
        second: Sequence[float] = (),
        statistic: Optional[str] = None,
        method: Optional[str] = None,
        resamples: int = 0,
        confidence: float = 0.0,
        seed: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> statistics_pb2.BootstrapResponse:
        """The bootstrap interval of a statistic, e.g. `mean`, `median`, `hodges-lehmann`, `spearman`."""
        request = statistics_pb2.BootstrapRequest(
            values=values,
            second=second,
            statistic=chosen("statistic", statistic, evaluating.STATISTICS),
            method=chosen("method", method, evaluating.BOOTSTRAPS),
            resamples=resamples,
            confidence=confidence,
            seed=seed,
        )
        return await self._call(methods.BOOTSTRAP, request, timeout)

    async def correlate(
        self,
        x: Sequence[float],
        y: Sequence[float],
        *,
        alternative: Optional[str] = None,
        confidence: float = 0.0,
        resamples: int = 0,
        seed: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> statistics_pb2.CorrelateResponse:
        """Pearson's, Spearman's and Kendall's correlation, with tests and intervals."""
        request = statistics_pb2.CorrelateRequest(
            x=evaluating.one_series(x, "x"),
            y=evaluating.one_series(y, "y"),
            alternative=chosen("alternative", alternative, evaluating.ALTERNATIVES),
            confidence=confidence,
            resamples=resamples,
            seed=seed,
        )
        return await self._call(methods.CORRELATE, request, timeout)

    async def plan_design(
        self, request: statistics_pb2.PlanDesignRequest, *, timeout: Optional[float] = None
    ) -> statistics_pb2.PlanDesignResponse:
        """Computes the effect that a design with given numbers of data sets and seeds can detect."""
        return await self._call(methods.PLAN_DESIGN, request, timeout)


class AsyncRuns(AsyncPart):
    """RunService: robustness checks as long-running work."""

    def spec(
        self,
        suite: Union[str, "os.PathLike[str]"] = "quick",
        encoders: Sequence[str] = (),
        *,
        generator: str = "",
        transformations: Sequence[str] = (),
        seeds: Sequence[int] = (),
        limit: Optional[int] = None,
        baseline: str = "",
    ) -> run_pb2.RunSpec:
        """Specification of a run: a suite by its name or its file, and the encoders.
        Set gate, judge and so on in what it returns."""
        return run_pb2.RunSpec(
            suite=evaluating.suite(suite),
            encoder_ids=encoders,
            generator_id=generator,
            transformations=transformations,
            seeds=seeds,
            limit=limit,
            baseline_encoder_id=baseline,
        )

    async def create(
        self, spec: run_pb2.RunSpec, *, request_id: Optional[str] = None, timeout: Optional[float] = None
    ) -> run_pb2.Run:
        """Starts a run. Repeated, also by a retry, an equal `request_id` gives the run that exists; by default a new one."""
        request = run_pb2.CreateRunRequest(spec=spec, request_id=request_id or str(uuid.uuid4()))
        return (await self._call(methods.CREATE_RUN, request, timeout)).run

    async def plan(
        self, spec: run_pb2.RunSpec, *, power: Optional[float] = None, timeout: Optional[float] = None
    ) -> run_pb2.RunPlan:
        """Estimates what a run would take, before it costs, and how probably its rules decide.

        With `power`, e.g. 0.8, `design` has the items with which an encoder that does not drop passes with this probability.
        """
        request = run_pb2.PlanRunRequest(spec=spec, power=power)
        return (await self._call(methods.PLAN_RUN, request, timeout)).plan

    async def get(self, id: str, *, timeout: Optional[float] = None) -> run_pb2.Run:
        return (await self._call(methods.GET_RUN, run_pb2.GetRunRequest(id=id), timeout)).run

    def list(self, *, timeout: Optional[float] = None) -> AsyncIterator[run_pb2.Run]:
        """Runs, newest first."""
        return self._pages(methods.LIST_RUNS, run_pb2.ListRunsRequest(), timeout, "runs")

    def watch(self, id: str, *, after: int = 0, timeout: Optional[float] = None) -> AsyncIterator[run_pb2.WatchRunResponse]:
        """The run's events from its start, until it ends. A connection that breaks is made again where it stood."""
        request = run_pb2.WatchRunRequest(id=id, after_sequence=after)

        def resume(event: run_pb2.WatchRunResponse) -> None:
            request.after_sequence = event.sequence

        return self._resumed(methods.WATCH_RUN, request, timeout, resume, lambda event: event.HasField("ended"))

    async def wait(
        self, id: str, *, progress: Optional[Callable[[run_pb2.WatchRunResponse], Any]] = None, timeout: Optional[float] = None
    ) -> run_pb2.Run:
        """The run as it ended. `progress` is called with each event on the way."""
        async for event in self.watch(id, timeout=timeout):
            if event.HasField("ended"):
                return event.ended
            if progress is not None:
                progress(event)
        return await self.get(id)

    async def fleet(self, *, timeout: Optional[float] = None) -> run_pb2.GetFleetResponse:
        """The workers that do the work of runs, their lanes, and what the next unit of each run waits for."""
        return await self._call(methods.GET_FLEET, run_pb2.GetFleetRequest(), timeout)

    async def cancel(self, id: str, reason: str = "", *, timeout: Optional[float] = None) -> run_pb2.Run:
        """Stops a run. Finished work stays stored."""
        return (await self._call(methods.CANCEL_RUN, run_pb2.CancelRunRequest(id=id, reason=reason), timeout)).run

    async def delete(self, id: str, *, timeout: Optional[float] = None) -> None:
        """Forgets a run that has ended, its report included."""
        await self._call(methods.DELETE_RUN, run_pb2.DeleteRunRequest(id=id), timeout)

    async def history(
        self,
        encoder: str,
        *,
        suite_digest: str = "",
        of: str = "total",
        against: str = "baseline",
        margin: Optional[float] = None,
        alpha: Optional[float] = None,
        earlier: int = 0,
        timeout: Optional[float] = None,
    ) -> run_pb2.GetHistoryResponse:
        """The releases of an encoder over the runs that are kept: `json`, `markdown` and `html`.

        `of` is `total` (transformed texts) or `original`; releases are held `against` the runs'
        `baseline` or the `first` release; `margin` is in points.
        """
        request = run_pb2.GetHistoryRequest(
            encoder_id=encoder,
            suite_digest=suite_digest,
            of=chosen("of", of, evaluating.HISTORY_QUANTITIES),
            against=chosen("against", against, evaluating.HISTORY_REFERENCES),
            margin=margin,
            alpha=alpha,
            earlier=earlier,
        )
        return await self._call(methods.GET_HISTORY, request, timeout)

    async def report(self, id: str, format: str = "json", *, timeout: Optional[float] = None) -> results.Report:
        """The report of a run that succeeded: `json`, `markdown`, `html` or `junit`."""
        request = run_pb2.GetReportRequest(id=id, format=chosen("format", format, evaluating.FORMATS))
        answer = await self._call(methods.GET_REPORT, request, timeout)
        return results.Report(answer.content, answer.media_type, answer.file_name)
