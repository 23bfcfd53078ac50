"""The pure rules: batches, retries, addresses, roles, spaces, errors."""

from __future__ import annotations

import pickle
from typing import Any, List, Optional, cast

import grpc
import numpy as np
import pytest
from isomer_client import (
    Client,
    Collection,
    InvalidArgument,
    NewKey,
    NotFound,
    OidcClientCredentials,
    ResourceExhausted,
    RetryPolicy,
    SpaceMismatch,
    Tls,
    Token,
    Unavailable,
    VectorSpace,
    administering,
    encoding,
    evaluating,
    matrix,
    transforming,
)
from isomer_client.proto.common.v1 import common_pb2
from isomer_client.proto.encoder.v1 import encoder_pb2
from isomer_client.proto.eval.v1 import task_pb2
from isomer_client.provider import provider_id
from isomer_client.settings import Settings


def batches(texts: List[Any], items: int, size: int) -> List[Any]:
    batcher = encoding.Batcher(items, size)
    found = [batch for batch in map(batcher.push, texts) if batch]
    rest = batcher.rest()
    return [*found, rest] if rest else found


def test_batches_keep_the_order_and_both_bounds() -> None:
    assert batches(["a", "b", "c"], 2, 100) == [(0, ["a", "b"]), (2, ["c"])]
    assert batches(["aa", "bb", "c"], 9, 4) == [(0, ["aa", "bb"]), (2, ["c"])]
    assert batches(["long text", "b"], 9, 4) == [(0, ["long text"]), (1, ["b"])]
    assert batches(["b", "long text"], 9, 4) == [(0, ["b"]), (1, ["long text"])]
    assert batches([], 9, 4) == []
    assert batches(["a", "b"], 1, 100) == [(0, ["a"]), (1, ["b"])]


def test_a_text_outside_ascii_counts_for_its_most_bytes() -> None:
    assert encoding.size("abc") == 3
    assert encoding.size("é") >= len("é".encode())
    assert encoding.size("好好") >= len("好好".encode())


def refusal(code: grpc.StatusCode, retry_after: Optional[float] = None) -> Any:
    kind: Any = {grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted, grpc.StatusCode.UNAVAILABLE: Unavailable}.get(code, NotFound)
    return kind("no", code=code, retry_after=retry_after)


def test_a_server_that_says_when_is_asked_again_then() -> None:
    policy = RetryPolicy()
    wait = policy.wait(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, 1.5), 1, False, 10.0)
    assert wait is not None and wait >= 1.5
    assert policy.wait(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, 1.5), 1, True, 1.0) is None, "not beyond the deadline"
    assert policy.wait(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, 60.0), 1, True, None) is None, "not for longer than the policy's"
    assert policy.wait(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED), 1, True, None) is None, "no RetryInfo: waiting does not help"
    assert policy.wait(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, 0.1), policy.overloaded, True, None) is None


def test_a_broken_connection_is_tried_again_for_calls_that_may_be_made_twice() -> None:
    policy = RetryPolicy()
    waits = [policy.wait(refusal(grpc.StatusCode.UNAVAILABLE), attempt, True, None) for attempt in range(1, policy.unreachable + 1)]
    assert waits[-1] is None and all(wait is not None for wait in waits[:-1])
    assert policy.wait(refusal(grpc.StatusCode.UNAVAILABLE), 1, False, None) is None
    assert policy.wait(refusal(grpc.StatusCode.NOT_FOUND), 1, True, None) is None


@pytest.mark.parametrize(
    ("address", "target", "secure"),
    [
        ("127.0.0.1:50051", "127.0.0.1:50051", False),
        ("http://host:80", "host:80", False),
        ("grpc://host:80/", "host:80", False),
        ("https://gateway.example", "gateway.example:443", True),
        ("grpcs://gateway.example:8443", "gateway.example:8443", True),
        ("https://[::1]:1", "[::1]:1", True),
        ("unix:/run/isomer.sock", "unix:/run/isomer.sock", False),
    ],
)
def test_addresses(address: str, target: str, secure: bool) -> None:
    assert Settings(address).target() == (target, secure)


