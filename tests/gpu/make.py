"""Makes models of known shapes with random weights, on the GPU: make.py FOLDER FIXTURES NAME...

Tokenizer and layout come from a fixture; the weights come from a seed.
"""

import json
import pathlib
import shutil
import sys
import time
from collections import namedtuple

Shape = namedtuple("Shape", "fixture hidden layers heads kv_heads head inner longest")
SHAPES = {
    "mpnet": Shape("mpnet", 768, 12, 12, 12, 64, 3072, 512),
    "bert-large": Shape("bert_poolings", 1024, 24, 16, 16, 64, 4096, 512),
    "q06": Shape("qwen3", 1024, 28, 16, 8, 128, 3072, 8192),
    # Eight of the 36 layers of Qwen3-Embedding-8B.
    "q8cut": Shape("qwen3", 4096, 8, 32, 8, 128, 12288, 8192),
}
MINILM = Shape("", 384, 6, 12, 12, 32, 1536, 256)


def config(shape):
    from transformers import BertConfig, MPNetConfig, Qwen3Config

    common = dict(hidden_size=shape.hidden, num_hidden_layers=shape.layers, num_attention_heads=shape.heads, intermediate_size=shape.inner)
    if shape.fixture == "qwen3":
        decoder = dict(num_key_value_heads=shape.kv_heads, head_dim=shape.head, max_window_layers=shape.layers, rope_theta=1e6, tie_word_embeddings=True)
        return Qwen3Config(vocab_size=151936, max_position_embeddings=32768, **decoder, **common)
    if shape.fixture == "mpnet":
        return MPNetConfig(vocab_size=30527, max_position_embeddings=514, relative_attention_num_buckets=32, **common)
    return BertConfig(vocab_size=30522, max_position_embeddings=512, **common)


def edit(path, change):
    value = json.loads(path.read_text())
    path.write_text(json.dumps(change(value) or value))


def make(shape, fixture, folder):
    import torch
    from transformers import AutoModel

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(fixture, folder, ignore=shutil.ignore_patterns("golden.*", "*.safetensors", "2_*"))
    layout = json.loads((folder / "config.json").read_text())
    settings = config(shape)
    torch.manual_seed(7)
    with torch.device("cuda"):
        model = AutoModel.from_config(settings, **({} if shape.fixture == "qwen3" else {"add_pooling_layer": False}))
    model.to(torch.bfloat16).save_pretrained(folder)
    # The fixture's keys in the order of its library version, with the sizes of this model.
    sizes = {key: getattr(settings, key) for key in layout if isinstance(layout[key], int) and key.endswith(("size", "embeddings", "heads", "layers", "dim"))}
    (folder / "config.json").write_text(json.dumps(layout | sizes))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": shape.longest, "do_lower_case": False}))
    edit(folder / "modules.json", lambda modules: [one for one in modules if one["type"].endswith(("Transformer", "Pooling"))])

    def pooling(value):
        value["word_embedding_dimension"] = shape.hidden
        if shape.fixture != "qwen3":
            modes = [key for key in value if key.startswith("pooling_mode_")]
            value.update({key: key == "pooling_mode_mean_tokens" for key in modes})

    edit(folder / "1_Pooling/config.json", pooling)


if __name__ == "__main__":
    root, fixtures = map(pathlib.Path, sys.argv[1:3])
    for name in sys.argv[3:]:
        started = time.monotonic()
        make(SHAPES[name], fixtures / SHAPES[name].fixture, root / name)
        print(json.dumps({"what": "made", "model": name, "s": round(time.monotonic() - started, 1)}), flush=True)
