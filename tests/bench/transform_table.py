#!/usr/bin/env python3
"""Error rates and measures of every transformation, on sentences of STSBenchmark, beside the papers' values.

For each transformation the texts go through a running server twice: with one attempt, which gives the error rates of the model
as HTEB counts them (appendix A.2, table 5), and with --attempts, which gives the texts that are measured. Generated texts
are in the server's cache: an interrupted run continues where it stopped, and a second run calls no model.

  isomer serve --listen 127.0.0.1:50051 &
  python tests/bench/transform_table.py STSBenchmark/test.jsonl --server 127.0.0.1:50051 > table.md

Columns. Errors: percent of all texts, first attempt; a text may have several, `any` counts a text once. `after retries`: percent of
texts that still fail. `too short`: percent of texts that are too short for language detection; they count as neither right nor wrong.
Measures, of the texts that passed, mean ± sample SD: word-level edit distance over the longer word count, word-level Jaccard;
length: mean words of the transformed texts over mean words of the originals (words between spaces, as HTEB's table 23);
drift: 1 - cosine between the vectors of original and transformed text. For distractors, each text counts.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import isomer_stubs  # noqa: E402

TRANSFORMATIONS = [
    "paraphrase",
    "backtranslation",
    "style_change",
    "expansion",
    "summarisation",
    "summarised_expansion",
    "translation",
    "cross_translation",
    "keywords",
    "distractors",
]
CHECKS = [
    ("CHECK_IDENTICAL", "identical"),
    ("CHECK_EMPTY", "empty"),
    ("CHECK_ELLIPSIS", "ellipsis"),
    ("CHECK_STRUCTURED", "JSON"),
    ("CHECK_REASONING_LEAK", "reasoning"),
    ("CHECK_INSTRUCTION_PREFIX", "prefix"),
    ("CHECK_WRONG_LANGUAGE", "wrong language"),
    ("CHECK_RUNAWAY", "runaway"),
    ("CHECK_TRUNCATED", "truncated"),
    ("CHECK_SUMMARY_LONGER", "summary longer"),
    ("CHECK_TOO_FEW", "too few"),
    ("CHECK_DUPLICATE", "duplicate"),
]
# HTEB table 5 and its footnote 3, Gemma-3-27B-int4-AWQ, in percent of all transformations of STS-B.
HTEB_ERRORS = [1.7, 0.0, 0.0, 0.1, 0.0, 0.0, 0.6, 0.2, 0.0, 0.4, None, None, 3.0]
# Length ratios: HTEB table 23 (Gemma-3-27B, mean of 19 English datasets); keywords: GASE, appendix
# B (16.1 of 58.2 words). Edit distance: PTEB table 4 (gemma3-27b). Jaccard: CLSD (GPT-4, German and
# French news; original against distractor).
PAPER_LENGTH = {
    "paraphrase": "0.93",
    "backtranslation": "0.94",
    "style_change": "1.07",
    "expansion": "4.32",
    "summarisation": "0.37",
    "summarised_expansion": "1.08",
    "translation": "0.96",
    "cross_translation": "0.95",
    "keywords": "0.28",
}
PAPER_EDIT = {"paraphrase": "0.81"}
PAPER_JACCARD = {"distractors": "0.47 ± 0.17"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", help="JSONL with sentence1, such as STSBenchmark's test file")
    parser.add_argument("--server", default="127.0.0.1:50051", help="server of the transformations")
    parser.add_argument("--encoder-server", help="server of the encoder [default: --server]")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--generator", default="", help="[default: the server's]")
    parser.add_argument("--count", type=int, default=100, help="sentences, taken at equal intervals from the file")
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--transformations", default=",".join(TRANSFORMATIONS))
    parser.add_argument("--details", help="file for every result as JSONL")
    args = parser.parse_args()
    rows = [json.loads(line) for line in open(args.sentences, encoding="utf-8")]
    # The row's number is the id, on which random choices depend: with more sentences later, these
    # keep their languages.
    picked = [at * len(rows) // args.count for at in range(args.count)]
    originals = [rows[row]["sentence1"] for row in picked]
    with isomer_stubs.generated_stubs() as stubs:
        transform = Transform(stubs, args, picked, originals)
        drift = Drift(stubs, args, originals)
        details = open(args.details, "w", encoding="utf-8") if args.details else None
        errors, measures = [], []
        for name in args.transformations.split(","):
            began = time.monotonic()
            first = transform.run(name, 1)
            last = transform.run(name, args.attempts)
            errors.append(error_row(name, first, last, transform))
            measures.append(measure_row(name, originals, last, drift))
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            for index, result in enumerate(last) if details else []:
                line = {
                    "transformation": name,
                    "original": originals[index],
                    "text": result.text,
                    "texts": list(result.texts),
                    "failed": [transform.check(check) for check in result.failed_checks],
                    "first": [transform.check(check) for check in first[index].failed_checks],
                    "languages": list(result.provenance.languages),
                    "calls": [call.text for call in result.calls],
                }
                print(json.dumps(line, ensure_ascii=False), file=details)
    columns = ["transformation", *(label for _, label in CHECKS), "any", "after retries", "too short"]
    print(f"{len(originals)} sentences, seed {args.seed}, {args.attempts} attempts\n")
    print("Errors at the first attempt, %:\n")
    paper = ["*HTEB, all*", *("" if value is None else f"*{value:.1f}*" for value in HTEB_ERRORS), "", ""]
    table(columns, [*errors, paper])
    print("\nMeasures of the texts that passed (papers in italics):\n")
    table(["transformation", "texts", "edit distance", "Jaccard", "length", "drift", "Jaccard in the set"], measures)


class Transform:
    """The service; transforms all texts with one transformation at a time."""

    def __init__(self, stubs, args, ids, originals):
        self.proto = stubs.message("isomer/transform/v1/transform")
        options = [("grpc.max_receive_message_length", isomer_stubs.MAX_MESSAGE_BYTES)]
        channel = grpc.insecure_channel(args.server, options=options)
        self.client = stubs.grpc("isomer/transform/v1/transform").TransformServiceStub(channel)
        self.args, self.ids, self.originals = args, ids, originals

    def run(self, name, attempts):
        transformation = self.proto.Transformation()
        getattr(transformation, name).SetInParent()
        spec = self.proto.TransformSpec(
            transformation=transformation,
            generator_id=self.args.generator,
            seed=self.args.seed,
            max_attempts=attempts,
            on_failure=self.proto.ON_FAILURE_DROP,
        )
        items = [
            self.proto.TextItem(id=str(row), text=text, language="en") for row, text in zip(self.ids, self.originals)
        ]
        results = [None] * len(items)
        for event in self.client.TransformStream(self.proto.TransformStreamRequest(spec=spec, items=items)):
            if event.HasField("result"):
                results[event.result.index] = event.result
                done = sum(result is not None for result in results)
                if done % 20 == 0:
                    print(f"  {name}, {attempts} attempt(s): {done} of {len(items)}", file=sys.stderr, flush=True)
        return results

    def check(self, number):
        return self.proto.Check.Name(number)


class Drift:
    """Cosines between vectors of the encoder."""

    def __init__(self, stubs, args, originals):
        self.proto = stubs.message("isomer/encoder/v1/encoder")
        options = [("grpc.max_receive_message_length", isomer_stubs.MAX_MESSAGE_BYTES)]
        channel = grpc.insecure_channel(args.encoder_server or args.server, options=options)
        self.client = stubs.grpc("isomer/encoder/v1/encoder").EncoderServiceStub(channel)
        self.encoder = args.encoder
        self.known = {}
        self.vectors(originals)

    def vectors(self, texts):
        new = sorted(set(texts) - self.known.keys())
        if new:
            inputs = [self.proto.Input(text=text) for text in new]
            response = self.client.Encode(self.proto.EncodeRequest(encoder_id=self.encoder, inputs=inputs))
            self.known.update(zip(new, rows_of(response.embeddings)))
        return [self.known[text] for text in texts]

    def between(self, pairs):
        a = self.vectors([original for original, _ in pairs])
        b = self.vectors([text for _, text in pairs])
        return [1 - cosine(x, y) for x, y in zip(a, b)]


def rows_of(matrix):
    import numpy

    return numpy.frombuffer(matrix.data, dtype="<f4").reshape(matrix.rows, matrix.cols).astype("f8")


def cosine(x, y):
    return float(x @ y / ((x @ x) ** 0.5 * (y @ y) ** 0.5))


def error_row(name, first, last, transform):
    def share(hit, results):
        return f"{100 * sum(map(hit, results)) / len(results):.0f}"

    def fired(check):
        return lambda result: any(transform.check(number) == check for number in result.failed_checks)

    cells = [share(fired(check), first) for check, _ in CHECKS]
    failed = [share(lambda result: len(result.failed_checks) > 0, results) for results in (first, last)]
    short = transform.proto.LANGUAGE_CHECK_TOO_SHORT
    return [name, *cells, *failed, share(lambda result: result.language_check == short, last)]


def measure_row(name, originals, results, drift):
    pairs, measures, inside = [], [], []
    for original, result in zip(originals, results):
        if result.failed_checks:
            continue
        if result.texts:
            pairs += [(original, text) for text in result.texts]
            measures += result.text_measures
            inside += [result.set_jaccard] if result.HasField("set_jaccard") else []
        else:
            pairs.append((original, result.text))
            measures.append(result.measures)
    if not pairs:
        return [name, "0", "", "", "", "", ""]
    words = sum(len(text.split()) for _, text in pairs) / sum(len(original.split()) for original, _ in pairs)
    return [
        name,
        str(len(pairs)),
        spread(m.edit_distance for m in measures) + paper(PAPER_EDIT, name),
        spread(m.jaccard for m in measures) + paper(PAPER_JACCARD, name),
        f"{words:.2f}" + paper(PAPER_LENGTH, name),
        spread(drift.between(pairs)),
        spread(inside),
    ]


def spread(values):
    values = list(values)
    if not values:
        return ""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f}"


def paper(values, name):
    return f" (*{values[name]}*)" if name in values else ""


def table(columns, rows):
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
