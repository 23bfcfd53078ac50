"""Shapes of models: random decoders, FLOPs from a shape, peaks of devices, texts of a number of tokens."""

import json
import math
import os
import pathlib
import random
import shutil
from concurrent.futures import ProcessPoolExecutor

from vectors import Unusable, header, write_header

# hidden, layers, query heads, key heads, head width, inner, vocabulary. The first is
# Qwen3-Embedding-8B's shape, 7.6 billion parameters without a language head; the last two are for
# tries on a CPU.
DECODERS = {
    "decoder-7b": (4096, 36, 32, 8, 128, 12288, 151936),
    "decoder-4b": (2560, 36, 32, 8, 128, 9728, 151936),
    "decoder-0.6b": (1024, 28, 16, 8, 128, 3072, 151936),
    "decoder-small": (1024, 8, 16, 8, 64, 3072, 4096),
    "decoder-tiny": (64, 2, 4, 2, 16, 128, 512),
}
LONGEST = 8192
# Dense TFLOP/s by name of the device: in f16 and bf16, and in f32 without TF32 (the data sheets).
PEAKS = [
    ("H100 PCIe", 756.0, 51.0),
    ("H100 NVL", 835.0, 60.0),
    ("H200 NVL", 835.0, 60.0),
    ("H100", 989.4, 66.9),
    ("H200", 989.4, 66.9),
]


def peak(name, precision):
    """TFLOP/s of a device in a precision; None if the device is not known."""
    for known, half, single in PEAKS:
        if known in name:
            return single if precision == "f32" else half
    return None


# ---------------------------------------------------------------- FLOPs


def linear_weights(folder):
    """Elements of the matrices that every token is multiplied with: all two-dimensional ones except lookup tables."""
    tables = ("embedding", "embed_tokens", "pooler", "relative_attention_bias", "lm_head")
    total = 0
    for file in sorted(pathlib.Path(folder).glob("*.safetensors")):
        for name, tensor in header(file)[0].items():
            if len(tensor["shape"]) == 2 and not any(table in name for table in tables):
                total += tensor["shape"][0] * tensor["shape"][1]
    if not total:
        raise Unusable(f"{folder} holds no safetensors with linear layers")
    return total


def flops(folder, tokens):
    """FLOPs of a text of so many tokens: 2 per weight and token, and 4 per pair of tokens that see each other and element of a
    layer's queries (scores, and their products with the values). A causal model has about half of the pairs."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    heads = config["num_attention_heads"]
    width = heads * (config.get("head_dim") or config["hidden_size"] // heads)
    causal = config["model_type"] in ("qwen3", "qwen2", "llama", "mistral")
    pairs = tokens * (tokens + 1) // 2 if causal else tokens * tokens
    return 2 * tokens * linear_weights(folder) + 4 * pairs * width * config["num_hidden_layers"]


# ---------------------------------------------------------------- random decoders


def tensors(shape):
    """Names and shapes of a Qwen 3 decoder's tensors, layer by layer."""
    hidden, layers, heads, keys, width, inner, vocabulary = DECODERS[shape]
    groups = [[("embed_tokens.weight", (vocabulary, hidden))]]
    for layer in range(layers):
        at = f"layers.{layer}."
        groups.append(
            [
                (at + "input_layernorm.weight", (hidden,)),
                (at + "self_attn.q_proj.weight", (heads * width, hidden)),
                (at + "self_attn.k_proj.weight", (keys * width, hidden)),
                (at + "self_attn.v_proj.weight", (keys * width, hidden)),
                (at + "self_attn.q_norm.weight", (width,)),
                (at + "self_attn.k_norm.weight", (width,)),
                (at + "self_attn.o_proj.weight", (hidden, heads * width)),
                (at + "post_attention_layernorm.weight", (hidden,)),
                (at + "mlp.gate_proj.weight", (inner, hidden)),
                (at + "mlp.up_proj.weight", (inner, hidden)),
                (at + "mlp.down_proj.weight", (hidden, inner)),
            ]
        )
    groups.append([("norm.weight", (hidden,))])
    return groups


def parameters(shape):
    return sum(math.prod(size) for group in tensors(shape) for _, size in group)


