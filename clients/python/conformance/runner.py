"""Runs the cases of clients/conformance with this client: `runner.py [--asyncio] CASES RESULTS`.

The steps are written once. The blocking client's answers are taken as they are, the other's are
awaited.
"""

import argparse
import asyncio
import contextlib
import hashlib
import inspect
import json
import os
import threading
import time
from concurrent import futures

import isomer_client as ic
from isomer_client.proto.gateway.v1 import provider_pb2 as pr
from isomer_client.proto.eval.v1 import run_pb2


async def got(answer):
    return await answer if inspect.isawaitable(answer) else answer


async def each(answers):
    if hasattr(answers, "__aiter__"):
        async for one in answers:
            yield one
    else:
        for one in answers:
            yield one


def digest(row):
    return hashlib.sha256(row.tobytes()).hexdigest()[:16]


def chosen(step, *names):
    """The arguments that a step names."""
    found = {name: step[name] for name in names if name in step}
    if "timeout_ms" in step:
        found["timeout"] = step["timeout_ms"] / 1000
    return found


ENCODE = ("encoder", "prompt", "prompt_name", "role", "dimensions", "normalise", "dtype", "truncation", "partial")


class Steps:
    """One case's client, and each kind of step as a method."""

    def __init__(self, client, blocking):
        self.client, self.blocking = client, blocking
        self.collections = {}

    def _encode_arguments(self, step):
        arguments = chosen(step, *ENCODE)
        if "collection" in step:
            arguments["collection"] = self.collections.setdefault(step["collection"], ic.Collection(step["collection"]))
        return arguments

    async def encode(self, step):
        found = await got(self.client.encode(step["texts"], **self._encode_arguments(step)))
        vectors = found.vectors
        return {
            "rows": [digest(row) for row in vectors],
            "cols": int(vectors.shape[1]),
            "token_counts": found.token_counts.tolist(),
            "failed": [error.index for error in found.errors],
            "view": vectors.base is not None and not vectors.flags.owndata and not vectors.flags.writeable,
        }

    async def encode_stream(self, step):
        read, rows, at_first, batches = 0, [], None, 0

        def texts():
            nonlocal read
            for text in step["texts"]:
                read += 1
                yield text

        stream = self.client.encode_stream(texts(), **self._encode_arguments(step))
        async for part in each(stream):
            at_first = at_first or read
            batches += 1
            rows += [digest(row) for row in part.vectors]
            if batches == step.get("leave_after"):
                break
        await got(stream.aclose() if hasattr(stream, "aclose") else stream.close())
        return {"rows": rows, "read_at_first": at_first}

    async def encode_tokens(self, step):
        found = await got(self.client.encode_tokens(step["texts"], **self._encode_arguments(step)))
        return {"rows": [digest(row) for rows in found.vectors for row in rows], "counts": [len(rows) for rows in found.vectors]}

    async def encode_outputs(self, step):
        asked = {**self._encode_arguments(step), **chosen(step, "outputs", "max_active_dimensions")}
        found = await got(self.client.encode_outputs(step["texts"], **asked))
        value, spaces = {}, {}
        if found.text_vector is not None:
            value["rows"] = [digest(row) for row in found.text_vector]
            spaces["text_vector"] = found.text_vector.space.digest
        if found.sparse is not None:
            bytes_of = [one.indices.astype("<u4").tobytes() + one.values.astype("<f4").tobytes() for one in found.sparse.vectors]
            value["sparse"] = [hashlib.sha256(one).hexdigest()[:16] for one in bytes_of]
            spaces["sparse"] = found.sparse.space.digest
        if found.token_vectors is not None:
            value["token_rows"] = [digest(row) for rows in found.token_vectors.vectors for row in rows]
            value["counts"] = [len(rows) for rows in found.token_vectors.vectors]
            spaces["token_vectors"] = found.token_vectors.space.digest
        return {**value, "spaces": spaces}

    async def threads(self, step):
        if not self.blocking:
            found = await asyncio.gather(*(self.encode(step) for _ in range(step["threads"])))
            return {"rows": [row for one in found for row in one["rows"]]}
        with futures.ThreadPoolExecutor(step["threads"]) as pool:
            asked = [pool.submit(self.client.encode, step["texts"], encoder=step["encoder"]) for _ in range(step["threads"])]
            return {"rows": [digest(row) for one in asked for row in one.result().vectors]}

    async def fork(self, step):
        # The parent's connection is in use when it forks.
        self.client.encode(step["texts"], encoder=step["encoder"])
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                found = self.client.encode(step["texts"], encoder=step["encoder"], timeout=20)
                os.write(writer, json.dumps([digest(row) for row in found.vectors]).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as file:
            told = file.read()
        os.waitpid(child, 0)
        after = self.client.encode(step["texts"], encoder=step["encoder"])
        return {"rows": [*json.loads(told or "[]"), *(digest(row) for row in after.vectors)]}

    async def encoders(self, step):
        return {"ids": [encoder.id async for encoder in each(self.client.encoders())]}

    async def encoder(self, step):
        found = await got(self.client.encoder(step["encoder"]))
        return {"dimensions": found.dimensions, "prompts": dict(found.prompts)}

    async def count_tokens(self, step):
        return {"token_counts": await got(self.client.count_tokens(step["texts"], encoder=step["encoder"]))}

    async def tokenize(self, step):
        found = await got(self.client.tokenize(step["texts"], encoder=step["encoder"]))
        return {"ids": [[token.id for token in text] for text in found]}

    async def rerank(self, step):
        found = await got(self.client.rerank(step["query"], step["documents"], **chosen(step, "encoder", "top_n")))
        return {"ranking": [[one.index, one.score] for one in found]}

    async def transform(self, step):
        found = await got(self.client.transform(step["texts"], step["transformation"], **chosen(step, "generator")))
        return {"texts": found.texts, "indices": [result.index for result in found]}

    async def transform_stream(self, step):
        stream = self.client.transform_stream(step["texts"], step["transformation"], **chosen(step, "generator"))
        found = sorted([result async for result in each(stream)], key=lambda result: result.index)
        return {"texts": [result.text for result in found], "indices": [result.index for result in found]}

    async def encode_augmented(self, step):
        sources = [ic.Source(**source) for source in step["sources"]]
        arguments = chosen(step, "encoder", "pooling", "original_weight")
        found = await got(self.client.encode_augmented(step["texts"], sources, **arguments))
        return {"rows": [digest(row) for row in found.vectors]}

    async def score_pairs(self, step):
        found = await got(self.client.tasks.score_pairs(step["first"], step["second"], step["labels"], task=step["task"]))
        return {"main_score_key": found.main_score_key, "main_score": found.main_score, "items": found.items}

    async def score_dataset(self, step):
        found = await got(self.client.tasks.score_dataset(step["dataset"], **chosen(step, "encoder", "task", "limit")))
        return {"main_score_key": found.main_score_key, "main_score": found.main_score, "items": found.items}

    async def adjust_p_values(self, step):
        found = await got(self.client.statistics.adjust_p_values(step["p_values"]))
        return {"holm": list(found.holm), "benjamini_hochberg": list(found.benjamini_hochberg)}

    async def compare(self, step):
        found = await got(self.client.statistics.compare(step["reference"], step["treatments"], **chosen(step, "seed")))
        return {"mean_difference": found.comparisons[0].mean_difference, "n": found.comparisons[0].n}

    async def run(self, step):
        runs = self.client.runs
        spec = runs.spec(step["suite"], step["encoders"], **chosen(step, "transformations", "generator", "limit"))
        made, events = await got(runs.create(spec)), []
        ended = await got(runs.wait(made.id, progress=events.append))
        reports = [await got(runs.report(made.id, form)) for form in step["formats"]]
        state = run_pb2.RunState.Name(ended.state).removeprefix("RUN_STATE_")
        return {"state": state, "events": len(events), "reports": sum(bool(report.content and report.media_type) for report in reports)}

    async def create_run(self, step):
        run = await got(self.client.runs.create(self.client.runs.spec(step["suite"], step["encoders"])))
        return {"id": run.id}

    async def watch_run(self, step):
        return {"sequences": [event.sequence async for event in each(self.client.runs.watch(step["id"]))]}

    def _provider(self, step):
        return pr.Provider(id=step["id"], kind=pr.PROVIDER_KIND_ISOMER, address=step["address"], encoders=step["encoders"])

    async def create_provider(self, step):
        made = await got(self.client.providers.create(self._provider(step)))
        return {"id": made.id}

    async def providers(self, step):
        providers, id = self.client.providers, step["id"]
        made = await got(providers.create(self._provider(step)))
        read = await got(providers.get(id))
        listed = [one.id async for one in each(providers.list())]
        changed = await got(providers.update(pr.Provider(id=id, price_per_million_tokens=2.5), ["price_per_million_tokens"]))
        checked = await got(providers.check(id))
        await got(providers.delete(id))
        try:
            await got(providers.get(id))
            deleted = "still there"
        except ic.NotFound as error:
            deleted = error.code.name
        return {
            "created": made.id == read.id == id,
            "listed": id in listed,
            "price": changed.price_per_million_tokens,
            "usable": checked.usable,
            "findings": [f"{one.name}: {one.detail}" for one in checked.findings if not one.passed],
            "deleted": deleted,
        }

    async def list_keys(self, step):
        return {"ids": [key.id async for key in each(self.client.keys.list())]}

    async def create_key(self, step):
        made = await got(self.client.keys.create(step["name"], step["scopes"]))
        return {"id": made.id}

    async def keys(self, step):
        keys = self.client.keys
        made = await got(keys.create(step["name"], step["scopes"]))
        listed = [key.id async for key in each(keys.list())]
        other = type(self.client)(self.client._transport.settings.address, key=made.secret)
        used = await got(other.encode(step["texts"], encoder=step["encoder"]))
        await got(keys.revoke(made.id))
        try:
            await got(other.encode(step["texts"], encoder=step["encoder"]))
            after = "still in force"
        except ic.Unauthenticated as error:
            after = error.reason
        await got(other.close())
        audited = [event.act async for event in each(keys.audit()) if made.id in event.target]
        return {"rows": [digest(row) for row in used.vectors], "listed": made.id in listed, "after": after, "audited": audited}


def described(error):
    return {
        "type": type(error).__name__,
        "too_old": isinstance(error, ic.ClientTooOld),
        "code": error.code.name,
        "reason": error.reason,
        "field": error.field,
        "hint": error.hint,
        "message": error.message,
        "shown": str(error),
        "retry_after_s": error.retry_after,
        "metadata": error.metadata,
    }


class Case:
    def __init__(self, case, blocking):
        self.case, self.blocking, self.tokens_asked = case, blocking, 0

    def _settings(self):
        connect = dict(self.case["connect"])
        settings = {"metadata": connect["metadata"]}
        files = [connect.get(name) for name in ("ca_file", "certificate_file", "key_file")]
        if any(files):
            settings["tls"] = ic.Tls(*files)
        for name in ("key", "in_flight", "batch_items", "batch_bytes"):
            if name in connect:
                settings[name] = connect[name]
        if "timeout_ms" in connect:
            settings["timeout"] = connect["timeout_ms"] / 1000
        if "tokens" in connect:
            settings["token"] = lambda: self._token(connect["tokens"])
        return connect["address"], settings

    def _token(self, tokens):
        self.tokens_asked += 1
        return tokens[min(self.tokens_asked, len(tokens)) - 1]

    async def run(self):
        results = []
        if any(step["op"] == "fork" for step in self.case["steps"]) and not self.blocking:
            return {"skipped": "an AsyncClient belongs to one process and event loop, and says so"}
        client = None
        with traced(self.case["connect"].get("traceparent")):
            for step in self.case["steps"]:
                started = time.monotonic()
                try:
                    if client is None:
                        address, settings = self._settings()
                        client = (ic.Client if self.blocking else ic.AsyncClient)(address, **settings)
                        steps = Steps(client, self.blocking)
                    result = {"ok": await self._step(steps, step)}
                except ic.IsomerError as error:
                    result = {"error": described(error)}
                result["elapsed_ms"] = round(1000 * (time.monotonic() - started))
                if "tokens" in self.case["connect"]:
                    result["tokens_asked"] = self.tokens_asked
                results.append(result)
        if client is not None:
            await got(client.close())
        return {"steps": results}

    async def _step(self, steps, step):
        work = getattr(steps, step["op"])
        if "cancel_after_ms" not in step:
            return await work(step)
        seconds = step["cancel_after_ms"] / 1000
        if self.blocking:
            cancel = ic.Cancel()
            threading.Timer(seconds, cancel.cancel).start()
            with cancel:
                return await work(step)
        task = asyncio.ensure_future(work(step))
        asyncio.get_running_loop().call_later(seconds, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            # asyncio raises this in a cancelled task.
            raise ic.Cancelled("the task was cancelled") from None


@contextlib.contextmanager
def traced(traceparent):
    """The span of that header as OpenTelemetry's current one."""
    if traceparent is None:
        yield
        return
    from opentelemetry import context, propagate, trace
    from opentelemetry.sdk.trace import TracerProvider

    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    token = context.attach(propagate.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--asyncio", action="store_true")
    parser.add_argument("cases")
    parser.add_argument("results")
    arguments = parser.parse_args()
    with open(arguments.cases, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    results = {}
    for case in cases:
        try:
            results[case["id"]] = await asyncio.wait_for(Case(case, not arguments.asyncio).run(), 120)
        except Exception as error:  # A defect of the client: the case fails, the others continue.
            results[case["id"]] = {"failed": f"{type(error).__name__}: {error}"}
    told = {"client": {"name": "isomer-client", "version": ic.__version__}, "results": results}
    with open(arguments.results, "w", encoding="utf-8") as file:
        json.dump(told, file)


asyncio.run(main())