@pytest.mark.parametrize("address", ["", "host", "http://", "ftp://host:1", "http://user@host:1", "http://host:1/path", "host:port", "http://host:1?a=b"])
def test_an_address_that_cannot_be_meant_is_refused_with_a_hint(address: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        Client(address)
    assert raised.value.field == "address" and raised.value.hint


def test_a_key_does_not_travel_in_plain_text_to_another_machine() -> None:
    for address in ("http://gateway.example:80", "10.0.0.1:80", "localhost.example:1", "dns:///host:1"):
        with pytest.raises(InvalidArgument, match="plain text"):
            Client(address, key="iso_x")
    for address in ("127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/x", "https://gateway.example"):
        Client(address, key="iso_x").close()
    Client("10.0.0.1:80", key="iso_x", secret_over_plain_text=True).close()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"key": "a\nb"}, "key"),
        ({"key": " "}, "key"),
        ({"key": "a", "token": lambda: "b"}, "token"),
        ({"timeout": 0}, "timeout"),
        ({"in_flight": 0}, "in_flight"),
        ({"metadata": {"X-Team": "a"}}, "metadata"),
        ({"key": "a", "metadata": {"authorization": "b"}}, "metadata"),
        ({"tls": Tls(certificate=b"x")}, "tls.private_key"),
        ({"tls": Tls(ca="/no/such/file")}, "tls.ca"),
        ({"address": "http://host:1", "tls": Tls()}, "address"),
    ],
)
def test_settings_that_cannot_be_meant_name_their_field(arguments: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        Client(**arguments)
    assert raised.value.field == field


def test_secrets_are_not_shown() -> None:
    settings = Settings("127.0.0.1:1", key="hidden", metadata=(("x-secret", "hidden"),), tls=None)
    assert "hidden" not in repr(settings) and "hidden" not in repr(Tls(private_key=b"hidden"))
    assert "hidden" not in repr(NewKey("id", "hidden")) and "hidden" not in repr(Token("hidden"))
    credentials = OidcClientCredentials("me", "hidden", token_url="https://login.example/token")
    assert "hidden" not in repr(credentials)
    with pytest.raises(InvalidArgument):
        OidcClientCredentials("me", "hidden", token_url="http://login.example/token")


def test_roles_find_the_encoders_own_prompts() -> None:
    encoder = encoder_pb2.Encoder(prompts={"Retrieval-query": "a", "query": "b", "passage": "c", "STS": "d"}, prompt_names=["search_document"])
    found = {role: encoding.prompt_of_role(encoder, role) for role in ("retrieval-query", "Clustering-query", "document", "sts", "none")}
    assert found == {"retrieval-query": "Retrieval-query", "Clustering-query": "query", "document": "passage", "sts": "STS", "none": None}
    assert encoding.prompt_of_role(encoder, "retrieval_query") == "Retrieval-query"


def test_two_ways_to_say_a_prompt_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="one of them|together"):
        encoding.prompt(None, "query", "query: ", None)


def test_texts_that_are_none_are_named_by_their_place() -> None:
    texts: Any = ["a", 7]
    with pytest.raises(InvalidArgument) as raised:
        encoding.inputs(texts, 30)
    assert raised.value.field == "inputs[31]"
    with pytest.raises(InvalidArgument) as raised:
        encoding.inputs(["a", "\ud800"], 30)
    assert raised.value.field == "inputs[31]" and "surrogate" in str(raised.value)
    assert [item.WhichOneof("input") for item in encoding.inputs(["a", [1, 2]], 0)] == ["text", "token_ids"]


def space(**fields: Any) -> VectorSpace:
    return VectorSpace.from_dict({"digest": "a", "model_id": "m", "dimensions": 8, **fields})


def test_a_collection_takes_one_space_and_other_prompts_of_it() -> None:
    collection = Collection("articles")
    collection.check(space())
    collection.check(space())
    collection.check(space(digest="b", prompt="query: "))
    with pytest.raises(SpaceMismatch) as raised:
        collection.check(space(digest="c", weights_digest="w"))
    assert raised.value.differing == ("weights_digest", "digest") and "articles" in str(raised.value)
    stored = VectorSpace.from_dict(space().to_dict())
    with pytest.raises(SpaceMismatch):
        Collection(space=stored).check(space(digest="c", dimensions=4))


def test_places_move_with_their_request() -> None:
    error = InvalidArgument("inputs[3].text is empty", field="inputs[3].text").moved(512)
    assert (error.field, error.message) == ("inputs[515].text", "inputs[515].text is empty")
    error = InvalidArgument("encoder_id is empty", field="encoder_id").moved(512)
    assert error.field == "encoder_id"


def test_errors_survive_pickling_and_are_what_their_kind_is_in_python() -> None:
    error = NotFound("no `x`", reason="UNKNOWN_ENCODER", field="encoder_id", hint="ask for y", metadata={"a": "b"})
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.field, again.metadata) == (NotFound, "no `x` (ask for y)", "encoder_id", {"a": "b"})
    assert isinstance(error, LookupError) and isinstance(Unavailable("x"), ConnectionError) and isinstance(InvalidArgument("x"), ValueError)


def test_matrices_go_both_ways_without_a_copy_on_the_way_in() -> None:
    rows: Any = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    packed = matrix.packed(rows, "first")
    seen = matrix.view(packed)
    assert np.array_equal(seen, rows) and not seen.flags.owndata and not seen.flags.writeable
    assert matrix.packed(rows.astype(np.float64), "first").dtype == common_pb2.DTYPE_F32
    assert matrix.packed(rows.astype(np.float16), "first").dtype == common_pb2.DTYPE_F16
    assert matrix.packed(rows[:, ::2], "first").cols == 2
    bits = common_pb2.Matrix(rows=1, cols=12, dtype=common_pb2.DTYPE_UBINARY, data=b"\xff\x00")
    assert matrix.view(bits).shape == (1, 2)
    with pytest.raises(InvalidArgument):
        matrix.packed([1.0, 2.0], "first")


