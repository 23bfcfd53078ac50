#!/usr/bin/env python3
"""Writes the first corpus entries of every target, from the fixtures of other tests and from small files made here.

An existing entry of the same name is replaced; others stay. A corpus is a file of lines: a name, and bytes in base64.
"""

import base64
import gzip
import json
import struct
from pathlib import Path

import refused

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "tests/fuzz/corpus"
FIXTURES = ROOT / "embed-svc/tests/fixtures"


def safetensors(tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def varint(value):
    out = b""
    while True:
        byte, value = value & 0x7F, value >> 7
        if not value:
            return out + bytes([byte])
        out += bytes([byte | 0x80])


def field(number, content):
    """A protobuf field: a number, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx():
    def tensor(name, dims, values, kind=1, raw=None):
        raw = struct.pack(f"<{len(values)}f", *values) if raw is None else raw
        return field(5, b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name) + field(9, raw))

    def node(op, inputs, output):
        return field(1, b"".join(field(1, i) for i in inputs) + field(2, output) + field(4, op))

    graph = node("MatMul", ["x", "m1"], "h1") + node("Add", ["model.dense.bias", "h1"], "h2")
    graph += tensor("model.dense.bias", [3], [0.5, 0.25, 0.125]) + tensor("m1", [2, 3], [1, 2, 3, 4, 5, 6])
    graph += tensor("model.norm.weight", [2], [7, 8])
    other = tensor("model.a", [2], [], 10, struct.pack("<2e", 1, 2)) + tensor("model.b", [2], [], 16, b"\0\x3f\0\x3f")
    other += tensor("model.c", [1], [], 11, struct.pack("<d", 1)) + tensor("model.pooler.d", [1], [1])
    other += field(5, field(1, 1) + field(2, 1) + field(4, struct.pack("<f", 3)) + field(8, "model.e"))
    return {"linear": field(7, graph), "types": field(7, other), "empty": field(7, b"")}


def e5s1():
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581a"]
    text = "".join(pieces).encode()
    out = b"E5S1" + struct.pack("<8I", 1, 32, 0, 1, 64, 5, 2, 1) + struct.pack("<f", 1e-12)
    out += struct.pack("<6I", 0, 5, 0, 2, 1, 3) + struct.pack("<Q", len(text))
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece.encode()))
    out += struct.pack("<6I", *ends) + struct.pack("<5f", *range(5)) + text + struct.pack("<2I", 0, 0)
    tensors = [("emb.word", 1, 90), ("emb.pos", 0, 256), ("emb.type", 0, 128), ("emb.ln.w", 0, 128), ("emb.ln.b", 0, 128)]
    out += struct.pack("<I", len(tensors))
    first = len(out) + sum(2 + len(name) + 21 for name, _, _ in tensors)
    data = b""
    for name, kind, size in tensors:
        out += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", kind, 0, first, size)
        first += size
        data += bytes(size)
    return {"tiny": out + data}


def npy(shape, order="False", kind="<f4"):
    header = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + struct.pack("<6f", *range(6))


def gguf(metadata, tensors):
    """metadata: key -> (type, value); tensors: name -> (dims, type, bytes)."""
    def text(value):
        value = value.encode()
        return struct.pack("<Q", len(value)) + value

    def value(kind, content):
        if kind == 8:
            return text(content)
        if kind == 9:
            inner, items = content
            return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, item) for item in items)
        return struct.pack({4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q"}[kind], content)

    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, (kind, content) in metadata.items():
        out += text(key) + struct.pack("<I", kind) + value(kind, content)
    data = b""
    for name, (dims, kind, content) in tensors.items():
        out += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in reversed(dims))
        data += bytes(-len(data) % 32)
        out += struct.pack("<IQ", kind, len(data))
        data += content
    return out + bytes(-len(out) % 32) + data


def gguf_model(name, extra=(), quantised=2):
    """The smallest model of an architecture: one layer, width 32, a token for each byte."""
    width, inner, f32 = 32, 32, 0
    spare = iter(range(256, 1000))
    letters = [chr(b) if b in range(33, 127) or b in range(161, 173) or b in range(174, 256) else chr(next(spare)) for b in range(256)]
    tokens = letters + ["he", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    metadata = {
        "general.architecture": (8, name),
        f"{name}.block_count": (4, 1),
        f"{name}.context_length": (4, 64),
        f"{name}.embedding_length": (4, width),
        f"{name}.feed_forward_length": (4, inner),
        f"{name}.attention.head_count": (4, 2),
        f"{name}.attention.head_count_kv": (4, 1),
        f"{name}.attention.layer_norm_rms_epsilon": (6, 1e-5),
        "tokenizer.ggml.model": (8, "gpt2"),
        "tokenizer.ggml.pre": (8, "qwen2"),
        "tokenizer.ggml.tokens": (9, (8, tokens)),
        "tokenizer.ggml.token_type": (9, (5, [1] * 257 + [3] * 3)),
        "tokenizer.ggml.merges": (9, (8, ["h e"])),
        "tokenizer.ggml.bos_token_id": (4, 257),
        "tokenizer.ggml.eos_token_id": (4, 258),
        "tokenizer.chat_template": (8, template),
    }
    metadata.update(dict(extra))
    sizes = {2: 18, 3: 20, 6: 22, 7: 24, 8: 34}  # Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: bytes of 32 values
    matrix = lambda rows, cols: ([rows, cols], quantised, bytes(rows * (cols // 32) * sizes[quantised]))
    vector = lambda cols: ([cols], f32, struct.pack(f"<{cols}f", *[1] * cols))
    tensors = {"token_embd.weight": matrix(len(tokens), width), "output_norm.weight": vector(width)}
    layer = {"attn_norm": vector(width), "ffn_norm": vector(width), "attn_q": matrix(32, width), "attn_k": matrix(16, width),
             "attn_v": matrix(16, width), "attn_output": matrix(width, 32), "ffn_gate": matrix(inner, width),
             "ffn_up": matrix(inner, width), "ffn_down": matrix(width, inner)}
    if name in ("qwen3", "gemma3"):
        layer |= {"attn_q_norm": vector(16), "attn_k_norm": vector(16)}
    if name == "gemma3":
        layer |= {"post_attention_norm": vector(width), "post_ffw_norm": vector(width)}
    tensors |= {f"blk.0.{key}.weight": value for key, value in layer.items()}
    if name == "qwen2":
        tensors |= {f"blk.0.attn_{key}.bias": vector(size) for key, size in (("q", 32), ("k", 16), ("v", 16))}
    return gguf(metadata, tensors)


def ggufs():
    return {
        "llama": gguf_model("llama", [("llama.rope.scaling.type", (8, "linear")), ("llama.rope.scaling.factor", (6, 2.0))]),
        "qwen2": gguf_model("qwen2", quantised=8),
        "qwen3": gguf_model("qwen3", [("qwen3.attention.key_length", (4, 16)), ("qwen3.attention.value_length", (4, 16))], 6),
        "gemma3": gguf_model("gemma3", [("gemma3.attention.sliding_window", (4, 8)), ("gemma3.attention.key_length", (4, 16)),
                                        ("tokenizer.ggml.add_bos_token", (7, 1))], 7),
        "head": gguf({"general.architecture": (8, "llama")}, {}),
    }


def folders():
    found = {}
    for folder in sorted(path for path in FIXTURES.iterdir() if path.is_dir() and path.name != "maker"):
        files = sorted(path for path in folder.rglob("*.json") if path.stat().st_size < 2000)
        out = "".join(f"=== {path.relative_to(folder)}\n{path.read_text()}\n" for path in files)
        tokenizer = "" if "=== tokenizer.json" in out else "=== tokenizer.json\n{}\n"
        found[folder.name] = (out + tokenizer).encode()
    return found


def tokenizers():
    found = {}
    for path in sorted(FIXTURES.glob("*/tokenizer.json")):
        if path.stat().st_size < 8000:
            found.setdefault(path.read_bytes(), path.parent.name)
    found = {name: b"a" + content for content, name in found.items()}
    tiny = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "man": 2}, "unk_token": "[UNK]"},
            "pre_tokenizer": {"type": "Whitespace"}, "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}}
    found["tiny"] = b"b" + json.dumps(tiny).encode()
    return found


def rows():
    line = lambda **fields: json.dumps(fields) + "\n"
    pairs = "".join(line(sentence1=f"text {n}", sentence2=f"another {n}", score=n / 2) for n in range(5))
    labelled = "".join(line(text=f"text {n}", label=n % 2) for n in range(6))
    corpus = "".join(line(_id=f"d{n}", title="t", text=f"document {n}") for n in range(3))
    queries = "".join(line(_id=f"q{n}", text=f"question {n}") for n in range(2))
    qrels = "query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td2\t2\n"
    ranked = "".join(line(query=f"q {n}", positive=[f"p {n}"], negative=[f"n {n}", "x"]) for n in range(3))
    return {
        "sts": f"a=== test.jsonl\n{pairs}",
        "sts_csv": 'a=== test.csv\nsentence1,sentence2,score\n"a, b",c,1.5\nd,"e\nf",2\ng,h,3\n',
        "sts_tsv_gz": "a=== test.tsv.gz\nsentence1\tsentence2\tscore\na\tb\t1\nc\td\t2\ne\tf\t3\n",
        "pair": "b=== test.jsonl\n" + "".join(line(sentence1=f"a {n}", sentence2=f"b {n}", label=n % 2) for n in range(4)),
        "pair_rolled": "b=== test.jsonl.gz\n" + line(sentence1=["a", "b"], sentence2=["c", "d"], labels=[0, 1]),
        "classification": f"c=== train.jsonl\n{labelled}=== test.jsonl.gz\n{labelled.replace('text ', 'other ')}",
        "clustering": "d=== test.jsonl\n" + line(sentences=["a", "b", "c", "d"], labels=["x", "y", "x", "y"]),
        "reranking": f"e=== test.jsonl\n{ranked}",
        "retrieval": f"f=== corpus.jsonl\n{corpus}=== queries.jsonl\n{queries}=== qrels/test.tsv\n{qrels}",
        "retrieval_de": f"f=== corpus.de.jsonl\n{corpus}=== queries.de.jsonl.gz\n{queries}=== qrels/test.de.tsv\n{qrels}",
        "summarisation": "g=== test.jsonl\n" + line(text="long", human_summaries=["h1", "h2"], machine_summaries=["m1", "m2", "m3"], relevance=[1, 2, 3.5]),
        "bitext": "h=== test.jsonl\n" + "".join(line(sentence1=f"a {n}", sentence2=f"b {n}") for n in range(3)),
        "clsd": "i=== test.jsonl\n" + line(source="a b c", target="d e f", distractors=["d e g", "d h f", "i e f", "d e k"]),
        "graded": "j=== test.jsonl\n" + line(query="q", candidates=["a", "b", "c"], grades=[0, 1, 2]),
    }


def catalogue():
    """The shortest entry of each kind of recipe in the built-in catalogue."""
    _, *entries = (ROOT / "crates/models/catalogue.toml").read_text().split("\n[[model]]\n")
    found = {}
    for step in ("onnx", "join", "join-zip", "take", "word-vectors", "e5s1-weights", "hub", "write"):
        holding = [entry for entry in entries if f'"{step}"' in entry or f"[model.{step}]" in entry]
        if holding and len(shortest := min(holding, key=len)) < 4000:
            found[step] = "[[model]]\n" + shortest
    return found


def suites():
    found = {path.stem: path.read_text() for path in sorted((ROOT / "eval-svc/suites").glob("*.toml")) if path.stat().st_size < 3000}
    found["rich"] = """name = "x"
guards = "retry"
retry_identical = false
retry_temperature = 0.5
top_k = 40
top_p = 0.9
temperature = 0.8
prompts = { expansion = "expansion-short" }
transformations = ["paraphrase", { name = "backtranslation", pivot_language = "de" }, { name = "translation", target_language = "fr" },
  { name = "cross_translation", target_languages = ["de", "fr"] }, { name = "random_keywords", keep_ratio = 0.5 }, "expansion"]
[gate]
alpha = 0.05
unit = "item"
sequential = true
max_unchanged = 0.2
[[gate.rule]]
max_drop = 5
task = "sts"
[[encoder]]
id = "one"
[[dataset]]
task = "sts"
builtin = "quick/sts"
limit = 10
languages = ["en"]
[[dataset]]
task = "retrieval"
path = "x"
fields = { text = "body" }
"""
    return found


def build():
    seeds = {
        "safetensors": {
            "small": safetensors({"a": ("F32", [2, 2], bytes(16)), "b": ("F16", [3], bytes(6)), "c": ("I64", [1], bytes(8))}),
            "types": safetensors({"a": ("BF16", [2], bytes(4)), "b": ("F64", [2], bytes(16)), "c": ("I32", [1], bytes(4))}, {"format": "pt"}),
            "empty": safetensors({}),
            "scalar": safetensors({"a": ("F32", [], bytes(4)), "z": ("F32", [0, 7], b"")}),
        },
        "gguf": ggufs(),
        "tokenizer": tokenizers(),
        "model_folder": folders(),
        "word_vectors": {"glove": "the 0.1 0.2 -3e-2\ncat 1 2 3\n", "word2vec": "2 3\nthe 0.1 0.2 0.3\ncat 1 2 3\n"},
        "onnx": onnx(),
        "e5s1": e5s1(),
        "parquet_words": {"pyarrow": (ROOT / "crates/models/fixtures/words.parquet").read_bytes()},
        "npy": {"rows": npy("(2, 3)"), "columns": npy("(3, 2)", "True"), "doubles": npy("(2, 3)", kind="<f8")},
        "catalogue": catalogue(),
        "rows": rows(),
        "suite": suites(),
        "card": {"two": "---\nconfigs:\n- config_name: en\n  data_files:\n  - split: test\n    path: data/test-*\n- config_name: de\n  data_files: x.csv\n---\n"},
        "grpc_messages": {
            "encode": b"a" + field(1, "one") + field(2, field(1, "hello")) + field(2, field(2, field(1, bytes([1, 2, 3])))) + field(2, b""),
            "rerank": b"b" + field(1, "one") + field(2, "q") + field(3, "a") + field(3, "b"),
            "transform": b"c" + field(2, field(1, "id") + field(2, "text")) + field(1, field(1, 2)),
            "group": b"a" + bytes([0xC3, 0x3E, 0xC4, 0x3E]) + field(2, b"") * 3,
        },
        "grpc_compression": {"gzip": b"a" + gzip.compress(b"the same sentence " * 30, mtime=0), "plain": b"bthe same sentence in other words",
                             "zstd": b"b" + bytes.fromhex("28b52ffd04589100007468652073616d652073656e74656e6365e2b3d3f7")},
        "connect_frames": {
            "plain": b"a\x06" + b"\0\0\0\0\x03abc" + b"\x02\0\0\0\x02{}",
            "gzip": b"b\x04" + b"\x01" + struct.pack(">I", len(gzip.compress(b"hello", mtime=0))) + gzip.compress(b"hello", mtime=0),
        },
        "connect_json": {
            "encode": 'a{"encoderId":"one","inputs":[{"text":"a"},{"tokenIds":{"ids":[1,2]}}],"normalize":true,"dimensions":2}',
            "rerank": 'b{"encoderId":"one","query":"q","documents":["a","b"],"topN":1}',
            "transform": 'c{"transformation":{"paraphrase":{}},"items":[{"id":"a","text":"b"}],"seed":"7"}',
            "run": 'd{"suite":{"toml":"name = \\"x\\""}}',
            "provider": 'e{"provider":{"id":"a","kind":"PROVIDER_KIND_OPENAI","address":"https://x","encoders":{"a":"b"},"limits":{"timeout":"3s"}}}',
        },
        "dialects": {
            "openai": '/v1/embeddings\n{"model":"one","input":["a","b"],"encoding_format":"base64","dimensions":2,"user":null}',
            "tokens": '/v1/embeddings\n{"model":"one","input":[[1,2],[3]],"truncation":"tail","prompt_name":"query"}',
            "augment": '/v1/embeddings\n{"model":"one","input":"a","augment":{"variants":3,"transformations":["paraphrase"],"pooling":"mean"}}',
            "rerank": '/v1/rerank\n{"model":"one","query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true}',
            "cohere1": '/v1/embed\n{"model":"one","texts":["a"],"truncate":"END"}',
            "cohere2": '/v2/embed\n{"model":"one","texts":["a"],"input_type":"search_query","embedding_types":["float","base64","binary","ubinary"]}',
            "cohere_rerank": '/v2/rerank\n{"model":"one","query":"q","documents":["a","b"],"top_n":2}',
            "ollama": '/api/embed\n{"model":"one:latest","input":["a"],"keep_alive":"5m","options":{"num_ctx":null}}',
            "ollama_old": '/api/embeddings\n{"model":"one","prompt":"a"}',
            "ollama_show": '/api/show\n{"model":"one","verbose":false}',
            "tei": '/embed\n{"inputs":["a","b"],"truncate":true,"normalize":false,"truncation_direction":"Left"}',
            "tei_all": '/embed_all\n{"inputs":"a"}',
            "tei_rank": '/rerank\n{"query":"q","texts":["a","b"],"return_text":true,"raw_scores":false}',
            "tei_predict": '/predict\n{"inputs":[["a","b"]]}',
            "openai_more": '/v1/embeddings\n{"model":"one","input":"a","encoding_format":"float","input_type":"query","normalized":true,"truncate":false,"output_dimension":2,"output_dtype":"float","embedding_type":"base64"}',
            "openai_jina": '/v1/embeddings\n{"model":"one","input":"a","task":"x","late_chunking":true}',
            "tei_hub": '/\n{"inputs":["a","b"],"parameters":{"truncate":true}}',
            "cohere_max": '/v2/embed\n{"model":"one","texts":["a"],"input_type":"search_document","output_dimension":2,"max_tokens":9,"truncate":"NONE","embedding_types":["int8"]}',
            "tei_similarity": '/similarity\n{"inputs":{"source_sentence":"a","sentences":["b"]}}',
        },
        "page": {"trial": "first=a+man&second=%C3%BC&encoder=one&transformation=paraphrase", "empty": "first=&encoder=one"},
        "jwt": {
            "expired": 'b{"alg":"EdDSA"}\n{"iss":"https://login.example.org/","aud":"isomer","sub":"a","exp":1}',
            "early": 'b{"alg":"EdDSA"}\n{"iss":"https://login.example.org/","aud":"isomer","sub":"a","exp":EXP,"nbf":EXP}',
            "other": 'b{"alg":"EdDSA","typ":"x"}\n{"iss":"https://login.example.org/","aud":"other","sub":"","exp":"x"}',
            "nobody": 'b{"alg":"EdDSA"}\n{"iss":"https://login.example.org/","aud":"isomer","sub":"","exp":EXP}',
            "algorithm": 'b{"alg":"RS256"}\n{}',
            "signed": 'b{"alg":"EdDSA","typ":"JWT"}\n{"iss":"https://login.example.org/","aud":"isomer","sub":"alice","exp":EXP,"nbf":1,"scope":"encode"}',
            "audiences": 'b{"alg":"EdDSA"}\n{"iss":"https://login.example.org/","aud":["x","isomer"],"sub":"al","exp":EXP.5,"scope":["encode"]}',
            "critical": 'b{"alg":"EdDSA","crit":["exp"]}\n{"iss":"https://login.example.org/","aud":"isomer","sub":"a","exp":EXP}',
            "none": "aeyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.",
        },
        "key_set": {
            "ed": '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","use":"sig","kid":"a"}]}',
            "ec": '{"keys":[{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","alg":"ES256"}]}',
            "rsa": '{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","key_ops":["verify"]},{"kty":"oct","k":"AQAB"}]}',
        },
        "credentials": {
            "bearer": "authorization: Bearer iso_0123456789ab_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH000000\nhost: localhost:8080",
            "basic": "authorization: Basic aXNvOmtleQ==\norigin: http://127.0.0.1:3000\nhost: 127.0.0.1",
            "two": "x-api-key: a\napi-key: a\nhost: [::1]:80\nauthorization: Bearer a.b.c",
        },
        "embeddings": {
            "openai": 'aa{"data":[{"index":1,"embedding":[1,2]},{"index":0,"embedding":[3,4]}],"usage":{"prompt_tokens":5}}',
            "cohere": 'ba{"embeddings":{"float":[[1,2],[3,4]]},"meta":{"billed_units":{"input_tokens":3}}}',
            "cohere_rerank": 'bb{"results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.25}]}',
            "voyage": 'ca{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[3,4]}],"usage":{"total_tokens":5}}',
            "ollama": 'da{"embeddings":[[1,2],[3,4]],"prompt_eval_count":4,"models":[{"name":"one:latest","digest":"ab"}],"model_info":{"general.architecture":"bert","bert.embedding_length":2}}',
            "jina": 'ea{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[3,4]}],"usage":{"total_tokens":5}}',
            "jina_rerank": 'eb{"results":[{"index":1,"relevance_score":0.5}],"usage":{"total_tokens":5}}',
            "tei": "fa[[1,2],[3,4]]",
            "tei_rerank": 'fb[{"index":1,"score":0.5},{"index":0,"score":1}]',
            "hf": "ga[[1.5,-2e-3],[3,4]]",
        },
        "failures": {
            "openai": '429\n7\n{"error":{"message":"slow down","code":"insufficient_quota"}}',
            "secret": '401\n\n{"error":"sk-0123456789"}',
            "money": '402\n\n{}',
            "missing": '404\n\n"nothing"',
            "large": '413\n0.5\n{"detail":"too much"}',
            "moved": '302\n-1\n',
            "unknown": '501\nx\n{"error":{"type":"t"}}',
            "teapot": '418\n18446744073709551615\n',
            "busy": '429\n\n',
            "tei": '503\nMon, 23 Nov 2026 10:00:00 GMT\n{"error":"overloaded"}',
            "fastapi": '422\n\n{"detail":[{"msg":"bad"}]}',
            "cohere": '400\n1e9\n{"message":"sk-0123456789 is bad"}',
        },
        "addresses": {"loopback": "http://127.0.0.1:80", "hex": "http://0x7f.1/", "six": "https://[::ffff:10.0.0.1]/v1", "nat64": "http://[64:ff9b::7f00:1]",
                      "public": "https://8.8.8.8/v1", "public6": "https://[2606:4700::1]", "name": "https://api.example.org/v1", "teredo": "http://[2001::1]"},
        "provider_file": {"example": (ROOT / "gateway/registry/examples/providers.toml").read_text()},
        "configuration": {
            "some": '[server]\naddress = "127.0.0.1:0"\n[access]\nmode = "open"\n[telemetry]\nfilter = "info"\n',
            "wrong": "[server]\nadress = 1\n",
            "limits": "[server.limits]\nmax_message_bytes = 1000\n[embed]\nmax_batch_items = 3\n[gateway]\n[transform]\n[eval]\nhub = \"off\"\n",
        },
        "prompt_file": {
            "paraphrase": '\x61+++\nid = "paraphrase"\nversion = "2"\n+++\n[system]\nRewrite.\n[user]\n<text>\n{text}\n</text>\n',
            "distractors": '\x67+++\nid = "distractors"\nversion = 2\n+++\n[system]\n{count} in {language}\n[user]\n<text>\n{text}\n</text>\n[assistant]\n1. a\n[user]\n{text}\n',
            "judge": '\x68+++\nid = "judge-similarity"\nversion = "1"\n+++\n[user]\n{original} {transformed}\n',
        },
        "texts": {
            "plain": "aA man plays.\0A man is playing.",
            "fence": "aA man plays.\0```text\nA man is playing.\n```",
            "reasoning": "aA man plays.\0<think>\nLet me think.\n</think>\n<text>\n\"A man is playing.\"\n</text>",
            "keywords": "fA man plays.\0man, plays; guitar\n- music",
            "prefix": "aA man plays.\0Here is the paraphrase: A man is playing.",
            "harmony": "aA man.\0<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>A guy.",
        },
        "lists": {
            "numbers": "A man plays.\x001. A woman plays.\n2. A man sings.\n3) Nobody plays.\n(4) A man runs.",
            "bullets": "A man plays.\0- A woman plays.\n* A man sings.\n• Nobody.",
            "json": 'A man plays.\0["A woman plays.", "A man sings."]',
            "line": "A man plays.\x001. a 2. b 3. c 4. d",
            "scripts": "x\0１．a\n２．b\n①c ②d\n1️⃣ e",
            "labels": "x\0**Sentence 1:** a\n**Sentence 2:** b\nA) c\niv. d",
        },
        "ratings": {"plain": "4", "label": "**Score: 3.5**", "of": "4/5", "out": "\"5 out of 5.\"", "wrong": "between 3 and 4"},
        "guards": {
            "numbers": "Three of 1,234.5 km in 2024 cost $5m.\0Two of 1234.5 kilometres in '24 cost 5 million dollars.",
            "names": "Anna Smith met Dr. Müller in New York.\0Anna met the doctor in York.",
            "negation": "He didn't go, nor would I.\0He went; I hardly would.",
            "dates": "On 3 May 2020 at 5:30 pm, 20% of 1st-class seats\0On May 3rd, twenty percent at 17:30",
        },
        "hub_names": {"model": "org/name@v1:a.gguf", "dataset": "org/name:config@refs/convert/parquet", "file": "1_Pooling/config.json",
                      "etag": "0123456789abcdef-2", "climb": "org/../x", "dots": "org/name@main:../../x"},
    }
    more = {"credentials": refused.credentials, "addresses": refused.addresses, "grpc_compression": refused.compressions, "catalogue": refused.catalogue,
            "suite": refused.suites, "failures": refused.failures, "dialects": refused.dialects, "embeddings": refused.embeddings,
            "configuration": refused.configurations, "guards": refused.guarded, "model_folder": lambda: refused.folders(FIXTURES),
            "rows": lambda: refused.rows(ROOT / "eval-svc/fixtures/data")}
    for target, entries in more.items():
        seeds[target] |= entries()
    return seeds


def main():
    for target, entries in build().items():
        file = CORPUS / f"{target}.txt"
        kept = dict(line.split(" ", 1) for line in file.read_text().splitlines()) if file.exists() else {}
        for name, content in entries.items():
            content = content.encode() if isinstance(content, str) else content
            kept[f"seed-{name}"] = base64.b64encode(content).decode()
        file.write_text("".join(f"{name} {kept[name]}\n" for name in sorted(kept)))


main()
