#!/usr/bin/env python3
"""A third party's client of augmented encoding (GASE): stubs generated from the .proto files, plain grpcio, no code of ours.

Against a running `isomer serve` it checks that `EncodeAugmented` over an augmentation without a generator
  * pools the vectors that `Encode` returns for the original and the variants, by mean, max and weights, as numpy does,
  * marks its vector space,
  * refuses a weight outside 0 to 1, naming the field.

Exit code 0: all checks pass. 1: a check or a call failed (the reason is on stderr).
"""

import argparse
import sys

import grpc
import numpy as np

from isomer_stubs import CheckFailed, channel, described, expect, generated_stubs

TEXTS = [
    "The committee postponed its decision because two members were ill.",
    "How many people live in the capital?",
    "A man is playing the guitar on a busy street in town.",
]


def rows(matrix):
    return np.frombuffer(matrix.data, dtype="<f4").reshape(matrix.rows, matrix.cols)


def unit(vector):
    return vector / np.linalg.norm(vector)


def check(connection, stubs, encoder_id):
    transform = stubs.message("isomer/transform/v1/transform")
    encoder = stubs.message("isomer/encoder/v1/encoder")
    augment = stubs.grpc("isomer/transform/v1/transform").AugmentationServiceStub(connection)
    encode = stubs.grpc("isomer/encoder/v1/encoder").EncoderServiceStub(connection)
    kinds = [
        transform.Transformation(stopword_removal=transform.StopwordRemoval()),
        transform.Transformation(random_keywords=transform.RandomKeywords()),
    ]
    spec = transform.AugmentationSpec(sources=[transform.VariantSource(transformation=kind) for kind in kinds])
    poolings = {
        "mean": (transform.AUGMENTATION_POOLING_MEAN, None, lambda own, variants: np.vstack([own, variants]).mean(axis=0)),
        "max": (transform.AUGMENTATION_POOLING_MAX, None, lambda own, variants: np.vstack([own, variants]).max(axis=0)),
        "weighted": (
            transform.AUGMENTATION_POOLING_WEIGHTED,
            0.6,
            lambda own, variants: 0.6 * own + 0.4 * variants.mean(axis=0),
        ),
    }
    normalises = encode.GetEncoder(encoder.GetEncoderRequest(id=encoder_id), timeout=300).encoder.normalises
    spaces = set()
    for name, (pooling, weight, pooled) in poolings.items():
        request = transform.EncodeAugmentedRequest(
            spec=spec,
            items=[transform.TextItem(text=text, language="en") for text in TEXTS],
            encoder_id=encoder_id,
            pooling=pooling,
            original_weight=weight,
        )
        response = augment.EncodeAugmented(request, timeout=300)
        expect(not response.errors, f"items failed: {response.errors}")
        expect(len(response.used) == len(TEXTS), f"{len(response.used)} entries of variants for {len(TEXTS)} texts")
        for text, used, row in zip(TEXTS, response.used, rows(response.embeddings)):
            expect(list(used.sources) == [0, 1] and not used.missing, f"variants of {text!r}: {used}")
            texts = [text, *(variant.text for variant in used.variants)]
            inputs = [encoder.Input(text=text) for text in texts]
            plain = rows(encode.Encode(encoder.EncodeRequest(encoder_id=encoder_id, inputs=inputs), timeout=300).embeddings)
            wanted = pooled(plain[0].astype(np.float64), plain[1:].astype(np.float64))
            wanted = unit(wanted) if normalises else wanted
            gap = np.abs(row - wanted).max()
            expect(gap <= 2e-7, f"{name}: {text!r} is {gap:.3g} from numpy's pooling")
        expect(response.vector_space.augmentation, "the vector space is not marked as augmented")
        spaces.add(response.vector_space.digest)
    expect(len(spaces) == len(poolings), "two poolings share a vector space")
    print(f"pooling: {', '.join(poolings)} of {len(TEXTS)} texts with {len(kinds)} variants each are numpy's")

    request.original_weight = 1.5
    try:
        augment.EncodeAugmented(request, timeout=60)
        raise CheckFailed("a weight of 1.5 was accepted")
    except grpc.RpcError as error:
        expect(error.code() is grpc.StatusCode.INVALID_ARGUMENT, f"a weight of 1.5: {described(error)}")
        # google.rpc.BadRequest, encoded; it contains the field's name as plain text.
        details = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
        expect(b"original_weight" in details, f"the field is not named: {described(error)}")
    print("refusal: a weight of 1.5 is refused by name")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="host:port of a running server")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2", help="encoder id (default: %(default)s)")
    args = parser.parse_args()
    try:
        with generated_stubs() as stubs, channel(args.address) as connection:
            grpc.channel_ready_future(connection).result(timeout=10)
            check(connection, stubs, args.encoder)
    except grpc.FutureTimeoutError:
        print(f"FAILED: no server at {args.address} within 10 s", file=sys.stderr)
        return 1
    except grpc.RpcError as error:
        print(f"FAILED: {described(error)}", file=sys.stderr)
        return 1
    except (CheckFailed, OSError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
