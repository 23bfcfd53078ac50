#!/usr/bin/env python3
"""Checks the quick suite's files: shapes, counts, balance, lengths, references. Standard library only.

Prints the counts and exits with 0, or prints each fault (file, line, fault) and exits with 1.
"""

import argparse
import collections
import json
import pathlib
import sys

# Promised in the suite's README (words, both ends included).
SENTENCE_WORDS = (5, 14)
QUERY_WORDS = (4, 12)
DOCUMENT_WORDS = (25, 60)


class Report:
    """Collects faults so that one run shows all of them."""

    def __init__(self):
        self.faults = []

    def expect(self, condition, where, what):
        if not condition:
            self.faults.append(f"{where}: {what}")
        return condition


def read_jsonl(path, fields, report):
    """Rows of a JSONL file as (place, object); a row whose fields are not exactly `fields` is a fault."""
    rows = []
    text = path.read_text(encoding="utf-8")
    report.expect(text.endswith("\n"), path, "does not end with a newline")
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            report.expect(False, where, f"not JSON: {error}")
            continue
        if report.expect(set(row) == set(fields), where, f"has fields {sorted(row)}, should be {sorted(fields)}"):
            rows.append((where, row))
    return rows


def check_text(text, bounds, where, report):
    low, high = bounds
    words = len(text.split())
    report.expect(low <= words <= high, where, f"{words} words, should be {low} to {high}: {text!r}")
    report.expect(text == " ".join(text.split()), where, f"stray white space: {text!r}")


def check_pairs(path, label, report):
    rows = read_jsonl(path, ["sentence1", "sentence2", label], report)
    seen = {}
    for where, row in rows:
        for side in ("sentence1", "sentence2"):
            check_text(row[side], SENTENCE_WORDS, where, report)
        report.expect(row["sentence1"] != row["sentence2"], where, "both sentences are the same")
        key = frozenset((row["sentence1"], row["sentence2"]))
        report.expect(key not in seen, where, f"the same pair as {seen.get(key)}")
        seen[key] = where
    return rows


def check_sts(folder, report):
    rows = check_pairs(folder / "test.jsonl", "score", report)
    for where, row in rows:
        score = row["score"]
        valid = isinstance(score, (int, float)) and 0 <= score <= 5 and score * 2 == int(score * 2)
        report.expect(valid, where, f"score {score!r} is not one of 0, 0.5 … 5")
    report.expect(len(rows) >= 80, folder, f"{len(rows)} pairs, should be at least 80")
    counts = collections.Counter(row["score"] for _, row in rows)
    for step in range(11):
        report.expect(counts[step / 2] >= 3, folder, f"only {counts[step / 2]} pairs with score {step / 2}")
    print(f"sts: {len(rows)} pairs; " + ", ".join(f"{score:g}: {n}" for score, n in sorted(counts.items())))
    return rows


def check_pair_classification(folder, report):
    rows = check_pairs(folder / "test.jsonl", "label", report)
    for where, row in rows:
        report.expect(row["label"] in (0, 1), where, f"label {row['label']!r} is neither 0 nor 1")
    report.expect(len(rows) >= 80, folder, f"{len(rows)} pairs, should be at least 80")
    positive = sum(row["label"] == 1 for _, row in rows)
    report.expect(2 * positive == len(rows), folder, f"{positive} of {len(rows)} labels are 1, should be half")
    print(f"pair-classification: {len(rows)} pairs, {positive} positive")
    return rows


def check_ids(rows, report):
    counts = collections.Counter(row["_id"] for _, row in rows)
    for where, row in rows:
        report.expect(counts[row["_id"]] == 1, where, f"id {row['_id']!r} occurs {counts[row['_id']]} times")
    return set(counts)


def check_retrieval(folder, report):
    documents = read_jsonl(folder / "corpus.jsonl", ["_id", "title", "text"], report)
    queries = read_jsonl(folder / "queries.jsonl", ["_id", "text"], report)
    for where, row in documents:
        check_text(row["text"], DOCUMENT_WORDS, where, report)
        report.expect(row["title"].strip(), where, "no title")
    for where, row in queries:
        check_text(row["text"], QUERY_WORDS, where, report)
    document_ids, query_ids = check_ids(documents, report), check_ids(queries, report)

    path = folder / "qrels" / "test.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()
    report.expect(lines[:1] == ["query-id\tcorpus-id\tscore"], f"{path}:1", "wrong header")
    grades = collections.defaultdict(dict)
    for number, line in enumerate(lines[1:], start=2):
        where, parts = f"{path}:{number}", line.split("\t")
        if not report.expect(len(parts) == 3, where, "should have three columns separated by tabs"):
            continue
        query, document, score = parts
        report.expect(query in query_ids, where, f"unknown query {query!r}")
        report.expect(document in document_ids, where, f"unknown document {document!r}")
        report.expect(score in ("1", "2"), where, f"score {score!r} is neither 1 nor 2")
        report.expect(document not in grades[query], where, "judged twice")
        grades[query][document] = score
    for where, row in queries:
        report.expect("2" in grades[row["_id"]].values(), where, "no document answers it (score 2)")
    report.expect(len(documents) >= 60, folder, f"{len(documents)} documents, should be at least 60")
    report.expect(len(queries) >= 30, folder, f"{len(queries)} queries, should be at least 30")
    judgements = sum(map(len, grades.values()))
    print(f"retrieval: {len(documents)} documents, {len(queries)} queries, {judgements} judgements")
    return queries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=pathlib.Path, help="folder with sts/, pair-classification/ and retrieval/")
    folder = parser.parse_args().suite
    report = Report()
    try:
        pairs = check_sts(folder / "sts", report) + check_pair_classification(folder / "pair-classification", report)
        queries = check_retrieval(folder / "retrieval", report)
    except OSError as error:
        print(f"cannot read: {error}", file=sys.stderr)
        return 1
    texts = {row[side] for _, row in pairs for side in ("sentence1", "sentence2")}
    texts |= {row["text"] for _, row in queries}
    print(f"texts to transform: {len(texts)}, {sum(len(text.split()) for text in texts)} words")
    for fault in report.faults:
        print(fault, file=sys.stderr)
    print("ok" if not report.faults else f"{len(report.faults)} faults")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
