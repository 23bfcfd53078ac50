"""Texts as requests for transformations and augmentation: pure, the same for both clients."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from google.protobuf.duration_pb2 import Duration

from .errors import BadAnswer, InvalidArgument
from .matrix import view
from .proto.transform.v1 import transform_pb2 as pb
from .results import AugmentedEmbeddings, Transformed, Usage, item_errors
from .spaces import VectorSpace

# A text, or one with an id and a language.
Item = Union[str, pb.TextItem]
# The name of a transformation, or one with its parameters.
Transformation = Union[str, pb.Transformation]
ON_FAILURE = {
    "keep_original": pb.ON_FAILURE_KEEP_ORIGINAL,
    "drop": pb.ON_FAILURE_DROP,
    "fail": pb.ON_FAILURE_FAIL,
}
GUARDS = {"warn": pb.GUARD_MODE_WARN, "retry": pb.GUARD_MODE_RETRY, "off": pb.GUARD_MODE_OFF}
POOLINGS = {
    "mean": pb.AUGMENTATION_POOLING_MEAN,
    "max": pb.AUGMENTATION_POOLING_MAX,
    "weighted": pb.AUGMENTATION_POOLING_WEIGHTED,
}
MODES = {
    "always": pb.AUGMENTATION_MODE_ALWAYS,
    "budget": pb.AUGMENTATION_MODE_BUDGET,
    "cached": pb.AUGMENTATION_MODE_CACHED,
    "cascade": pb.AUGMENTATION_MODE_CASCADE,
}
SCALES = {
    "similarity": pb.JUDGE_SCALE_SIMILARITY,
    "quality": pb.JUDGE_SCALE_QUALITY,
    "fluency": pb.JUDGE_SCALE_FLUENCY,
}


def chosen(field: str, value: Optional[str], known: Mapping[str, int]) -> Any:
    """The number of a word; 0, which is the server's default, for none."""
    if value is None:
        return 0
    try:
        return known[value]
    except KeyError:
        raise InvalidArgument(
            f"{field}: there is no `{value}`", field=field, reason="INVALID_ARGUMENT", hint=f"one of {', '.join(known)}"
        ) from None


def transformation(kind: Transformation, parameters: Optional[Mapping[str, Any]] = None) -> pb.Transformation:
    """`paraphrase`, or `translation` with `{"target_language": "de"}`."""
    if isinstance(kind, pb.Transformation):
        return kind
    fields = pb.Transformation.DESCRIPTOR.fields_by_name
    if kind not in fields:
        raise InvalidArgument(
            f"there is no transformation `{kind}`",
            field="spec.transformation",
            reason="INVALID_ARGUMENT",
            hint=f"one of {', '.join(fields)}",
        )
    message = pb.Transformation()
    part = getattr(message, kind)
    part.SetInParent()
    known = part.DESCRIPTOR.fields_by_name
    for name, value in (parameters or {}).items():
        field = f"spec.transformation.{kind}.{name}"
        if name not in known:
            hint = f"it has {', '.join(known)}" if known else "it has no parameters"
            raise InvalidArgument(f"`{kind}` has no parameter `{name}`", field=field, reason="INVALID_ARGUMENT", hint=hint)
        try:
            getattr(part, name).extend(value) if isinstance(value, (list, tuple)) else setattr(part, name, value)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument(f"{field} cannot be {value!r}: {error}", field=field, reason="INVALID_ARGUMENT") from None
    return message


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a generator samples; what is not given is the server's default."""

    temperature: Optional[float] = None
    top_p: Optional[float] = None
    top_k: Optional[int] = None
    max_tokens: Optional[int] = None

    def message(self) -> pb.Sampling:
        return pb.Sampling(temperature=self.temperature, top_p=self.top_p, top_k=self.top_k, max_tokens=self.max_tokens)


@dataclasses.dataclass(frozen=True)
class Source:
    """A source of variants of a text (GASE): a transformation, and the generator that makes it where it needs one."""

    transformation: Transformation
    generator: str = ""
    parameters: Optional[Mapping[str, Any]] = None

    def message(self) -> pb.VariantSource:
        return pb.VariantSource(generator_id=self.generator, transformation=transformation(self.transformation, self.parameters))


@dataclasses.dataclass(frozen=True)
class Cascade:
    """When the plain search of a query was not good enough, so that `mode="cascade"` augments it: one condition that holds is enough.

    Attributes:
        min_results: fewer results than this.
        min_score: the best score is below this.
        min_gap: the best score is less than this above the one at `gap_rank` (2 unless given).
    """

    min_results: Optional[int] = None
    min_score: Optional[float] = None
    min_gap: Optional[float] = None
    gap_rank: Optional[int] = None

    def message(self) -> pb.CascadeRule:
        return pb.CascadeRule(
            min_results=self.min_results, min_score=self.min_score, min_gap=self.min_gap, gap_rank=self.gap_rank
        )


