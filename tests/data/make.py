"""Makes the data sets of this folder from a folder of whole ones (README.md says where those come from).

    python tests/data/make.py ../shared/data

Each file is compressed without a time, so that it comes out the same everywhere.
"""

import collections
import gzip
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# File, and how many of its first rows are kept; None keeps all.
FILES = {
    "STS17/test.en-en": None,
    "STS17/test.en-ar": None,
    "STS17/test.es-es": None,
    "STS17/test.en-tr": None,
    "STS17/test.ar-ar": None,
    "PawsXPairClassification/validation.en": None,
    "PawsXPairClassification/validation.de": None,
    "PawsXPairClassification/validation.fr": None,
    "PawsXPairClassification/validation.es": None,
    "PawsXPairClassification/test.de": 1000,
    "PawsXPairClassification/test.zh": 1000,
    "Banking77Classification/test": None,
}
# The training rows of Banking77: an equal number per label.
TRAIN = 10


def write(name, lines):
    path = HERE / f"{name}.jsonl.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))


def main(folder):
    def rows(name):
        return (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)

    for name, count in FILES.items():
        write(name, rows(name)[:count])
    seen = collections.Counter()
    kept = []
    for row in rows("Banking77Classification/train"):
        label = json.loads(row)["label"]
        seen[label] += 1
        if seen[label] <= TRAIN:
            kept.append(row)
    write("Banking77Classification/train", kept)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
