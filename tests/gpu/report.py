"""Rows of a run, written as JSON and Markdown after each, so that a run that is cut off leaves what it has."""

import json
import math
import os
import pathlib

# Least cosine to the golden vectors that passes.
TOLERANCES = {"f32": 0.99999, "f16": 0.999, "bf16": 0.99}
# Behind the sharp softmax over its latents nothing evens the errors of random weights out; the same
# bound as in embed-svc/tests/halves.rs.
OWN_TOLERANCES = {("nv_embed", "bf16"): 0.9}
# Largest difference of a reranker's score.
SCORES = {"f32": 2e-4, "f16": 0.02, "bf16": 0.1}

COLUMNS = [
    ("what", "what"),
    ("shape", "texts"),
    ("precision", "precision"),
    ("texts_s", "texts/s"),
    ("tokens_s", "tokens/s"),
    ("mfu", "MFU"),
    ("peak_mib", "peak MiB"),
    ("parity", "parity"),
    ("tolerance", "required"),
    ("result", "result"),
    ("note", "note"),
]


def tolerance(name, precision):
    return OWN_TOLERANCES.get((name, precision), TOLERANCES[precision])


class Report:
    def __init__(self, path, facts):
        self.path, self.facts, self.rows = pathlib.Path(path), facts, []

    def add(self, what, **row):
        """A row. With `parity` it passes if that is at least `tolerance`; with `apart`, if that is at most `most`."""
        row = {"what": what, **row}
        if "result" not in row:
            row["result"] = "measured"
            if "parity" in row:
                # NaN is less than nothing, and does not pass.
                row["result"] = "ok" if row["parity"] >= row["tolerance"] else "FAILED"
            if "apart" in row and not row["apart"] <= row["most"]:
                row["result"] = "FAILED"
            elif "apart" in row and "parity" not in row:
                row["result"] = "ok"
        self.rows.append(row)
        self.write()
        shown = {key: value for key, value in row.items() if key != "rates"}
        print(" ".join(f"{key}={cell(key, value)}" for key, value in shown.items()), flush=True)
        return row

    @property
    def failed(self):
        return [row for row in self.rows if row["result"] == "FAILED"]

    def write(self):
        whole = {"facts": self.facts, "rows": [finite(row) for row in self.rows]}
        for suffix, text in ((".json", json.dumps(whole, indent=1) + "\n"), (".md", self.markdown())):
            unfinished = self.path.with_suffix(suffix + ".new")
            unfinished.write_text(text)
            os.replace(unfinished, self.path.with_suffix(suffix))

    def markdown(self):
        lines = [f"* {name}: {value}" for name, value in self.facts.items()]
        lines += ["", "| " + " | ".join(title for _, title in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        for row in self.rows:
            row = dict(row)
            if "apart" in row:
                row.setdefault("parity", f"apart {row['apart']:.1e}")
                row.setdefault("tolerance", f"at most {row['most']:.0e}")
            lines.append("| " + " | ".join(cell(key, row.get(key)) for key, _ in COLUMNS) + " |")
        return "\n".join(lines) + "\n"


def finite(row):
    """JSON has no NaN."""
    return {key: str(value) if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def cell(key, value):
    if value is None:
        return ""
    if key == "mfu":
        return f"{100 * value:.1f} %"
    if key == "parity" and isinstance(value, float):
        return f"{value:.7f}"
    if key in ("texts_s", "tokens_s", "peak_mib") and isinstance(value, (int, float)):
        return f"{value:.0f}" if value >= 10 else f"{value:.2f}"
    return str(value).replace("|", "\\|")
