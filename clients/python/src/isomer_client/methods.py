"""Every rpc of the protos: its messages, and whether it may be made twice. A test compares this with the .proto files."""

from __future__ import annotations

import dataclasses
from typing import Generic, Type, TypeVar

from google.protobuf.message import Message

from .proto.encoder.v1 import encoder_pb2 as en
from .proto.eval.v1 import run_pb2 as ru
from .proto.eval.v1 import statistics_pb2 as st
from .proto.eval.v1 import task_pb2 as ta
from .proto.gateway.v1 import access_pb2 as ac
from .proto.gateway.v1 import provider_pb2 as pr
from .proto.transform.v1 import transform_pb2 as tr

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)


@dataclasses.dataclass(frozen=True)
class Method(Generic[Q, R]):
    """An rpc. `repeatable`: making it twice is the same as making it once."""

    path: str
    request: Type[Q]
    response: Type[R]
    repeatable: bool = True


def _encoder(name: str, request: Type[Q], response: Type[R]) -> Method[Q, R]:
    return Method(f"/isomer.encoder.v1.EncoderService/{name}", request, response)


LIST_ENCODERS = _encoder("ListEncoders", en.ListEncodersRequest, en.ListEncodersResponse)
GET_ENCODER = _encoder("GetEncoder", en.GetEncoderRequest, en.GetEncoderResponse)
ENCODE = _encoder("Encode", en.EncodeRequest, en.EncodeResponse)
ENCODE_STREAM = _encoder("EncodeStream", en.EncodeStreamRequest, en.EncodeStreamResponse)
COUNT_TOKENS = _encoder("CountTokens", en.CountTokensRequest, en.CountTokensResponse)
TOKENIZE = _encoder("Tokenize", en.TokenizeRequest, en.TokenizeResponse)
DETOKENIZE = _encoder("Detokenize", en.DetokenizeRequest, en.DetokenizeResponse)
RERANK = _encoder("Rerank", en.RerankRequest, en.RerankResponse)


def _transform(name: str, request: Type[Q], response: Type[R]) -> Method[Q, R]:
    return Method(f"/isomer.transform.v1.TransformService/{name}", request, response)


LIST_TRANSFORMATIONS = _transform("ListTransformations", tr.ListTransformationsRequest, tr.ListTransformationsResponse)
TRANSFORM = _transform("Transform", tr.TransformRequest, tr.TransformResponse)
TRANSFORM_STREAM = _transform("TransformStream", tr.TransformStreamRequest, tr.TransformStreamResponse)
ESTIMATE = _transform("Estimate", tr.EstimateRequest, tr.EstimateResponse)
INSPECT = _transform("Inspect", tr.InspectRequest, tr.InspectResponse)
JUDGE = _transform("Judge", tr.JudgeRequest, tr.JudgeResponse)
_AUGMENTATION = "/isomer.transform.v1.AugmentationService"
AUGMENT = Method(f"{_AUGMENTATION}/Augment", tr.AugmentRequest, tr.AugmentResponse)
ENCODE_AUGMENTED = Method(f"{_AUGMENTATION}/EncodeAugmented", tr.EncodeAugmentedRequest, tr.EncodeAugmentedResponse)

_TASKS = "/isomer.eval.v1.TaskService"
LIST_TASKS = Method(f"{_TASKS}/ListTasks", ta.ListTasksRequest, ta.ListTasksResponse)
SCORE = Method(f"{_TASKS}/Score", ta.ScoreRequest, ta.ScoreResponse)
LIST_DATASETS = Method(f"{_TASKS}/ListDatasets", ta.ListDatasetsRequest, ta.ListDatasetsResponse)


def _statistics(name: str, request: Type[Q], response: Type[R]) -> Method[Q, R]:
    return Method(f"/isomer.eval.v1.StatisticsService/{name}", request, response)