def counted(shape: Any, kind: Any) -> Any:
    """0, 1, 2 … as rows."""
    numbers = cast(Any, np.array([number % 100 for number in range(shape[0] * shape[1])], kind))
    return numbers.reshape(shape)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int8])
@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 40), (200, 384)])
def test_a_large_request_reads_like_the_message_that_holds_its_matrices(kind: Any, shape: Any) -> None:
    rows, twice = counted(shape, kind), counted((2 * shape[0], shape[1]), kind)[::2]
    labels = [0.5] * shape[0]
    large = evaluating.pairs("sts", "mteb-v2", rows, twice, labels, True)
    plain = task_pb2.PairVectors(first=matrix.packed(rows, "first"), second=matrix.packed(twice, "second"), labels=labels)
    expected = evaluating.score("sts", "mteb-v2", pairs=plain, per_item=True)
    assert task_pb2.ScoreRequest.FromString(large.SerializeToString()) == expected
    # A second attempt sends the same.
    assert large.SerializeToString() == large.SerializeToString()
    found = evaluating.retrieval(None, rows, ["q"], twice, ["d"], {"q": {"d": 1}}, False)
    read = task_pb2.ScoreRequest.FromString(found.SerializeToString())
    assert read.retrieval.documents == expected.pairs.second
    assert read.retrieval.queries == expected.pairs.first and list(read.retrieval.query_ids) == ["q"]


def test_a_large_request_names_the_matrix_that_is_none() -> None:
    with pytest.raises(InvalidArgument, match="pairs.second has 1 dimensions"):
        evaluating.pairs("sts", None, [[1.0]], [1.0], [1.0], False)


def test_transformations_by_name_with_their_parameters() -> None:
    made = transforming.transformation("translation", {"target_language": "de"})
    assert made.translation.target_language == "de"
    assert transforming.transformation("paraphrase").WhichOneof("kind") == "paraphrase"
    assert list(transforming.transformation("cross_translation", {"target_languages": ["de", "fr"]}).cross_translation.target_languages) == ["de", "fr"]
    for kind, parameters, field in [
        ("paraphase", None, "spec.transformation"),
        ("translation", {"language": "de"}, "spec.transformation.translation.language"),
        ("multi_swap", {"swaps": "three"}, "spec.transformation.multi_swap.swaps"),
    ]:
        with pytest.raises(InvalidArgument) as raised:
            transforming.transformation(kind, parameters)
        assert raised.value.field == field


def test_words_for_enums_and_what_is_accepted() -> None:
    assert set(evaluating.TASKS) >= {"sts", "pair-classification", "retrieval", "graded-ranking"}
    with pytest.raises(InvalidArgument, match="one of"):
        transforming.chosen("format", "pdf", evaluating.FORMATS)
    with pytest.raises(InvalidArgument):
        administering.key("a", "encode", None, None)


def test_a_budget_of_seconds_is_kept_to_the_nanosecond() -> None:
    spec = transforming.augmentation([transforming.Source("keywords")], None, None, None, 1.25, True, None, False, None, None)
    assert (spec.generation_budget.seconds, spec.generation_budget.nanos) == (1, 250_000_000)


def test_a_cascade_needs_evidence_of_each_text() -> None:
    rule = transforming.Cascade(min_gap=0.05, gap_rank=3)
    spec = transforming.augmentation([], None, None, None, None, False, None, False, "cascade", None, rule)
    assert spec.mode == transforming.MODES["cascade"]
    assert (spec.cascade.min_gap, spec.cascade.gap_rank, spec.cascade.HasField("min_score")) == (0.05, 3, False)
    assert not spec.HasField("make_missing")
    assert transforming.evidence(None, ["a"]) == []
    assert [list(found.scores) for found in transforming.evidence([[0.9, 0.5], []], ["a", "b"])] == [[0.9, 0.5], []]
    with pytest.raises(InvalidArgument, match="1 lists of scores for 2 texts"):
        transforming.evidence([[0.9]], ["a", "b"])
    with pytest.raises(InvalidArgument, match="always, budget, cached, cascade"):
        transforming.augmentation([], None, None, None, None, False, None, False, "sometimes", None)


@pytest.mark.parametrize(
    ("encoder", "due"),
    [
        ("Org/My_Model.v2", "org-my-model-v2"),
        ("BAAI/bge-small-en-v1.5", "baai-bge-small-en-v1-5"),
        ("hashing-256", "hashing-256"),
        ("--a--", "a"),
        ("模型", "provider"),
        ("A" * 70, "a" * 63),
        ("a" * 62 + "_b", "a" * 62),
    ],
)
def test_an_encoders_id_becomes_one_that_gateways_take(encoder: str, due: str) -> None:
    assert provider_id(encoder) == due
