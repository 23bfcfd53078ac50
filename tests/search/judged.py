"""Judged collections for tests/search/pipelines, in the form of BEIR's data sets, and nDCG@10 as trec_eval has it."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import pathlib
import random

# Subjects, each with words of its own; a document is about one of them, and mentions others.
SUBJECTS = {
    "gardening": "soil seeds roses compost watering pruning greenhouse tomatoes hedge spade".split(),
    "railways": "train platform ticket conductor signal timetable locomotive carriage junction delay".split(),
    "medicine": "patient dose vaccine infection surgery diagnosis symptom nurse therapy clinic".split(),
    "cooking": "oven recipe garlic butter simmer flour pepper saucepan roast dessert".split(),
    "finance": "interest mortgage shares dividend inflation audit loan budget pension broker".split(),
    "music": "violin rhythm concert chorus melody drummer orchestra lyrics tempo rehearsal".split(),
    "astronomy": "telescope galaxy orbit comet eclipse nebula planet gravity asteroid spectrum".split(),
    "law": "court verdict contract appeal witness statute plaintiff judge evidence hearing".split(),
}
FILLER = "the report says that in many cases people found it useful when they looked at what had changed since last year".split()


@dataclasses.dataclass
class Judged:
    """Documents and queries by key, and judgements: query, document, grade."""

    name: str
    folder: pathlib.Path
    documents: dict[str, str]
    queries: dict[str, str]
    judgements: dict[str, dict[str, int]]

    def ndcg(self, ranked: dict[str, list[str]]) -> float:
        """The mean of nDCG@10 over the queries that have judgements."""
        return sum(self._ndcg(query, ranked[query]) for query in self.judgements) / len(self.judgements)

    def _ndcg(self, query: str, ranked: list[str]) -> float:
        grades = self.judgements[query]
        gain = sum(grades.get(key, 0) / math.log2(rank + 2) for rank, key in enumerate(ranked[:10]))
        best = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:10]))
        return gain / best if best else 0.0


def rows(file: pathlib.Path) -> list[dict]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read(folder: pathlib.Path) -> Judged:
    """A data set with corpus.jsonl, queries.jsonl and qrels/test.tsv; title and text are joined as mteb joins them."""
    documents = {row["_id"]: f"{row.get('title') or ''} {row['text']}".strip() for row in rows(folder / "corpus.jsonl")}
    judgements: dict[str, dict[str, int]] = {}
    with (folder / "qrels/test.tsv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    queries = {row["_id"]: row["text"] for row in rows(folder / "queries.jsonl") if row["_id"] in judgements}
    return Judged(folder.name, folder, documents, queries, judgements)


def write(folder: pathlib.Path, documents: list[dict], queries: list[dict], judgements: list[tuple[str, str, int]]) -> Judged:
    (folder / "qrels").mkdir(parents=True)
    for name, found in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, one)) for one in judgements)]
    (folder / "qrels/test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read(folder)


def part(folder: pathlib.Path, source: Judged, most: int) -> Judged:
    """Queries of a collection, in its order, with all documents that are judged for them, up to a number of documents."""
    taken: dict[str, None] = {}
    queries = []
    for query, grades in source.judgements.items():
        more = [key for key in grades if key in source.documents and key not in taken]
        if len(taken) + len(more) > most:
            break
        taken.update(dict.fromkeys(more))
        queries.append(query)
    documents = [row for row in rows(source.folder / "corpus.jsonl") if row["_id"] in taken]
    asked = [{"_id": query, "text": source.queries[query]} for query in queries]
    return write(folder, documents, asked, [(query, key, grade) for query in queries for key, grade in source.judgements[query].items() if key in taken])


def sentence(draw: random.Random, words: list[str], own: int, others: int) -> str:
    chosen = draw.sample(words, own) + draw.sample(FILLER, others)
    draw.shuffle(chosen)
    return " ".join(chosen).capitalize() + "."


def graded(folder: pathlib.Path, documents: int = 400, queries: int = 40) -> Judged:
    """As NFCorpus: many documents of a query's subject, two grades: those with two of its words count more than those with one."""
    draw = random.Random(11)
    names = list(SUBJECTS)
    corpus, about = [], {}
    for number in range(documents):
        subject = names[number % len(names)]
        text = " ".join(sentence(draw, SUBJECTS[subject], draw.randint(2, 4), 6) for _ in range(draw.randint(2, 5)))
        corpus.append({"_id": f"d{number}", "title": sentence(draw, SUBJECTS[subject], 2, 2), "text": text})
        about[f"d{number}"] = subject
    asked, judged = [], []
    for number in range(queries):
        subject = names[number % len(names)]
        words = draw.sample(SUBJECTS[subject], 3)
        asked.append({"_id": f"q{number}", "text": f"What about {words[0]} and {words[1]} with {words[2]}?"})
        for row in corpus:
            count = sum(word in (row["title"] + row["text"]).lower() for word in words)
            if about[row["_id"]] == subject and count > 1:
                judged.append((f"q{number}", row["_id"], 2 if count == 3 else 1))
    return write(folder, corpus, asked, judged)


def claims(folder: pathlib.Path, source: Judged | None = None, count: int = 300) -> Judged:
    """As SciFact: a claim and the one document that it comes from. Of a collection with titles, or generated."""
    draw = random.Random(12)
    if source is None:
        subjects = list(SUBJECTS.values())
        corpus = [" ".join(sentence(draw, subjects[n % len(subjects)], 4, 6) for _ in range(3)) for n in range(count)]
        pairs = [(" ".join(draw.sample(text.lower().replace(".", "").split(), 8)).capitalize() + ".", text) for text in corpus]
    else:
        read_rows = [row for row in rows(source.folder / "corpus.jsonl") if row.get("title") and row.get("text")]
        pairs = [(row["title"], row["text"]) for row in draw.sample(read_rows, min(count, len(read_rows)))]
    corpus = [{"_id": f"d{n}", "title": "", "text": text} for n, (_, text) in enumerate(pairs)]
    asked = [{"_id": f"q{n}", "text": claim} for n, (claim, _) in enumerate(pairs)][::3]
    return write(folder, corpus, asked, [(row["_id"], f"d{row['_id'][1:]}", 1) for row in asked])


def plenty(file: pathlib.Path, count: int) -> pathlib.Path:
    """A number of documents of 8 to 12 words and a number, one per line, for measurements of loading."""
    draw = random.Random(13)
    subjects = list(SUBJECTS.values())
    with file.open("w", encoding="utf-8") as out:
        for number in range(count):
            text = sentence(draw, draw.choice(subjects), draw.randint(4, 6), draw.randint(4, 6)).removesuffix(".")
            out.write(json.dumps({"id": f"d{number}", "text": f"{text} {number}.", "n": number}) + "\n")
    return file