COMPARE = _statistics("Compare", st.CompareRequest, st.CompareResponse)
RANK_STABILITY = _statistics("RankStability", st.RankStabilityRequest, st.RankStabilityResponse)
AGREEMENT = _statistics("Agreement", st.AgreementRequest, st.AgreementResponse)
RELIABILITY = _statistics("Reliability", st.ReliabilityRequest, st.ReliabilityResponse)
COMPARE_PAIRS = _statistics("ComparePairs", st.ComparePairsRequest, st.ComparePairsResponse)
COMPARE_RANKS = _statistics("CompareRanks", st.CompareRanksRequest, st.CompareRanksResponse)
ADJUST_P_VALUES = _statistics("AdjustPValues", st.AdjustPValuesRequest, st.AdjustPValuesResponse)
BOOTSTRAP = _statistics("Bootstrap", st.BootstrapRequest, st.BootstrapResponse)
CORRELATE = _statistics("Correlate", st.CorrelateRequest, st.CorrelateResponse)
PLAN_DESIGN = _statistics("PlanDesign", st.PlanDesignRequest, st.PlanDesignResponse)


def _run(name: str, request: Type[Q], response: Type[R], repeatable: bool = True) -> Method[Q, R]:
    return Method(f"/isomer.eval.v1.RunService/{name}", request, response, repeatable)


# The client gives each run a `request_id`, by which the server knows a repeated request.
CREATE_RUN = _run("CreateRun", ru.CreateRunRequest, ru.CreateRunResponse)
PLAN_RUN = _run("PlanRun", ru.PlanRunRequest, ru.PlanRunResponse)
GET_RUN = _run("GetRun", ru.GetRunRequest, ru.GetRunResponse)
LIST_RUNS = _run("ListRuns", ru.ListRunsRequest, ru.ListRunsResponse)
WATCH_RUN = _run("WatchRun", ru.WatchRunRequest, ru.WatchRunResponse)
CANCEL_RUN = _run("CancelRun", ru.CancelRunRequest, ru.CancelRunResponse)
DELETE_RUN = _run("DeleteRun", ru.DeleteRunRequest, ru.DeleteRunResponse, repeatable=False)
GET_REPORT = _run("GetReport", ru.GetReportRequest, ru.GetReportResponse)
GET_HISTORY = _run("GetHistory", ru.GetHistoryRequest, ru.GetHistoryResponse)
GET_FLEET = _run("GetFleet", ru.GetFleetRequest, ru.GetFleetResponse)


def _provider(name: str, request: Type[Q], response: Type[R], repeatable: bool = True) -> Method[Q, R]:
    return Method(f"/isomer.gateway.v1.ProviderService/{name}", request, response, repeatable)


CREATE_PROVIDER = _provider("CreateProvider", pr.CreateProviderRequest, pr.CreateProviderResponse, repeatable=False)
GET_PROVIDER = _provider("GetProvider", pr.GetProviderRequest, pr.GetProviderResponse)
LIST_PROVIDERS = _provider("ListProviders", pr.ListProvidersRequest, pr.ListProvidersResponse)
# With an etag a second one would find the first's change and be ABORTED.
UPDATE_PROVIDER = _provider("UpdateProvider", pr.UpdateProviderRequest, pr.UpdateProviderResponse, repeatable=False)
RENEW_LEASE = _provider("RenewLease", pr.RenewLeaseRequest, pr.RenewLeaseResponse)
DELETE_PROVIDER = _provider("DeleteProvider", pr.DeleteProviderRequest, pr.DeleteProviderResponse, repeatable=False)
CHECK_PROVIDER = _provider("CheckProvider", pr.CheckProviderRequest, pr.CheckProviderResponse)


def _access(name: str, request: Type[Q], response: Type[R], repeatable: bool = True) -> Method[Q, R]:
    return Method(f"/isomer.gateway.v1.AccessService/{name}", request, response, repeatable)


CREATE_KEY = _access("CreateKey", ac.CreateKeyRequest, ac.CreateKeyResponse, repeatable=False)
GET_KEY = _access("GetKey", ac.GetKeyRequest, ac.GetKeyResponse)
LIST_KEYS = _access("ListKeys", ac.ListKeysRequest, ac.ListKeysResponse)
UPDATE_KEY = _access("UpdateKey", ac.UpdateKeyRequest, ac.UpdateKeyResponse)
REVOKE_KEY = _access("RevokeKey", ac.RevokeKeyRequest, ac.RevokeKeyResponse)
LIST_AUDIT_EVENTS = _access("ListAuditEvents", ac.ListAuditEventsRequest, ac.ListAuditEventsResponse)
