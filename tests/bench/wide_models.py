#!/usr/bin/env python3
"""Makes models with random weights in the shapes of real ones, for measurements of what no real weights are at hand for, and texts of given lengths.

    python tests/bench/wide_models.py modernbert ~/wide/modernbert --tokens 512 2048 8192
    python tests/bench/encode_peers.py --isomer target/release/isomer --model ~/wide/modernbert --only isomer isomer-int8 st --batch 4 \\
        ~/wide/modernbert/512.txt ~/wide/modernbert/2048.txt ~/wide/modernbert/8192.txt

A folder is complete: sentence-transformers reads it too. Its tokenizer is that of the fixture of the same name, whose vocabulary is tiny, so
words are many tokens; a text has the tokens asked for, or one or two fewer where a word was cut.
"""

import argparse
import json
import pathlib
import random
import shutil

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "embed-svc" / "tests" / "fixtures"
# Differences from the fixture. Layers are fewer than in the real models, widths are theirs.
SHAPES = {
    # ModernBERT-base: 22 layers there.
    "modernbert": {
        "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 1152, "num_hidden_layers": 6, "local_attention": 128, "dtype": "float32",
    },
    # Qwen3-Embedding-0.6B: 28 layers there.
    "qwen3": {
        "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "num_hidden_layers": 6,
        "max_window_layers": 6, "dtype": "float32",
    },
}
LONGEST = 8192


def text_of(tokenizer, tokens, numbers, words):
    """Random words with a given number of tokens, those that the tokenizer adds included."""
    chosen, count = [], len(tokenizer.encode("").ids)
    while count < tokens:
        chosen.append(numbers.choice(words))
        count += len(tokenizer.encode(" " + chosen[-1], add_special_tokens=False).ids)
    while len(tokenizer.encode(" ".join(chosen)).ids) > tokens:
        # Shorter by the letter, so that no text is much too short.
        chosen[-1] = chosen[-1][:-1]
        chosen = chosen if chosen[-1] else chosen[:-1]
    return " ".join(chosen)


def make(shape, folder, lengths, count, seed):
    import tokenizers
    import torch
    import transformers

    torch.manual_seed(seed)
    fixture = FIXTURES / shape
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(fixture, folder, ignore=shutil.ignore_patterns("golden*", "model.safetensors"))
    config = json.loads((fixture / "config.json").read_text()) | SHAPES[shape]
    config.pop("torch_dtype", None)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    model = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(folder), dtype=torch.float32)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            # The library's own start is so small that all texts would get nearly the same vector.
            weights.copy_(torch.randn_like(weights) * weights.shape[-1] ** -0.5 if weights.dim() > 1 else torch.ones_like(weights))
    model.save_pretrained(folder)
    # The library writes its own view of the configuration; ours is the one that was asked for.
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"word_embedding_dimension": config["hidden_size"]}, indent=1))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    numbers = random.Random(seed)
    words = [word for text in json.loads((FIXTURES / "texts.json").read_text()) for word in text.split() if word.isalpha()]
    for tokens in lengths:
        texts = [text_of(tokenizer, tokens, numbers, words) for _ in range(max(2, count * 512 // tokens))]
        (folder / f"{tokens}.txt").write_text("\n".join(texts) + "\n")
        print(f"{folder / f'{tokens}.txt'}: {len(texts)} texts of {min(len(tokenizer.encode(text).ids) for text in texts)} tokens at least")
    print(f"{sum(weights.numel() for weights in model.parameters()) / 1e6:.0f} million parameters")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=list(SHAPES))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048, LONGEST], help="lengths of the texts (default: %(default)s)")
    parser.add_argument("--count", type=int, default=32, help="texts of 512 tokens; of longer ones as many as have the same tokens (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1337)
    args = parser.parse_args()
    make(args.shape, args.folder, args.tokens, args.count, args.seed)


if __name__ == "__main__":
    main()
