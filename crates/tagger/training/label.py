#!/usr/bin/env python3
"""Silver labels: runs spaCy's English pipeline over sentences and writes what the trainer and the comparison read.

    label.py MODEL_DIR INPUT [INPUT ...] > OUT.tagged

INPUT, by its ending:
  .tsv     WikiSplit: a long sentence, a tab, the same split in two (joined by <::::>); both sides are taken
  .jsonl   rows with `text`, or `sentence1` and `sentence2`
  .conllu  a treebank: the `# text` lines
  other    one sentence a line

OUT: per sentence a line `# text = …`, then a line per token: first and last+1 byte in the text, UPOS, BIO entity tag,
separated by tabs; a blank line ends it. Equal sentences are labelled once.

Needs: spacy 3.8 and the folder of a model for it (en_core_web_md 3.8.0, MIT; the README says where it is had).
"""

import json
import re
import sys

import spacy


def detached(text):
    """Undoes the tokenised spelling of a corpus: ` ,` becomes `,`. Quotes in two apostrophes become one character."""
    text = re.sub(r"''\s*(.*?)\s*''", r'"\1"', text)
    text = re.sub(r"\s+([,.;:!?%)\]]|'s\b|'(?=\s)|n't\b)", r"\1", text)
    return re.sub(r"([(\[$])\s+", r"\1", text)


def sentences(path):
    with open(path, encoding="utf-8") as lines:
        if path.endswith(".tsv"):
            for number, line in enumerate(lines):
                whole, parts = line.rstrip("\n").split("\t")
                for side, text in enumerate([whole, *parts.split("<::::>")]):
                    # Half as written there, half as a person writes: both occur in data sets.
                    yield detached(text.strip()) if (number + side) % 2 else text.strip()
        elif path.endswith(".jsonl"):
            for line in lines:
                row = json.loads(line)
                yield from (row[field] for field in ("text", "sentence1", "sentence2") if field in row)
        elif path.endswith(".conllu"):
            yield from (line[9:].rstrip("\n") for line in lines if line.startswith("# text = "))
        else:
            yield from (line.rstrip("\n") for line in lines)


def main():
    nlp = spacy.load(sys.argv[1], exclude=["parser", "lemmatizer", "senter"])
    seen = set()

    def unseen():
        for path in sys.argv[2:]:
            for text in sentences(path):
                text = " ".join(text.split())
                if text and text not in seen:
                    seen.add(text)
                    yield text

    for doc in nlp.pipe(unseen(), batch_size=256):
        print(f"# text = {doc.text}")
        at, chars = 0, 0
        for token in doc:
            at += len(doc.text[chars : token.idx].encode())
            end = at + len(token.text.encode())
            tag = token.ent_iob_ if token.ent_iob_ in "O" else f"{token.ent_iob_}-{token.ent_type_}"
            print(f"{at}\t{end}\t{token.pos_}\t{tag or 'O'}")
            at, chars = end, token.idx + len(token.text)
        print()


if __name__ == "__main__":
    main()