def largest(memory_bytes, disk_bytes, precision):
    """The largest decoder whose weights fit in the device's memory, with a quarter of it left to states, and on the disk."""
    bytes_each = 4 if precision == "f32" else 2
    for shape in DECODERS:
        count = parameters(shape)
        if count * bytes_each <= 0.75 * memory_bytes and 2 * count <= 0.9 * disk_bytes:
            return shape
    raise Unusable("not even the smallest random decoder fits in the memory and on the disk here")


def table(scale):
    """High bytes of bf16 for every byte: both signs, magnitudes around `scale`, a power of two below 1."""
    # A bf16's high byte is its sign and the upper 7 bits of its exponent; the last bit of the
    # exponent and the mantissa are the low byte. An upper part spans a factor of four.
    upper = (127 + round(math.log2(scale))) >> 1
    return bytes((byte & 1) << 7 | (upper if byte & 2 else upper - 1) for byte in range(256))


def write_group(task):
    """Writes one shard. Its numbers depend on the seed and the tensors' names alone, so they are the same everywhere."""
    path, group, seed = task
    placed, place = {}, 0
    for name, size in group:
        count = math.prod(size)
        placed[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [place, place + 2 * count]}
        place += 2 * count
    with open(path, "wb") as out:
        write_header(out, placed)
        for name, size in group:
            if len(size) == 1:
                out.write(b"\x80\x3f" * size[0])  # 1.0
                continue
            numbers, high = random.Random(f"{seed} {name}"), table(size[1] ** -0.5)
            left = math.prod(size)
            while left:
                count = min(left, 1 << 22)
                data = bytearray(numbers.randbytes(2 * count))
                data[1::2] = bytes(data[1::2]).translate(high)
                out.write(data)
                left -= count


def make_decoder(shape, folder, fixture, seed=1337, processes=None):
    """Makes a model folder with random weights in bf16. Every value is exact in f16 and f32 too, so precisions differ in
    arithmetic alone. The tokenizer is that of the fixture `qwen3`; texts come as token ids."""
    folder, fixture = pathlib.Path(folder), pathlib.Path(fixture)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    hidden, layers, heads, keys, width, inner, vocabulary = DECODERS[shape]
    for name in ("tokenizer.json", "tokenizer_config.json", "modules.json", "config_sentence_transformers.json"):
        shutil.copyfile(fixture / name, folder / name)
    (folder / "1_Pooling").mkdir()
    config = json.loads((fixture / "config.json").read_text())
    config |= {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "head_dim": width,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_window_layers": layers,
    }
    pooling = json.loads((fixture / "1_Pooling/config.json").read_text()) | {"word_embedding_dimension": hidden}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling, indent=1))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}))
    groups = tensors(shape)
    names = [f"model-{number:05}-of-{len(groups):05}.safetensors" for number in range(1, len(groups) + 1)]
    tasks = [(folder / name, group, seed) for name, group in zip(names, groups)]
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        list(pool.map(write_group, tasks))
    index = {name: file for file, group in zip(names, groups) for name, _ in group}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return folder


# ---------------------------------------------------------------- texts

# Words that the tokenizers of BERT and MPNet keep whole.
WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand part "
    "place case week company system program question work government number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father power "
    "hour game line end member law car city name president team minute idea body information back parent face others level "
    "office door health person art war history party result change morning reason research girl guy moment air teacher"
).split()


def texts(tokens, count, seed=1337):
    """Texts of about so many tokens for the real models, two of them special. "short": 8 to 17 words."""
    numbers = random.Random(f"{seed} {tokens}")
    length = lambda: numbers.randint(8, 17) if tokens == "short" else int(tokens) - 2
    return [" ".join(numbers.choices(WORDS, k=length())) for _ in range(count)]


def ids(tokens, count, end, seed=1337):
    """Token ids for the random decoders, the last of which ends the text."""
    numbers = random.Random(f"{seed} {tokens} ids")
    length = lambda: numbers.randint(9, 18) if tokens == "short" else int(tokens)
    return [[*(numbers.randrange(1, 400) for _ in range(length() - 1)), end] for _ in range(count)]
