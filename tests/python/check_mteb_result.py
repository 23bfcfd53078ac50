"""Reads task-result documents with mteb's own reader and prints what mteb reads.

    pip install mteb==2.20.0
    python tests/python/check_mteb_result.py result.json [more.json ...]

Exits with 1 and the reason if mteb refuses a document or reads other numbers than the document contains.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

from mteb.results import TaskResult


def fail(message):
    print(f"mteb result: {message}", file=sys.stderr)
    sys.exit(1)


def main():
    if len(sys.argv) < 2:
        fail("give the path of a JSON document")
    for path in sys.argv[1:]:
        check(Path(path))


def check(path):
    document = json.loads(path.read_text(encoding="utf-8"))

    from_disk = TaskResult.from_disk(path)
    strict = TaskResult.from_disk(path, load_historic_data=False)
    from_dict = TaskResult.from_dict(document)
    if not from_disk.scores == strict.scores == from_dict.scores:
        fail("mteb's readers disagree")

    mains = [entry["main_score"] for entries in document["scores"].values() for entry in entries]
    if not mains or not all(isinstance(m, float) and math.isfinite(m) for m in mains):
        fail(f"main scores are {mains}")
    if not math.isclose(from_disk.get_score(), sum(mains) / len(mains), abs_tol=1e-12):
        fail(f"mteb reads {from_disk.get_score()}, the document says {mains}")

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.json"
        from_disk.to_disk(copy)
        if TaskResult.from_disk(copy).scores != from_disk.scores:
            fail("mteb rounds or changes the scores when it writes them back")

    print(
        f"{from_disk.task_name}: {from_disk.get_score():.6f} (splits {from_disk.eval_splits}, subsets "
        f"{from_disk.hf_subsets}, languages {from_disk.languages}, revision {from_disk.dataset_revision[:20]}…)"
    )


if __name__ == "__main__":
    main()
