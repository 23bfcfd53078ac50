#!/usr/bin/env python3
"""OpenAI's own Python client, unchanged, against a running `isomer serve`.

It checks that
  * `client.embeddings.create` returns the vectors that `isomer embed --output` wrote for the same texts, bit for bit, both as
    base64 (the client's default) and as floats, for one text and for many,
  * `client.models.list` and `retrieve` name the encoder,
  * invalid requests raise the client's own exceptions, with the field's name,
  * `augment` (through `extra_body`) returns other vectors and lists what was pooled.

Exit code 0: all checks pass. 1: a check failed (the reason is on stderr).
"""

import argparse
import base64
import pathlib
import sys

import numpy as np
import openai

from isomer_stubs import CheckFailed, expect, read_texts

BATCH = 64
# Texts compared: enough for every length, some empty, some not English.
MOST = 150


def vectors(answer):
    expect([one.index for one in answer.data] == list(range(len(answer.data))), "embeddings are not in order")
    return np.array([one.embedding for one in answer.data], dtype=np.float32)


def check_vectors(client, model, texts, expected):
    for form in [openai.NOT_GIVEN, "float", "base64"]:
        for start in range(0, len(texts), BATCH):
            answer = client.embeddings.create(model=model, input=texts[start : start + BATCH], encoding_format=form, user="test")
            if form == "base64":
                raw = b"".join(base64.b64decode(one.embedding) for one in answer.data)
                found = np.frombuffer(raw, dtype="<f4").reshape(len(answer.data), -1)
            else:
                found = vectors(answer)
            same = np.array_equal(found, expected[start : start + BATCH])
            expect(same, f"rows {start} and on differ from the command line's ({form})")
            expect(answer.usage.prompt_tokens > 0 and answer.model == model, f"no usage or model in {answer.usage}, {answer.model}")
    one = vectors(client.embeddings.create(model=model, input=texts[0]))
    expect(np.array_equal(one[0], expected[0]), "one text alone has another vector")
    print(f"embeddings: {len(texts)} texts as floats and as base64, bit for bit")


def check_models(client, model):
    ids = [one.id for one in client.models.list()]
    expect(model in ids, f"{model} is not among {ids}")
    expect(client.models.retrieve(model).id == model, "retrieve names another model")
    print(f"models: {len(ids)}")


def check_errors(client, model):
    wrong = [
        (openai.NotFoundError, "model", {"model": "no-such-encoder", "input": "a"}),
        (openai.BadRequestError, "input", {"model": model, "input": []}),
        (openai.BadRequestError, "dimensions", {"model": model, "input": "a", "dimensions": 100_000}),
        (openai.BadRequestError, "augmnt", {"model": model, "input": "a", "extra_body": {"augmnt": {}}}),
        (
            openai.BadRequestError,
            "augment.transformations[0]",
            {"model": model, "input": "a", "extra_body": {"augment": {"transformations": ["keyword"]}}},
        ),
    ]
    for kind, param, request in wrong:
        try:
            answer = client.embeddings.create(**request)
        except openai.APIStatusError as error:
            expect(type(error) is kind, f"{request}: {type(error).__name__}: {error}")
            expect(error.param == param, f"{request}: blames {error.param}: {error}")
        else:
            raise CheckFailed(f"{request} was answered with {answer}")
    print(f"errors: {len(wrong)} of the client's own kinds")


def check_augmented(client, model, texts):
    augment = {"transformations": ["stopword_removal", "random_keywords"], "language": "en", "pooling": "mean"}
    plain = vectors(client.embeddings.create(model=model, input=texts))
    answer = client.embeddings.create(model=model, input=texts, extra_body={"augment": augment})
    found = vectors(answer)
    expect(found.shape == plain.shape and not np.allclose(found, plain), "augmented vectors equal the plain ones")
    used = answer.model_extra["augment"]["used"]
    expect([len(one["variants"]) for one in used] == [2] * len(texts), f"two variants per text were requested: {used}")
    again = client.embeddings.create(model=model, input=[texts[0]] + [one["text"] for one in used[0]["variants"]])
    pooled = vectors(again).mean(axis=0)
    # Scaled to length 1 where the encoder's own vectors are.
    if np.allclose(np.linalg.norm(plain, axis=1), 1, atol=1e-3):
        pooled /= np.linalg.norm(pooled)
    expect(np.allclose(found[0], pooled, atol=1e-5), "the pooled vector is not the mean of its parts")
    print(f"augment: {len(texts)} texts, two variants each, pooled as numpy does")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="host:port of the server")
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("vectors", type=pathlib.Path, help="matrix (.npy) of the texts' vectors")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    args = parser.parse_args()
    texts, expected = read_texts(args.texts), np.load(args.vectors)
    client = openai.OpenAI(base_url=f"http://{args.address}/v1", api_key="not-asked-for", max_retries=0)
    try:
        check_vectors(client, args.model, texts[:MOST], expected[:MOST])
        check_models(client, args.model)
        check_errors(client, args.model)
        check_augmented(client, args.model, [text for text in texts if len(text.split()) > 3 and text.isascii()][:8])
    except CheckFailed as failure:
        print(f"openai_client: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
