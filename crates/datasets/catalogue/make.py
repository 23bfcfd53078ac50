#!/usr/bin/env python3
"""Writes datasets.toml, the data sets of the papers with mteb's own metadata, metadata.json, what mteb says of each of them, and the
papers' suites beside eval-svc/suites/quick.toml (needs `pip install mteb==2.26.24`; no network).

    python3 crates/datasets/catalogue/make.py && tests/prose/check --wrap
    python3 crates/datasets/catalogue/make.py --check    compares the files with the mteb that is installed

The lists of names are the papers': HTEB, Tables 9 and 10; PTEB, Table 13; GASE, Appendix E. A task that mteb has superseded is its
corrected version. Hub ids, pinned revisions, splits, subsets, languages, main scores and options of tasks are mteb's (the version is
written into the file).
"""

import itertools
import json
import pathlib
import sys
import tomllib

import mteb

STS_ENGLISH = ["BIOSSES", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS17", "STS22.v2", "STSBenchmark.v2"]
# Names of the papers, of which mteb has corrected versions. They keep their revisions.
SUPERSEDED = [
    "Banking77Classification", "BiorxivClusteringS2S", "IsiZuluNewsClassification", "PlscClusteringS2S", "SentimentAnalysisHindi",
    "STS22", "STSBenchmark", "SummEval", "TwentyNewsgroupsClustering",
]
# Sets of mteb's rows. The published files have single documents, which are cut in order.
SETS = {"MasakhaNEWSClusteringS2S": 5}
# Test rows that are train rows too: the largest share that the suites allow, and the reason.
LEAKS = {
    ("AmazonCounterfactualClassification", "ja"): (
        0.35,
        "31 % of mteb's Japanese test rows are train rows too; the paper scores them",
    ),
}
# PTEB's table 13 names no Korean.
STS17_PTEB = ["ar-ar", "en-ar", "en-de", "en-en", "en-tr", "es-en", "es-es", "fr-en", "it-en", "nl-en"]
# Family: name in mteb, then the subsets used where the paper does not use all.
FAMILIES = {
    "hteb-english": {
        "AmazonCounterfactualClassification": ["en"],
        "Banking77Classification.v2": None,
        "MassiveIntentClassification": ["en"],
        "BiorxivClusteringS2S.v2": None,
        "MedrxivClusteringS2S.v2": None,
        "TwentyNewsgroupsClustering.v2": None,
        "SprintDuplicateQuestions": None,
        "TwitterSemEval2015": None,
        "TwitterURLCorpus": None,
        "AskUbuntuDupQuestions": None,
        "SciDocsRR": None,
        "StackOverflowDupQuestions": None,
        "ArguAna": None,
        "CQADupstackGamingRetrieval": None,
        "SciFact": None,
        "SemRel24STS": ["eng"],
        "BIOSSES": None,
        "STSBenchmark.v2": None,
        "SummEvalSummarization.v2": None,
    },
    "hteb-multilingual": {
        "IsiZuluNewsClassification.v2": None,
        "SentimentAnalysisHindi.v2": None,
        "MasakhaNEWSClusteringS2S": None,
        "PlscClusteringS2S.v2": None,
        "RTE3": None,
        "indonli": None,
        "VoyageMMarcoReranking": None,
        "NamaaMrTydiReranking": None,
        "TwitterHjerneRetrieval": None,
        "Ko-StrategyQA": None,
        "SemRel24STS": None,
        "STS17": None,
        "IndicCrosslingualSTS": None,
    },
    "pteb": {
        "Banking77Classification.v2": None,
        "AmazonCounterfactualClassification": ["de", "en", "ja"],
        "TwentyNewsgroupsClustering.v2": None,
        "MasakhaNEWSClusteringS2S": None,
        "TwitterSemEval2015": None,
        "RTE3": None,
        "AskUbuntuDupQuestions": None,
        "RuBQReranking": None,
        "ArguAna": None,
        "TwitterHjerneRetrieval": None,
        "SummEvalSummarization.v2": None,
        **{name: {"STS22.v2": ["en"], "STS17": STS17_PTEB}.get(name) for name in STS_ENGLISH},
    },
    "gase": {
        **{name: ["en-en"] if name == "STS17" else ["en"] if name == "STS22.v2" else None for name in STS_ENGLISH + ["STS16"]},
        "TwitterSemEval2015": None,
        "TwitterURLCorpus": None,
        "SprintDuplicateQuestions": None,
        "NFCorpus": None,
    },
}
TASKS = {
    "STS": "sts",
    "PairClassification": "pair-classification",
    "Classification": "classification",
    "Clustering": "clustering",
    "Reranking": "reranking",
    "Retrieval": "retrieval",
    "Summarization": "summarisation",
}
# Fields that a robustness check transforms (HTEB, Appendix E: of retrieval and reranking the
# queries only).
TRANSFORMED = {
    "sts": ["sentence1", "sentence2"],
    "pair-classification": ["sentence1", "sentence2"],
    "classification": ["text"],
    "clustering": ["text"],
    "reranking": ["query"],
    "retrieval": ["queries.text"],
    "summarisation": ["human_summaries", "machine_summaries"],
}
# Suites that are made of families: file, description, transformations, seeds, header.
SUITES = {
    "pteb": (
        "PTEB's data sets under fresh paraphrases.",
        ["paraphrase"],
        "PTEB: paraphrases at evaluation time, over six seeds, sampled as Ollama does by default (the paper's generators). Not every server\n"
        "# knows top_k; --temperature sets another temperature.",
    ),
    "hteb-english": (
        "HTEB's 19 English data sets under its eight transformations.",
        None,
        "HTEB, English: eight transformations on three axes, three seeds.",
    ),
    "hteb-multilingual": (
        "HTEB's 13 multilingual data sets under its eight transformations.",
        None,
        "HTEB, multilingual: eight transformations on three axes, three seeds. Each language of a data set is an entry of its own; the\n"
        "# languages of a data set are one group, which counts once (63 entries, 13 groups), as in the paper. SemRel24STS is here in the\n"
        "# 12 languages that mteb scores; the paper's table 10 names two more, pan and spa.",
    ),
}
# How texts are made. HTEB (appendix A.1): greedy, three runs; identical outputs stay, and are part
# of what it reports. PTEB (appendix C): Ollama's default sampling, six runs.
PROTOCOL = {
    "hteb": "seeds = [1337, 1338, 1339]\ntransformations = {transformations}\ntemperature = 0.0\nattempts = 3\n"
    "retry_identical = false\nretry_temperature = 0.0",
    "pteb": "seeds = [1337, 1338, 1339, 1340, 1341, 1342]\ntransformations = {transformations}\ntemperature = 0.8\ntop_p = 0.9\n"
    "top_k = 40\nattempts = 3",
}
EIGHT = [
    "paraphrase", "backtranslation", "style_change", "expansion", "summarisation", "summarised_expansion", "translation",
    "cross_translation",
]


def columns(task, kind):
    """Their columns where they differ from ours."""
    names = {}
    if kind == "classification":
        names = {"text": task.input_column_name, "label": task.label_column_name}
    elif kind == "sts":
        names = dict(zip(["sentence1", "sentence2"], getattr(task, "column_names", None) or []))
    elif kind == "pair-classification":
        names = {
            "sentence1": getattr(task, "input1_column_name", "sentence1"),
            "sentence2": getattr(task, "input2_column_name", "sentence2"),
        }
        # Three tasks rename their columns in Python.
        if task.metadata.name in ("SprintDuplicateQuestions", "TwitterSemEval2015", "TwitterURLCorpus"):
            names = {"sentence1": "sent1", "sentence2": "sent2"}
    return {ours: theirs for ours, theirs in names.items() if isinstance(theirs, str) and theirs != ours}


def quoted(items):
    return "[" + ", ".join(f'"{item}"' for item in items) + "]"


def entry(name, task):
    about = task.metadata
    kind = TASKS[about.type]
    languages = about.eval_langs if isinstance(about.eval_langs, dict) else {"default": about.eval_langs}
    subsets = [] if list(languages) == ["default"] else list(languages)
    yield "\n[[dataset]]"
    yield f'name = "{name}"'
    yield f'task = "{kind}"'
    yield f'hub = "{about.dataset["path"]}"'
    yield f'revision = "{about.dataset["revision"]}"'
    yield f'split = "{"test" if "test" in about.eval_splits else about.eval_splits[0]}"'
    yield f'metric = "{about.main_score}"'
    yield f"transformed = {quoted(TRANSFORMED[kind])}"
    if about.superseded_by:
        yield f'superseded_by = "{about.superseded_by}"'
    pairs = ", ".join(f'"{subset}" = {quoted(codes)}' for subset, codes in languages.items())
    yield f"languages = {{ {pairs} }}"
    if subsets:
        yield f"subsets = {quoted(subsets)}"
    if getattr(task, "ignore_identical_ids", False):
        yield "ignore_identical_ids = true"
    if kind == "classification" and task.samples_per_label != 8:
        yield f"samples_per_label = {task.samples_per_label}"
    if kind == "clustering":
        if type(task).__mro__[1].__name__ == "AbsTaskClusteringLegacy":
            yield "legacy_clustering = true"
        elif "dataset_transform" in type(task).__dict__:
            yield "joined_sets = true"
        if name in SETS:
            yield f"sets = {SETS[name]}"
    renamed = columns(task, kind)
    if renamed:
        yield "fields = { " + ", ".join(f'{ours} = "{theirs}"' for ours, theirs in renamed.items()) + " }"
    for family, members in FAMILIES.items():
        if name in members:
            chosen = members[name]
            missing = set(chosen or []) - set(subsets)
            if missing:
                sys.exit(f"{name} has no subset {missing}; it has {subsets}")
            yield f'[[dataset.family]]\nname = "{family}"' + (f"\nsubsets = {quoted(chosen)}" if chosen else "")


GATE = """
# Pass criterion: there are enough items for an encoder that does not drop to pass at a limit of 5
# points (stats/laws.md). An encoder whose vectors are all but one point separates about half of the
# texts.
[gate]
unit = "item"

[[gate.rule]]
max_drop = 5

[[gate.rule]]
min_separation = 0.7

# With a baseline (--baseline, or the champion of a registry), how good the encoder is counts too:
# one that is certainly more than 1 point below it fails.
[[gate.rule]]
margin = 5
fail_at = 1
of = "original"
when = "baseline\""""


def suite(family, tasks):
    description, transformations, about = SUITES[family]
    yield f"# {about}\n#"
    yield "# Made by crates/datasets/catalogue/make.py; do not edit. Data sets are found by their catalogue names: `isomer datasets` says where."
    yield f'name = "{family}"'
    yield f'description = "{description}"'
    yield PROTOCOL["pteb" if family == "pteb" else "hteb"].format(transformations=quoted(transformations or EIGHT))
    yield 'on_failure = "keep_original"\nprofile = "hteb"'
    yield GATE
    for name, chosen in FAMILIES[family].items():
        languages = tasks[name].metadata.eval_langs
        subsets = [] if not isinstance(languages, dict) or list(languages) == ["default"] else list(languages)
        for subset in chosen or subsets or [None]:
            yield f'\n[[dataset]]\ncatalogue = "{name}"'
            if subset is not None:
                yield f'language = "{subset}"'
                if len(chosen or subsets) > 1:
                    yield f'name = "{name} ({subset})"'
            if (name, subset) in LEAKS:
                share, reason = LEAKS[name, subset]
                yield f'max_leak = {share}\nleak = "{reason}"'


def metadata(task):
    about = task.metadata
    return {
        "name": about.name,
        "path": about.dataset["path"],
        "revision": about.dataset["revision"],
        "splits": about.eval_splits,
        "metric": about.main_score,
        "superseded_by": about.superseded_by,
    }


def main():
    here = pathlib.Path(__file__).resolve().parent
    names = sorted({*itertools.chain.from_iterable(FAMILIES.values()), *SUPERSEDED}, key=str.lower)
    tasks = {name: mteb.get_task(name) for name in names}
    head = f"# The data sets of the papers. Made by make.py beside this file from the metadata of mteb {mteb.__version__}; do not edit."
    lines = [head, *itertools.chain.from_iterable(entry(name, task) for name, task in tasks.items())]
    files = {here / "datasets.toml": "\n".join(lines) + "\n"}
    for family in SUITES:
        files[here.parents[2] / "eval-svc/suites" / f"{family}.toml"] = "\n".join(suite(family, tasks)) + "\n"
    rows = ",\n".join(json.dumps(metadata(task)) for task in tasks.values())
    files[here / "metadata.json"] = f"[\n{rows}\n]\n"
    if "--check" not in sys.argv:
        for path, text in files.items():
            path.write_text(text)
        return
    different = [path.name for path, text in files.items() if content(path, text) != content(path, path.read_text())]
    if different:
        sys.exit(f"mteb {mteb.__version__} gives other contents of {', '.join(different)}; run make.py, and read the difference")


def content(path, text):
    """The contents of a file without its comments."""
    return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)


main()
