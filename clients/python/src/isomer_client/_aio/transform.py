"""Texts to texts, and vectors of texts with their variants (GASE)."""

from __future__ import annotations

from typing import Any, AsyncIterator, List, Mapping, Optional, Sequence, Tuple

from .. import encoding, methods, results, transforming
from .._aio_transport import AsyncOperation, each
from ..encoding import Options, Prompt
from ..errors import IsomerError
from ..proto.transform.v1 import transform_pb2 as pb
from ..spaces import Collection, Known
from ..transforming import Cascade, Item, Sampling, Source, Transformation
from .base import AsyncPart


class AsyncTransformations(AsyncPart):
    """Calls of TransformService and AugmentationService."""

    _spaces: Optional[Known] = None

    def transformations(self, *, timeout: Optional[float] = None) -> AsyncIterator[pb.TransformationInfo]:
        """The catalogue, with axis and prompts of each."""
        return self._pages(methods.LIST_TRANSFORMATIONS, pb.ListTransformationsRequest(), timeout, "transformations")

    async def transform(
        self,
        texts: Sequence[Item],
        transformation: Transformation,
        *,
        parameters: Optional[Mapping[str, Any]] = None,
        generator: str = "",
        seed: Optional[int] = None,
        max_attempts: Optional[int] = None,
        on_failure: Optional[str] = None,
        sampling: Optional[Sampling] = None,
        bypass_cache: bool = False,
        run: str = "",
        prompts: Sequence[str] = (),
        guards: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> results.Transformed:
        """Any number of texts, transformed, in their order.

        Args:
            texts: texts, or TextItems, which have an id and a language too.
            transformation: a name of the catalogue, e.g. `paraphrase`.
            parameters: those of the transformation, e.g. `{"target_language": "de"}`.
            generator: the language model; by default the server's.
            on_failure: what becomes of a text whose attempts all failed a check: `keep_original`
                (default), `drop`, or `fail`.
            guards: `warn` (default), `retry` or `off`.
            timeout: seconds for all of it.

        The others are those of TransformSpec.
        """
        encoding.not_one_text(texts)
        spec = transforming.spec(
            transformation, parameters, generator, seed, max_attempts, on_failure, sampling, bypass_cache, run, prompts, guards
        )

        async def one(batch: encoding.Batch, operation: AsyncOperation) -> Tuple[int, pb.TransformResponse]:
            start, some = batch
            request = pb.TransformRequest(spec=spec, items=transforming.items(some, start))
            try:
                return start, await self._transport.call(methods.TRANSFORM, request, operation)
            except IsomerError as error:
                raise error.moved(start) if error.method else error

        parts: List[Tuple[int, pb.TransformResponse]] = []
        answers = self._transport.ordered(self._items(texts), one, AsyncOperation(timeout))
        try:
            async for part in answers:
                parts.append(part)
        finally:
            await answers.aclose()
        return transforming.transformed(parts)

    async def transform_stream(
        self,
        texts: Sequence[Item],
        transformation: Transformation,
        *,
        parameters: Optional[Mapping[str, Any]] = None,
        generator: str = "",
        seed: Optional[int] = None,
        max_attempts: Optional[int] = None,
        on_failure: Optional[str] = None,
        sampling: Optional[Sampling] = None,
        bypass_cache: bool = False,
        run: str = "",
        prompts: Sequence[str] = (),
        guards: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> AsyncIterator[pb.TransformResult]:
        """The same, each result as it comes, in any order: `index` says which text it is. Made once, without retries."""
        encoding.not_one_text(texts)
        spec = transforming.spec(
            transformation, parameters, generator, seed, max_attempts, on_failure, sampling, bypass_cache, run, prompts, guards
        )
        operation = AsyncOperation(timeout)
        async for start, some in self._items(texts):
            request = pb.TransformStreamRequest(spec=spec, items=transforming.items(some, start))
            stream = self._transport.stream(methods.TRANSFORM_STREAM, request, operation)
            try:
                async for answer in stream:
                    if answer.WhichOneof("event") == "result":
                        answer.result.index += start
                        yield answer.result
            except IsomerError as error:
                raise error.moved(start) if error.method else error
            finally:
                await stream.aclose()

    async def _items(self, texts: Any) -> AsyncIterator[encoding.Batch]:
        limits = self._transport.settings
        batcher = encoding.Batcher(limits.batch_items, limits.batch_bytes)
        async for text in each(texts):
            batch = batcher.push(text)
            if batch is not None:
                yield batch
        rest = batcher.rest()
        if rest is not None:
            yield rest

    async def estimate(
        self,
        texts: Sequence[Item],
        transformation: Transformation,
        *,
        parameters: Optional[Mapping[str, Any]] = None,
        generator: str = "",
        seed: Optional[int] = None,
        max_attempts: Optional[int] = None,
        sampling: Optional[Sampling] = None,
        timeout: Optional[float] = None,
    ) -> pb.GenerationEstimate:
        """Estimates the requests of `transform` to the generator. It costs nothing."""
        spec = transforming.spec(transformation, parameters, generator, seed, max_attempts, None, sampling, False, "", (), None)
        request = pb.EstimateRequest(spec=spec, items=transforming.items(texts, 0))
        return (await self._call(methods.ESTIMATE, request, timeout)).estimate

    async def inspect(
        self,
        pairs: Sequence[Tuple[str, str]],
        transformation: Transformation = "paraphrase",
        *,
        parameters: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None,
    ) -> List[pb.InspectResponse.Finding]:
        """The error checks and measures of pairs of an original and a transformed text."""
        request = pb.InspectRequest(
            pairs=[pb.InspectRequest.Pair(original=original, transformed=changed) for original, changed in pairs],
            transformation=transforming.transformation(transformation, parameters),
        )
        return list((await self._call(methods.INSPECT, request, timeout)).findings)

    async def judge(
        self,
        pairs: Sequence[Tuple[str, str]],
        *,
        scale: str = "similarity",
        generator: str = "",
        seed: Optional[int] = None,
        max_attempts: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> pb.JudgeResponse:
        """Pairs of an original and a transformed text, rated by a language model: `similarity`, `quality` or `fluency`."""
        request = pb.JudgeRequest(
            pairs=[pb.JudgeRequest.Pair(original=original, transformed=changed) for original, changed in pairs],
            scale=transforming.chosen("scale", scale, transforming.SCALES),
            generator_id=generator,
            seed=seed,
            max_attempts=max_attempts,
        )
        return await self._call(methods.JUDGE, request, timeout)

    async def augment(
        self,
        texts: Sequence[Item],
        sources: Sequence[Source],
        *,
        k: Optional[int] = None,
        seed: Optional[int] = None,
        sampling: Optional[Sampling] = None,
        budget: Optional[float] = None,
        all_variants: bool = False,
        max_attempts: Optional[int] = None,
        bypass_cache: bool = False,
        mode: Optional[str] = None,
        make_missing: Optional[bool] = None,
        timeout: Optional[float] = None,
    ) -> List[pb.Variants]:
        """Variants of texts, without vectors. Arguments as `encode_augmented`."""
        spec = transforming.augmentation(
            sources, k, seed, sampling, budget, all_variants, max_attempts, bypass_cache, mode, make_missing
        )
        request = pb.AugmentRequest(spec=spec, items=transforming.items(texts, 0))
        return list((await self._call(methods.AUGMENT, request, timeout)).items)

    async def encode_augmented(
        self,
        texts: Sequence[Item],
        sources: Sequence[Source],
        *,
        encoder: str,
        k: Optional[int] = None,
        pooling: Optional[str] = None,
        original_weight: Optional[float] = None,
        normalise_before: Optional[bool] = None,
        normalise_after: Optional[bool] = None,
        prompt: Optional[str] = None,
        prompt_name: Optional[str] = None,
        dimensions: Optional[int] = None,
        seed: Optional[int] = None,
        sampling: Optional[Sampling] = None,
        budget: Optional[float] = None,
        all_variants: bool = False,
        max_attempts: Optional[int] = None,
        bypass_cache: bool = False,
        mode: Optional[str] = None,
        make_missing: Optional[bool] = None,
        cascade: Optional[Cascade] = None,
        evidence: Optional[Sequence[Sequence[float]]] = None,
        collection: Optional[Collection] = None,
        partial: bool = False,
        timeout: Optional[float] = None,
    ) -> results.AugmentedEmbeddings:
        """Vectors pooled of texts and their variants (GASE), in the order of the texts.

        Args:
            sources: where variants come from, 8 at most.
            k: how many of the sources are used; by default all.
            pooling: `mean` (default), `max` or `weighted`, with the original's weight.
            budget: seconds for generation; what has come by then is pooled.
            all_variants: whether a missing variant fails the call.
            mode: `always`, `budget`, `cached` (no generator is asked before the answer) or `cascade`.
            make_missing: whether what a budget or the caches lack is made after the answer, for the next call; by default with `cached`.
            cascade: when a plain search was not good enough, with that mode.
            evidence: scores of the plain search of each text, best first, with `cascade`; without it all vectors are plain.

        The others are those of `encode` and of AugmentationSpec.
        """
        encoding.not_one_text(texts)
        spec = transforming.augmentation(
            sources, k, seed, sampling, budget, all_variants, max_attempts, bypass_cache, mode, make_missing, cascade
        )
        found = transforming.evidence(evidence, texts)
        asked = encoding.prompt(None, prompt_name, prompt, None)
        how = transforming.chosen("pooling", pooling, transforming.POOLINGS)
        # The settings that the space depends on beside the encoder, so that equal settings share
        # one space.
        marks = (spec.SerializeToString(deterministic=True), how, original_weight, normalise_before, normalise_after)
        checker = encoding.Checker(Options(encoder, Prompt(asked.name, repr((asked.literal, marks))), None, dimensions), collection, self._spaces)

        async def one(batch: encoding.Batch, operation: AsyncOperation) -> Tuple[int, int, pb.EncodeAugmentedResponse]:
            start, some = batch
            request = pb.EncodeAugmentedRequest(
                spec=spec,
                items=transforming.items(some, start),
                encoder_id=encoder,
                pooling=how,
                original_weight=original_weight,
                normalise_before=normalise_before,
                normalise_after=normalise_after,
                prompt_name=asked.name or "",
                literal_prompt=asked.literal,
                dimensions=dimensions,
                evidence=found[start : start + len(some)],
            )
            try:
                return start, len(some), await self._transport.call(methods.ENCODE_AUGMENTED, request, operation)
            except IsomerError as error:
                raise error.moved(start) if error.method else error

        parts: List[Tuple[int, int, pb.EncodeAugmentedResponse]] = []
        answers = self._transport.ordered(self._items(texts), one, AsyncOperation(timeout))
        try:
            async for part in answers:
                checker.space(part[2])
                parts.append(part)
        finally:
            await answers.aclose()
        whole = transforming.augmented(parts, checker.found())
        encoding.succeeded(whole, partial)
        return whole
