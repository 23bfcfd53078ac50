"""GASE compared with plain vectors: STSBenchmark and SICK-R, LLM augmentations on a seeded sample, controls on the whole sets.

    python tests/bench/gase.py --isomer target/release/isomer --data ../shared/data --pairs 100

Prints one Markdown table per model, with the paper's values for GloVe 840B (Table 13) and its controls (Tables 2 and 14) beside
ours. Generated texts come from the cache of ISOMER_HOME in later runs; the sample of a larger --pairs contains that of every smaller one.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

SETS = ("STSBenchmark", "SICK-R")
# GASE with GPT-3.5 Turbo, Spearman x 100: glove.840B.300d and all-MiniLM-L6-v2, none and augmented.
PAPER = {
    "glove": {
        "STSBenchmark": {"plain": 50.73, "paraphrase": 56.78, "keywords": 59.26, "random_keywords": 23.95, "stopword_removal": 57.13},
        "SICK-R": {"plain": 55.42, "paraphrase": 58.92, "keywords": 55.34, "random_keywords": 40.04, "stopword_removal": 54.97},
    },
    "minilm": {
        "STSBenchmark": {"plain": 82.03, "paraphrase": 82.33, "keywords": 81.99, "stopword_removal": 78.80},
        "SICK-R": {"plain": 77.58, "paraphrase": 79.63, "keywords": 70.92, "stopword_removal": 65.58},
    },
}
# (augmentations, weight of the original; None: mean). Weight 0 leaves the variant alone, as the
# paper's stop word removal does.
CONTROLS = (
    (["random_keywords"], None),
    (["random_keywords"], 0),
    (["stopword_removal"], None),
    (["stopword_removal"], 0),
)
GENERATED = (
    (["keywords"], None),
    (["paraphrase"], None),
    (["paraphrase"], 0.75),
    (["paraphrase", "keywords"], None),
)


def sample(folder, name, pairs, seed, out):
    """The first `pairs` of a seeded shuffle of the test split, in a separate file."""
    with open(os.path.join(folder, name, "test.jsonl"), encoding="utf-8") as file:
        rows = [line for line in file if line.strip()]
    random.Random(f"{seed}:{name}").shuffle(rows)
    path = os.path.join(out, f"{name}-{pairs}.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(rows[:pairs])
    return path


def score(args, model, data, augment, weight):
    command = [args.isomer, "eval", "--quiet", "--offline", "--format", "json", "--task", "sts", "--model", model]
    command += ["--data", data, "--augment", ",".join(augment)]
    if weight is not None:
        command += ["--pooling", "weighted", "--original-weight", str(weight)]
    if any(name not in ("random_keywords", "stopword_removal") for name in augment):
        command += ["--generator", args.generator]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    result = json.loads(done.stdout)
    main = lambda which: 100 * result[which]["scores"]["test"][0]["main_score"]
    report = result["augmentation"]
    return main("plain"), main("augmented"), sum(report["variants"]), sum(report["missing"])


def label(augment, weight):
    name = " + ".join(augment)
    if weight is None:
        return name
    return f"{name}, alone" if weight == 0 else f"{name}, original {weight}"


def paper(model, name, augment, weight):
    # The paper pools by the mean, except for stop words, which it removes from the text itself
    # (Table 14).
    if weight != (0 if augment == ["stopword_removal"] else None):
        return "-"
    family = "glove" if "glove" in model.lower() else "minilm"
    values = PAPER[family].get(name, {})
    key = augment[0] if len(augment) == 1 else None
    return f"{values['plain']:.2f} -> {values[key]:.2f} ({values[key] - values['plain']:+.2f})" if key in values else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isomer", default="isomer")
    parser.add_argument("--data", required=True, help="folder with STSBenchmark and SICK-R")
    parser.add_argument("--model", action="append", help="encoders [paraphrase-MiniLM-L3-v2 and glove-6b-50d]")
    parser.add_argument("--generator", default="local:qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--pairs", type=int, default=100, help="pairs per set for augmentations that need a generator; 0: none")
    parser.add_argument("--seed", type=int, default=1337)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        for model in args.model or ["paraphrase-MiniLM-L3-v2", "glove-6b-50d"]:
            print(f"\n{model}, cosine Spearman x 100, mean pooling unless stated otherwise; paper: GPT-3.5 Turbo\n")
            print("| dataset | pairs | augmentation | plain | augmented | delta | variants (missing) | paper |")
            print("|---|---:|---|---:|---:|---:|---:|---|")
            for name in SETS:
                runs = [(os.path.join(args.data, name), "all", *run) for run in CONTROLS]
                if args.pairs:
                    part = sample(args.data, name, args.pairs, args.seed, out)
                    runs += [(part, args.pairs, *run) for run in (*CONTROLS[::2], *GENERATED)]
                for data, pairs, augment, weight in runs:
                    plain, augmented, variants, missing = score(args, model, data, augment, weight)
                    print(
                        f"| {name} | {pairs} | {label(augment, weight)} | {plain:.2f} | {augmented:.2f} | {augmented - plain:+.2f} "
                        f"| {variants} ({missing}) | {paper(model, name, augment, weight)} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