def spec(
    kind: Transformation,
    parameters: Optional[Mapping[str, Any]],
    generator: str,
    seed: Optional[int],
    max_attempts: Optional[int],
    on_failure: Optional[str],
    sampling: Optional[Sampling],
    bypass_cache: bool,
    run: str,
    prompts: Sequence[str],
    guards: Optional[str],
) -> pb.TransformSpec:
    return pb.TransformSpec(
        transformation=transformation(kind, parameters),
        generator_id=generator,
        seed=seed,
        max_attempts=max_attempts,
        on_failure=chosen("on_failure", on_failure, ON_FAILURE),
        sampling=sampling.message() if sampling else None,
        bypass_cache=bypass_cache,
        run=run,
        prompts=prompts,
        guards=chosen("guards", guards, GUARDS),
    )


def augmentation(
    sources: Sequence[Source],
    k: Optional[int],
    seed: Optional[int],
    sampling: Optional[Sampling],
    budget: Optional[float],
    all_variants: bool,
    max_attempts: Optional[int],
    bypass_cache: bool,
    mode: Optional[str],
    make_missing: Optional[bool],
    cascade: Optional[Cascade] = None,
) -> pb.AugmentationSpec:
    made = pb.AugmentationSpec(
        sources=[source.message() for source in sources],
        k=k,
        seed=seed,
        sampling=sampling.message() if sampling else None,
        partial_failure=pb.PARTIAL_FAILURE_POLICY_FAIL if all_variants else pb.PARTIAL_FAILURE_POLICY_UNSPECIFIED,
        max_attempts=max_attempts,
        bypass_cache=bypass_cache,
        mode=chosen("mode", mode, MODES),
        make_missing=make_missing,
        cascade=cascade.message() if cascade else None,
    )
    if budget is not None:
        made.generation_budget.CopyFrom(Duration(seconds=int(budget), nanos=int(budget % 1 * 1e9)))
    return made


def evidence(scores: Optional[Sequence[Sequence[float]]], texts: Sequence[Any]) -> List[pb.SearchEvidence]:
    """Results of the plain search of each text."""
    if scores is None:
        return []
    if len(scores) != len(texts):
        raise InvalidArgument(
            f"evidence: {len(scores)} lists of scores for {len(texts)} texts",
            field="evidence",
            reason="INVALID_ARGUMENT",
            hint="give one list per text, empty where nothing was found",
        )
    return [pb.SearchEvidence(scores=found) for found in scores]


def items(texts: Sequence[Any], start: int) -> List[pb.TextItem]:
    """Texts with what they are known by; `start` is the place of the first one in the caller's list."""
    made: List[pb.TextItem] = []
    for index, text in enumerate(texts, start):
        if isinstance(text, pb.TextItem):
            made.append(text)
            continue
        try:
            made.append(pb.TextItem(text=text))
        except (TypeError, ValueError) as error:
            field = f"items[{index}].text"
            raise InvalidArgument(
                f"{field} cannot be sent: {error}", field=field, reason="INVALID_ARGUMENT", hint="give a str or a TextItem"
            ) from None
    return made


def transformed(parts: Sequence[Tuple[int, pb.TransformResponse]]) -> Transformed:
    """The answers to parts of a list, each with its start, as one."""
    made: List[pb.TransformResult] = []
    for start, answer in parts:
        for result in answer.results:
            result.index += start
            made.append(result)
    usage = sum((Usage.of(answer.usage) for _, answer in parts), Usage())
    return Transformed(tuple(made), usage, tuple(answer.summary for _, answer in parts))


def augmented(parts: Sequence[Tuple[int, int, pb.EncodeAugmentedResponse]], space: VectorSpace) -> AugmentedEmbeddings:
    """The answers to parts of a list, each with its start and number of texts, as one."""
    rows: List[Any] = []
    used: List[pb.Variants] = []
    errors: Tuple[Any, ...] = ()
    for start, count, answer in parts:
        vectors = view(answer.embeddings)
        if len(vectors) != count:
            raise BadAnswer(f"{len(vectors)} vectors were answered to {count} texts", hint="ask again")
        rows.append(vectors)
        for variants in answer.used:
            variants.index += start
            used.append(variants)
        errors += item_errors(answer.errors, start)
    told = [list(answer.truncated) for _, _, answer in parts]
    whole = all(len(one) == count for one, (_, count, _) in zip(told, parts))
    return AugmentedEmbeddings(
        rows[0] if len(rows) == 1 else np.concatenate(rows),
        space,
        np.empty(0, np.uint32),
        np.array([cut for one in told for cut in one], np.bool_) if whole else None,
        sum((Usage.of(answer.usage) for _, _, answer in parts), Usage()),
        errors,
        tuple(used),
    )
