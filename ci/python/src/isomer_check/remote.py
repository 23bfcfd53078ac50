"""A check through a gateway, without the `isomer` command."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import grpc
from isomer_client import Client, IsomerError
from isomer_client.proto.eval.v1 import run_pb2

from .errors import CheckError, DependencyFailed, UsageError, is_expected
from .request import OnProgress, Progress, Request, name

__tracebackhide__ = is_expected

# As the command: an error in the request is a usage error; one in a file or a model that it names
# is not.
USAGE = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.ALREADY_EXISTS)
UNDECIDED = {"block": run_pb2.GATE_UNDECIDED_BLOCK, "warn": run_pb2.GATE_UNDECIDED_WARN, "fail": run_pb2.GATE_UNDECIDED_FAIL}
FORMS = ("json", "html", "markdown", "junit")


def run(client: Client, request: Request, progress: Optional[OnProgress]) -> Tuple[int, Dict[str, bytes]]:
    """The exit code that the command would have, and every form of the report."""
    for model in [*request.models, *filter(None, [request.baseline])]:
        if name(model) != model:
            raise UsageError(f"model is `{model}`: the command names folders; a gateway has the encoders and names of its configuration")
    try:
        created = client.runs.create(_spec(client, request))
        try:
            ended = client.runs.wait(created.id, progress=None if progress is None else lambda event: progress(_step(event)))
        except BaseException:
            _cancel(client, created.id)
            raise
        if ended.state != run_pb2.RUN_STATE_SUCCEEDED:
            raise _failed(ended)
        forms = {form: client.runs.report(created.id, form).content for form in FORMS}
    except IsomerError as error:
        raise _refused(error) from error
    return exit_code(ended), forms


def exit_code(ended: run_pb2.Run) -> int:
    """Exit code of `isomer check` after this run."""
    if not ended.blocked:
        return 0
    if ended.verdict == run_pb2.VERDICT_INVALID:
        return 4
    return 4 if ended.verdict == run_pb2.VERDICT_UNDECIDED and ended.undecided != run_pb2.GATE_UNDECIDED_FAIL else 1


def _spec(client: Client, request: Request) -> run_pb2.RunSpec:
    spec = client.runs.spec(
        request.suite,
        request.models,
        generator=request.generator or "",
        transformations=request.transformations,
        seeds=request.seeds,
        limit=request.limit,
        baseline=request.baseline or "",
    )
    spec.gate.rules.extend(rule.message() for rule in request.rules)
    spec.gate.without_suite_rules = not request.suite_rules
    if request.undecided is not None:
        spec.gate.undecided = UNDECIDED[request.undecided]
    return spec


def _step(event: run_pb2.WatchRunResponse) -> Progress:
    if not event.HasField("progress"):
        return Progress("", detail=event.message)
    one = event.progress
    remaining = one.remaining.ToNanoseconds() / 1e9 if one.HasField("remaining") else None
    stage = run_pb2.Stage.Name(one.stage).removeprefix("STAGE_").lower()
    return Progress(stage, one.done, one.total, one.cached, remaining, one.detail)


def _cancel(client: Client, id: str) -> None:
    try:
        client.runs.cancel(id, "the caller ended the check", timeout=10)
    except IsomerError:
        # The caller should see the error that ended the check.
        pass


def _failed(ended: run_pb2.Run) -> CheckError:
    if ended.state == run_pb2.RUN_STATE_CANCELLED:
        return DependencyFailed(f"the run was cancelled: {ended.error or 'no reason was given'}")
    if ended.state != run_pb2.RUN_STATE_FAILED:
        return DependencyFailed(f"the server closed the stream before run {ended.id} ended")
    usage = ended.error_code in {code.value[0] for code in USAGE}
    return (UsageError if usage else DependencyFailed)(ended.error)


def _refused(error: IsomerError) -> CheckError:
    names_a_file = error.reason == "BROKEN_DATASET" or error.reason.startswith("MODEL")
    is_unknown = error.code == grpc.StatusCode.NOT_FOUND and (error.reason.startswith("UNKNOWN_") or error.reason == "MODEL_PATH_MISSING")
    usage = is_unknown or (error.code in USAGE and not names_a_file)
    return (UsageError if usage else DependencyFailed)(str(error))
