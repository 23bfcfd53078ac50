"""The drop-in beside sentence-transformers itself, on the same model files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")
from isomer_client import InvalidArgument
from isomer_client.integrations.sentence_transformers import IsomerSentenceTransformer
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

TEXTS = ["The gardener watered the roses.", "Before breakfast, the roses were watered.", "Our train to Lisbon was cancelled.", ""]
# The vectors of the two implementations differ in their last bits.
NEAR = {"rtol": 0, "atol": 2e-5}


@pytest.fixture(scope="module")
def ours(client: Any) -> Any:
    return IsomerSentenceTransformer("tiny", client)


@pytest.fixture(scope="module")
def theirs(model_folder: str) -> Any:
    return SentenceTransformer(model_folder, device="cpu")


def test_vectors_are_those_of_sentence_transformers(ours: Any, theirs: Any) -> None:
    for options in ({}, {"prompt_name": "query"}, {"prompt": "search: "}, {"normalize_embeddings": True}, {"truncate_dim": 8}):
        found, due = ours.encode(TEXTS, **options), theirs.encode(TEXTS, **options)
        assert found.shape == due.shape and found.dtype == due.dtype
        np.testing.assert_allclose(found, due, **NEAR, err_msg=str(options))
    np.testing.assert_allclose(ours.encode_query(TEXTS), theirs.encode_query(TEXTS), **NEAR)
    # The library's documentation says that `passage` stands in for `document`; 6.2.0 leaves it out.
    np.testing.assert_allclose(ours.encode_document(TEXTS), theirs.encode(TEXTS, prompt_name="passage"), **NEAR)


def test_forms_of_the_answer(ours: Any, theirs: Any) -> None:
    one, due = ours.encode("river"), theirs.encode("river")
    assert one.shape == due.shape
    tensors, due = ours.encode(TEXTS, convert_to_tensor=True), theirs.encode(TEXTS, convert_to_tensor=True)
    assert type(tensors) is type(due) and tensors.shape == due.shape
    rows, due = ours.encode(TEXTS[:2], output_value="token_embeddings"), theirs.encode(TEXTS[:2], output_value="token_embeddings")
    for found, wanted in zip(rows, due):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), **NEAR)
    assert len(ours.encode(TEXTS, convert_to_numpy=False)) == len(TEXTS)
    with pytest.raises(InvalidArgument):
        ours.encode(TEXTS, precision="uint8")


def test_what_it_says_of_itself(ours: Any, theirs: Any) -> None:
    assert ours.prompts == {name: text for name, text in theirs.prompts.items() if text}
    assert ours.get_sentence_embedding_dimension() == theirs.get_embedding_dimension()
    assert ours.max_seq_length == theirs.max_seq_length
    assert ours.similarity_fn_name == theirs.similarity_fn_name


def test_the_librarys_own_functions_take_it(ours: Any, theirs: Any) -> None:
    vectors = ours.encode(TEXTS)
    np.testing.assert_allclose(ours.similarity(vectors, vectors).numpy(), theirs.similarity(vectors, vectors).numpy(), rtol=0, atol=1e-6)
    assert ours.similarity_pairwise(vectors, vectors).shape == (4,)
    found = util.semantic_search(ours.encode(TEXTS[:1]), ours.encode(TEXTS), top_k=1)
    assert found[0][0]["corpus_id"] == 0
    evaluator = EmbeddingSimilarityEvaluator(TEXTS[:3] * 3, TEXTS[1:] * 3, [0.9, 0.1, 0.3] * 3)
    assert evaluator(ours)["spearman_cosine"] == pytest.approx(evaluator(theirs)["spearman_cosine"], abs=1e-6)
