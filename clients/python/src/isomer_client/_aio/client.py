"""The client: texts to vectors, and the way to everything else."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, AsyncGenerator, AsyncIterable, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union
from typing import Iterable  # unasync: drop

from .. import encoding, methods, results, settings
from .._aio_transport import AsyncOperation, AsyncTransport, each
from ..encoding import Options, Text
from ..errors import InvalidArgument, IsomerError
from ..proto.encoder.v1 import encoder_pb2
from ..retry import RetryPolicy
from ..spaces import Collection, Known
from .evaluation import AsyncRuns, AsyncStatistics, AsyncTasks
from .gateway import AsyncKeys, AsyncProviders
from .transform import AsyncTransformations


class AsyncClient(AsyncTransformations):
    """A client of one Isomer server.

    Args:
        address: `host:port`, `http://host:port`, or `https://host` (TLS; port 443 unless given).
        tls: authorities, and a certificate for mTLS. With it any address is called with TLS.
        key: an API key, sent with each call.
        token: in place of a key, what gives tokens of an identity provider: called when one is
            needed, it returns a str or a Token. See OidcClientCredentials.
        metadata: further metadata of each call.
        timeout: seconds for one request, its retries included; None: no limit. The `timeout` of a
            method is for all of its requests together.
        retries: when a request is made again.
        in_flight: most requests of one call at once.
        batch_items, batch_bytes: most texts, and bytes of them, in one request; the encoder's own
            limit goes before.
        secret_over_plain_text: whether a key or token may travel in plain text to another machine.
        telemetry: whether OpenTelemetry, where it is installed, is given a span of each request.
        check_spaces: whether an encoder that answers the same question in another vector space than
            before raises SpaceMismatch.
        options: further options of the gRPC channel.
    """

    def __init__(
        self,
        address: str = settings.DEFAULT_ADDRESS,
        *,
        tls: Optional[settings.Tls] = None,
        key: Optional[str] = None,
        token: Any = None,
        metadata: Union[Mapping[str, str], Sequence[Tuple[str, str]]] = (),
        timeout: Optional[float] = 120.0,
        retries: Optional[RetryPolicy] = None,
        in_flight: int = 4,
        batch_items: int = 256,
        batch_bytes: int = 1 << 20,
        secret_over_plain_text: bool = False,
        telemetry: bool = True,
        check_spaces: bool = True,
        options: Sequence[Tuple[str, Any]] = (),
    ) -> None:
        given = settings.Settings(
            address=address,
            tls=tls,
            key=key,
            token=token,
            metadata=tuple(metadata.items()) if isinstance(metadata, Mapping) else tuple(metadata),
            timeout=timeout,
            retries=retries or RetryPolicy(),
            in_flight=in_flight,
            batch_items=batch_items,
            batch_bytes=batch_bytes,
            secret_over_plain_text=secret_over_plain_text,
            telemetry=telemetry,
            check_spaces=check_spaces,
            options=tuple(options),
        )
        super().__init__(AsyncTransport(given))
        self._encoders: Dict[str, encoder_pb2.Encoder] = {}
        self._spaces = Known() if check_spaces else None
        self.tasks = AsyncTasks(self._transport)
        """Scores of vectors and of data sets."""
        self.statistics = AsyncStatistics(self._transport)
        """Tests and intervals of scores."""
        self.runs = AsyncRuns(self._transport)
        """Robustness checks."""
        self.providers = AsyncProviders(self._transport)
        """The gateway's providers of encoders."""
        self.keys = AsyncKeys(self._transport)
        """The gateway's keys and audit log."""

    @classmethod
    def from_environment(cls, **more: Any) -> AsyncClient:
        """A client of the server in `ISOMER_SERVER`, with the key in `ISOMER_API_KEY`, as the command line has it."""
        address, key = settings.from_environment(os.environ)
        return cls(address, key=key, **more)

    async def close(self) -> None:
        """Ends the connection. Calls in flight are cancelled."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    # Encoders

    def encoders(self, *, timeout: Optional[float] = None) -> AsyncIterator[encoder_pb2.Encoder]:
        """The encoders that can be asked for, loaded or not."""
        return self._pages(methods.LIST_ENCODERS, encoder_pb2.ListEncodersRequest(), timeout, "encoders")

    async def encoder(self, id: str, *, timeout: Optional[float] = None) -> encoder_pb2.Encoder:
        """One encoder, described; the server loads it if need be."""
        answer = await self._call(methods.GET_ENCODER, encoder_pb2.GetEncoderRequest(id=id), timeout)
        self._encoders[id] = answer.encoder
        return answer.encoder

    async def _known(self, id: str, operation: AsyncOperation) -> encoder_pb2.Encoder:
        """Describes an encoder within the time of the call that needs it; the description is cached."""
        if id not in self._encoders:
            answer = await self._transport.call(methods.GET_ENCODER, encoder_pb2.GetEncoderRequest(id=id), operation)
            self._encoders[id] = answer.encoder
        return self._encoders[id]

    # Vectors

    async def encode(
        self,
        texts: Sequence[Text],
        *,
        encoder: str,
        prompt: Optional[str] = None,
        prompt_name: Optional[str] = None,
        role: Optional[str] = None,
        dimensions: Optional[int] = None,
        normalise: Optional[bool] = None,
        dtype: str = "f32",
        truncation: Optional[str] = None,
        priority: Optional[str] = None,
        collection: Optional[Collection] = None,
        partial: bool = False,
        timeout: Optional[float] = None,
    ) -> results.Embeddings:
        """A vector for each of any number of texts, in their order.

        Args:
            texts: texts, or lists of token ids by the encoder's own tokenizer.
            encoder: id of the encoder.
            prompt: text put before each one; empty for none.
            prompt_name: one of the encoder's prompts, by its name.
            role: what the texts are, e.g. `query`, `document`, `Retrieval-query`: the encoder's own
                prompt for it, where it has one.
            dimensions: columns to keep (Matryoshka).
            normalise: whether to scale to unit length; by default as the encoder does.
            dtype: `f32`, `f16`, `int8`, or `ubinary` (packed bits).
            truncation: `tail` (default), `head`, or `error`: what happens to too long a text.
            priority: `interactive` (default) or `batch`.
            collection: where the vectors are kept: raises SpaceMismatch for those of another space.
            partial: whether texts that fail leave rows of zeros; without it they raise TextsFailed.
            timeout: seconds for all of it.
        """
        texts = encoding.listed(texts)
        operation = AsyncOperation(timeout)
        known = await self._known(encoder, operation)
        asked = encoding.prompt(known, prompt_name, prompt, role)
        options = Options(encoder, asked, truncation, dimensions, normalise, dtype, priority).checked()
        if not len(texts):
            return encoding.empty(known, options)
        joiner = encoding.Joiner(len(texts))
        parts = self._parts(texts, known, options, collection, operation)
        try:
            async for part in parts:
                joiner.add(part)
        finally:
            await parts.aclose()
        return encoding.succeeded(joiner.whole(), partial)

    async def encode_stream(
        self,
        texts: Union[Iterable[Text], AsyncIterable[Text]],
        *,
        encoder: str,
        prompt: Optional[str] = None,
        prompt_name: Optional[str] = None,
        role: Optional[str] = None,
        dimensions: Optional[int] = None,
        normalise: Optional[bool] = None,
        dtype: str = "f32",
        truncation: Optional[str] = None,
        priority: Optional[str] = "batch",
        collection: Optional[Collection] = None,
        partial: bool = False,
        timeout: Optional[float] = None,
    ) -> AsyncIterator[results.Embeddings]:
        """Vectors of texts that come from an iterator, in their order, a batch at a time.

        Texts are read only as far as requests are in flight, and each batch's vectors are a view of
        its answer, without a copy: memory does not grow with the number of texts. Arguments as
        `encode`.
        """
        encoding.not_one_text(texts)
        operation = AsyncOperation(timeout)
        known = await self._known(encoder, operation)
        asked = encoding.prompt(known, prompt_name, prompt, role)
        options = Options(encoder, asked, truncation, dimensions, normalise, dtype, priority).checked()
        parts = self._parts(texts, known, options, collection, operation)
        try:
            async for part in parts:
                yield encoding.succeeded(part, partial)
        finally:
            await parts.aclose()

    async def _parts(
        self, texts: Any, known: encoder_pb2.Encoder, options: Options, collection: Optional[Collection], operation: AsyncOperation
    ) -> AsyncGenerator[results.Embeddings, None]:
        """The answers to each request, in order."""
        checker = encoding.Checker(options, collection, self._spaces)
        answers = self._answers(texts, known, options, operation)
        try:
            async for (start, batch), answer in answers:
                yield checker.embeddings(answer, len(batch), start)
        finally:
            await answers.aclose()

    def _answers(
        self, texts: Any, known: encoder_pb2.Encoder, options: Options, operation: AsyncOperation
    ) -> AsyncGenerator[Tuple[encoding.Batch, encoder_pb2.EncodeResponse], None]:
        """The answers to each request with its texts, in order."""

        async def one(batch: encoding.Batch, operation: AsyncOperation) -> Tuple[encoding.Batch, encoder_pb2.EncodeResponse]:
            return batch, await self._encoded(batch, options, operation)

        return self._transport.ordered(self._batches(texts, known), one, operation)

    async def _encoded(self, batch: encoding.Batch, options: Options, operation: AsyncOperation) -> encoder_pb2.EncodeResponse:
        start, texts = batch
        try:
            return await self._transport.call(methods.ENCODE, options.request(texts, start), operation)
        except IsomerError as error:
            # Once only: what is refused before it is sent has its place already.
            raise error.moved(start) if error.method else error

    async def _batches(self, texts: Any, known: encoder_pb2.Encoder) -> AsyncIterator[encoding.Batch]:
        batcher = encoding.Batcher(self._most_items(known), self._transport.settings.batch_bytes)
        async for text in each(texts):
            batch = batcher.push(text)
            if batch is not None:
                yield batch
        rest = batcher.rest()
        if rest is not None:
            yield rest

    def _most_items(self, known: encoder_pb2.Encoder) -> int:
        ours = self._transport.settings.batch_items
        return min(ours, known.max_batch_items) if known.max_batch_items else ours

    async def encode_tokens(
        self,
        texts: Sequence[Text],
        *,
        encoder: str,
        prompt: Optional[str] = None,
        prompt_name: Optional[str] = None,
        role: Optional[str] = None,
        dimensions: Optional[int] = None,
        normalise: Optional[bool] = None,
        dtype: str = "f32",
        truncation: Optional[str] = None,
        collection: Optional[Collection] = None,
        timeout: Optional[float] = None,
    ) -> results.TokenEmbeddings:
        """A vector for each token of each text. Arguments as `encode`."""
        encoding.not_one_text(texts)
        operation = AsyncOperation(timeout)
        known = await self._known(encoder, operation)
        asked = encoding.prompt(known, prompt_name, prompt, role)
        options = Options(encoder, asked, truncation, dimensions, normalise, dtype, None, tokens=True).checked()
        checker = encoding.Checker(options, collection, self._spaces)
        vectors: List[Any] = []
        usage = results.Usage()
        answers = self._answers(texts, known, options, operation)
        space = None
        try:
            async for (start, batch), answer in answers:
                part = checker.token_embeddings(answer, len(batch), start)
                vectors += part.vectors
                usage, space = usage + part.usage, part.space
        finally:
            await answers.aclose()
        return results.TokenEmbeddings(tuple(vectors), space or encoding.empty(known, options).space, usage)

    async def encode_outputs(
        self,
        texts: Sequence[Text],
        *,
        encoder: str,
        outputs: Sequence[str],
        max_active_dimensions: Optional[int] = None,
        prompt: Optional[str] = None,
        prompt_name: Optional[str] = None,
        role: Optional[str] = None,
        dimensions: Optional[int] = None,
        normalise: Optional[bool] = None,
        dtype: str = "f32",
        truncation: Optional[str] = None,
        priority: Optional[str] = None,
        collection: Optional[Collection] = None,
        timeout: Optional[float] = None,
    ) -> results.Outputs:
        """Several results of one pass: dense, sparse and token vectors.

        Args:
            outputs: some of `text_vector`, `sparse` and `token_vectors`.
            max_active_dimensions: entries to keep of each sparse vector, the largest ones.

        The other arguments are those of `encode`; `dimensions`, `normalise`, `dtype` and
        `collection` apply to `text_vector`.
        """
        encoding.not_one_text(outputs, "outputs")
        if not outputs:
            raise InvalidArgument("outputs is empty", field="outputs", reason="INVALID_ARGUMENT", hint=f"name some of {', '.join(encoding.OUTPUTS)}")
        texts = encoding.listed(texts)
        encoding.not_empty(texts)
        operation = AsyncOperation(timeout)
        known = await self._known(encoder, operation)
        asked = encoding.prompt(known, prompt_name, prompt, role)
        how = (truncation, dimensions, normalise, dtype, priority)
        options = Options(encoder, asked, *how, outputs=tuple(outputs), max_active_dimensions=max_active_dimensions).checked()
        joiner = encoding.OutputsJoiner(len(texts), options, collection, self._spaces)
        answers = self._answers(texts, known, options, operation)
        try:
            async for (start, batch), answer in answers:
                joiner.add(answer, len(batch), start)
        finally:
            await answers.aclose()
        return joiner.whole()

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        encoder: str,
        top_n: Optional[int] = None,
        label: str = "",
        timeout: Optional[float] = None,
    ) -> results.Ranking:
        """Any number of documents scored against a query by a cross-encoder, best first."""
        encoding.not_one_text(documents)
        operation = AsyncOperation(timeout)
        known = await self._known(encoder, operation)

        async def one(batch: encoding.Batch, operation: AsyncOperation) -> Tuple[int, encoder_pb2.RerankResponse]:
            start, some = batch
            request = encoding.rerank_request(encoder, query, some, top_n, label, start)
            try:
                return start, await self._transport.call(methods.RERANK, request, operation)
            except IsomerError as error:
                raise error.moved(start) if error.method else error

        parts: List[Tuple[int, encoder_pb2.RerankResponse]] = []
        answers = self._transport.ordered(self._batches(documents, known), one, operation)
        try:
            async for part in answers:
                parts.append(part)
        finally:
            await answers.aclose()
        return results.ranking(parts, top_n)

    # Tokens

    async def count_tokens(
        self,
        texts: Sequence[str],
        *,
        encoder: str,
        prompt: Optional[str] = None,
        prompt_name: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> List[int]:
        """Tokens of each text as `encode` would see them, before truncation."""
        encoding.not_one_text(texts)
        request = encoder_pb2.CountTokensRequest(encoder_id=encoder, texts=texts)
        encoding.prompt(None, prompt_name, prompt, None).put(request)
        return list((await self._call(methods.COUNT_TOKENS, request, timeout)).token_counts)

    async def tokenize(
        self,
        texts: Sequence[str],
        *,
        encoder: str,
        prompt: Optional[str] = None,
        prompt_name: Optional[str] = None,
        special_tokens: bool = True,
        timeout: Optional[float] = None,
    ) -> List[List[encoder_pb2.Token]]:
        """The tokens of each text, with the part of the text that each stands for."""
        encoding.not_one_text(texts)
        request = encoder_pb2.TokenizeRequest(encoder_id=encoder, texts=texts, special_tokens=special_tokens)
        encoding.prompt(None, prompt_name, prompt, None).put(request)
        answer = await self._call(methods.TOKENIZE, request, timeout)
        return [list(text.tokens) for text in answer.texts]

    async def detokenize(
        self, token_ids: Sequence[Sequence[int]], *, encoder: str, special_tokens: bool = False, timeout: Optional[float] = None
    ) -> List[str]:
        """The text of each list of token ids."""
        request = encoder_pb2.DetokenizeRequest(
            encoder_id=encoder, token_ids=[encoder_pb2.TokenIds(ids=ids) for ids in token_ids], special_tokens=special_tokens
        )
        return list((await self._call(methods.DETOKENIZE, request, timeout)).texts)
