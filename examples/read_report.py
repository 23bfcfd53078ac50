"""A walk through report.json, cell by cell. Usage: python3 read_report.py [FOLDER/report.json]

Editors that know `# %%` run each cell by itself, like a notebook. eval-svc/schema/report-1.json is
the schema of the file.
"""

# %% Read the report.
import json
import sys

path = sys.argv[1] if len(sys.argv) > 1 else "isomer-report/report.json"
with open(path, encoding="utf-8") as file:
    report = json.load(file)
print(f"{report['schema']}, suite {report['suite']['name']}, {report['run']['seconds']:.1f} s")

# %% The verdict. `gate` is null if there are no rules.
gate = report["gate"]
if gate:
    print(f"gate: {gate['verdict']}")
    for encoder in gate["encoders"]:
        for rule, judged in zip(gate["rules"], encoder["rules"]):
            print(f"  {encoder['encoder']}: {rule['title']}: {judged['verdict']}")

# %% The score of each encoder, out of 100.
for encoder in report["profile"]["encoders"]:
    print(f"{encoder['encoder']}: {encoder['original']:.1f} on the original texts")

# %% Whether the rewrites are useful: shares of texts that stayed the same, or differ in one word.
# Old reports do not say.
for rate in report["error_rates"]:
    same, near = (f"{100 * rate[share]:.1f} %" if rate[share] is not None else "unknown" for share in ("same", "near_copies"))
    print(f"{rate['transformation']}: {same} stayed the same, {near} near copies")

# %% How far vectors move.
for row in report["drift"]:
    print(f"{row['encoder']}, {row['dataset']}, {row['transformation']}: mean drift {row['mean']:.3f}")

# %% The texts whose vectors moved most.
moved = sorted(report["examples"], key=lambda example: -(example["drift"] or 0))
for example in moved[:3]:
    print(f"{example['drift']:.3f}\n  {example['original']}\n  {example['transformed']}")
