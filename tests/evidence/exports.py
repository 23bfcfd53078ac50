"""A report in the forms of other tools, read by these tools: CycloneDX against its own schema, model cards by
huggingface_hub. Usage: exports.py REPORT BOM CARD..."""

import json
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from huggingface_hub import ModelCard


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r} instead of {wanted!r}")


def check_bom(report, text):
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    error = validator.validate_str(text)
    if error is not None:
        raise SystemExit(f"the bill of materials is not valid: {error}")
    bom = json.loads(text)
    # The validator finds faults.
    bom["components"][0]["type"] = "no such type"
    if validator.validate_str(json.dumps(bom)) is None:
        raise SystemExit("a damaged bill of materials is valid")
    models = [one for one in json.loads(text)["components"] if one["type"] == "machine-learning-model"]
    expect("encoders", [one["name"] for one in models], [one["id"] for one in report["encoders"]])
    intervals = 0
    for model, profile in zip(models, report["profile"]["encoders"]):
        metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
        by_slice = {metric["slice"]: metric for metric in metrics}
        expect("slices", len(by_slice), len(metrics))
        expect("original", float(by_slice["original"]["value"]), round(profile["original"], 4))
        for drawn, of in [("data sets", "datasets"), ("items", "items")]:
            told = by_slice[f"total; interval over {drawn}"]
            known = profile["total"]["intervals"][of]
            expect("total", float(told["value"]), round(profile["total"]["delta"], 4))
            expect("lower bound", float(told["confidenceInterval"]["lowerBound"]), round(known["low"], 4))
            expect("upper bound", float(told["confidenceInterval"]["upperBound"]), round(known["high"], 4))
        intervals += sum("confidenceInterval" in metric for metric in metrics)
    return len(models), intervals


def check_card(report, path):
    card = ModelCard.load(path)
    name = card.data.model_name
    profile = next(one for one in report["profile"]["encoders"] if one["encoder"] == name)
    results = card.data.eval_results
    originals = [one for one in results if one.metric_name == "original texts"]
    expect(f"{name}: data sets", [one.dataset_name for one in originals], [one["dataset"] for one in profile["datasets"]])
    expect(f"{name}: originals", [one.metric_value for one in originals], [one["original"] for one in profile["datasets"]])
    totals = [one.metric_value for one in results if one.metric_name == "transformed texts, total"]
    expect(f"{name}: totals", totals, [one["total"]["mean"] for one in profile["datasets"] if one["total"]])
    expect(f"{name}: rows", card.text.count("\n| "), len(profile["datasets"]) + 1)
    return len(results)


def main():
    report, bom, *cards = map(Path, sys.argv[1:])
    report = json.loads(report.read_text())
    models, intervals = check_bom(report, bom.read_text())
    results = [check_card(report, card) for card in cards]
    expect("cards", len(cards), len(report["encoders"]))
    print(f"exports: {models} encoders with {intervals} intervals in valid CycloneDX 1.6; {sum(results)} results of {len(cards)} model cards")


main()
