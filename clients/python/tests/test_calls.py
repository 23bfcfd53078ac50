"""Behaviour that the conformance suite does not cover: calls against its stub server."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from typing import Any, AsyncIterator, Dict, List

import numpy as np
import pytest
from isomer_client import AsyncClient, Client, InvalidArgument, IsomerError, OidcClientCredentials, Token, Unauthenticated


def test_a_str_in_place_of_a_list_is_refused(stub: Any) -> None:
    with Client(stub.address) as client, pytest.raises(InvalidArgument, match=r"\[text\]"):
        client.encode("river", encoder="plain")


def test_texts_without_a_length_are_taken_too(stub: Any) -> None:
    texts: Any = (f"text {number}" for number in range(40))
    with Client(stub.address) as client:
        assert client.encode(texts, encoder="plain").vectors.shape == (40, 16)


def test_the_time_of_a_call_is_for_all_of_its_requests(stub: Any) -> None:
    with Client(stub.address, metadata={"x-case": "deadline"}) as client:
        client.encode(["river"] * 40, encoder="plain", timeout=7)
    given = [entry["deadline"] for entry in stub.journal.of("deadline")]
    # gRPC rounds a time up to a hundredth of a second, and the stub's clock is another's.
    assert len(given) > 1 and max(given) < 7.05, given


def test_a_closed_client_says_so(stub: Any) -> None:
    client = Client(stub.address)
    client.encode(["river"], encoder="plain")
    client.close()
    with pytest.raises(IsomerError, match="closed"):
        client.encode(["river"], encoder="plain")


def test_an_array_of_any_length_is_an_array_to_numpy(stub: Any) -> None:
    with Client(stub.address) as client:
        one, many = client.encode(["river"], encoder="plain"), client.encode(["river"] * 40, encoder="plain")
    assert np.asarray(one).shape == (1, 16) and np.asarray(many, dtype=np.float64).dtype == np.float64
    assert many.vectors.flags.owndata and not one.vectors.flags.owndata
    assert len(many) == 40 and many.usage.texts == 40 and np.array_equal(many[39], one[0])


def test_an_async_client_belongs_to_one_event_loop(stub: Any) -> None:
    async def encode(client: AsyncClient) -> None:
        await client.encode(["river"], encoder="plain")

    client = AsyncClient(stub.address)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(encode(client))
        with pytest.raises(IsomerError, match="event loop"):
            asyncio.run(encode(client))
    finally:
        loop.run_until_complete(client.close())
        loop.close()


def test_a_texts_iterator_that_fails_ends_the_call_with_its_error(stub: Any) -> None:
    def texts() -> Any:
        yield from ["river"] * 20
        raise RuntimeError("the file is cut off")

    with Client(stub.address) as client, pytest.raises(RuntimeError, match="cut off"):
        list(client.encode_stream(texts(), encoder="plain"))


def test_texts_may_come_from_an_async_iterator(stub: Any) -> None:
    async def texts() -> AsyncIterator[str]:
        for number in range(40):
            yield f"text {number}"

    async def counted() -> List[int]:
        async with AsyncClient(stub.address) as client:
            return [len(part) async for part in client.encode_stream(texts(), encoder="plain")]

    assert asyncio.run(counted()) == [16, 16, 8]


class Provider(http.server.BaseHTTPRequestHandler):
    asked: List[Dict[str, Any]] = []

    def _answer(self, body: Any, code: int = 200) -> None:
        sent = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def do_GET(self) -> None:
        self._answer({"token_endpoint": f"http://{self.headers['host']}/token"})

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["content-length"])).decode()
        Provider.asked.append({"path": self.path, "form": form})
        if "client_secret=good" not in form:
            self._answer({"error": "invalid_client"}, 401)
        else:
            self._answer({"access_token": f"token-{len(Provider.asked)}", "expires_in": 3600})

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def identity() -> Any:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Provider.asked.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def test_tokens_of_an_identity_provider_are_found_and_kept(stub: Any, identity: str) -> None:
    source = OidcClientCredentials("me", "good", issuer=identity, scope="isomer:encode")
    with Client(stub.address, token=source, metadata={"x-case": "oidc"}) as client:
        client.encode(["river"], encoder="plain")
        client.encode(["ok"], encoder="plain")
    sent = {entry["metadata"]["authorization"] for entry in stub.journal.of("oidc")}
    assert sent == {"Bearer token-1"} and len(Provider.asked) == 1
    assert "grant_type=client_credentials" in Provider.asked[0]["form"] and "isomer%3Aencode" in Provider.asked[0]["form"]
    with Client(stub.address, token=OidcClientCredentials("me", "bad", issuer=identity)) as client:
        with pytest.raises(Unauthenticated, match="401"):
            client.encode(["river"], encoder="plain")


def test_a_token_that_ends_soon_is_not_sent(stub: Any) -> None:
    given = iter(range(1, 10))

    async def source() -> Token:
        return Token(f"t{next(given)}", expires_at=0.0)

    async def call() -> None:
        async with AsyncClient(stub.address, token=source, metadata={"x-case": "ends"}) as client:
            await client.encoder("plain")
            await client.encoder("plain")

    asyncio.run(call())
    assert [entry["metadata"]["authorization"] for entry in stub.journal.of("ends")] == ["Bearer t1", "Bearer t2"]


def test_spans_have_the_call_and_its_error_and_no_texts(stub: Any) -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    simple = pytest.importorskip("opentelemetry.sdk.trace.export")
    from opentelemetry import trace as api

    exporter = export.InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(simple.SimpleSpanProcessor(exporter))
    api.set_tracer_provider(provider)
    with Client(stub.address, metadata={"x-case": "spans"}) as client:
        client.encode(["a private text"], encoder="plain")
        with pytest.raises(IsomerError):
            client.encode(["a private text"], encoder="no-budget")
    spans = exporter.get_finished_spans()
    names = [span.name for span in spans]
    assert names.count("isomer.encoder.v1.EncoderService/Encode") == 2
    failed = spans[-1]
    assert failed.attributes["error.type"] == "BUDGET_EXCEEDED" and failed.attributes["rpc.grpc.status_code"] == 8
    assert "private" not in str([span.to_json() for span in spans])
    with Client(stub.address, metadata={"x-case": "silent"}, telemetry=False) as client:
        client.encode(["river"], encoder="plain")
    assert len(exporter.get_finished_spans()) == len(spans)
    assert all("traceparent" in entry["metadata"] for entry in stub.journal.of("spans"))
    assert not any("traceparent" in entry["metadata"] for entry in stub.journal.of("silent"))
