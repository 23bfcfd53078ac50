"""Scores for pages of Hugging Face, read by huggingface_hub. Usage:
    eval_results.py make REPORT OUT     the report, with its data sets as the hub has them
    eval_results.py check REPORT FILE...  the files that were exported from it"""

import json
import sys
import tomllib
from pathlib import Path

import yaml
from huggingface_hub import eval_result_entries_to_yaml, parse_eval_result_entries

CATALOGUE = Path(__file__).resolve().parents[2] / "crates/datasets/catalogue/datasets.toml"


def tasks():
    return {one["name"]: one for one in tomllib.loads(CATALOGUE.read_text())["dataset"]}


def make(report, out):
    report, known = json.loads(report.read_text()), tasks()
    for dataset in report["datasets"]:
        if dataset["name"] in known:
            dataset["revision"] = known[dataset["name"]]["revision"]
    out.write_text(json.dumps(report))


def check(report, *files):
    report, known, entries = json.loads(report.read_text()), tasks(), 0
    if len(files) != len(report["encoders"]):
        raise SystemExit(f"{len(files)} files of {len(report['encoders'])} encoders")
    by_value = {}
    for profile in report["profile"]["encoders"]:
        for dataset in profile["datasets"]:
            by_value[dataset["dataset"], round(dataset["original"], 5)] = profile["encoder"]
    samples = {one["name"] for one in report["datasets"] if one.get("sample")}
    for file in files:
        content = yaml.safe_load(file.read_text())
        parsed = parse_eval_result_entries(content)
        again = eval_result_entries_to_yaml(parsed)
        if again != content:
            raise SystemExit(f"{file}: read and written again it is {again}")
        of = set()
        for entry in parsed:
            name, subset, split = entry.task_id.rsplit("_", 2)
            task = known[name]
            if (entry.dataset_id, entry.dataset_revision, split) != (task["hub"], task["revision"], task["split"]):
                raise SystemExit(f"{file}: {entry} is not the task {name}")
            if name in samples:
                raise SystemExit(f"{file}: a score of a sample of {name}")
            of.add(by_value[name, entry.value])
            if subset != "default" or not entry.date or entry.source_url != "https://example.com/report.html":
                raise SystemExit(f"{file}: {entry}")
        if len(of) != 1:
            raise SystemExit(f"{file}: scores of {of}")
        entries += len(parsed)
    print(f"exports: {entries} scores of {len(files)} encoders for .eval_results, read by huggingface_hub")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*map(Path, sys.argv[2:]))
