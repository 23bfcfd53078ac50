"""transformers with SDPA on the same GPU: st.py FOLDER:PRECISION:TOKENS:BATCH_TOKENS[,BATCH_TOKENS] ...

From the same kind of token ids as `gpu speed` to vectors in host memory: sorted by length, padded, mean or last-token pooling.
Prints a line of JSON for each batch. mpnet has no SDPA in transformers and runs eagerly.
"""

import json
import pathlib
import random
import sys
import time

import torch
from transformers import AutoModel

torch.backends.cuda.matmul.allow_tf32 = False
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
SECONDS, ROUNDS = 0.4, 3


def load(folder, precision):
    try:
        model = AutoModel.from_pretrained(folder, dtype=DTYPES[precision], attn_implementation="sdpa")
    except (ValueError, ImportError):
        model = AutoModel.from_pretrained(folder, dtype=DTYPES[precision])
    return model.cuda().eval()


@torch.inference_mode()
def encode(model, texts):
    texts = sorted(texts, key=len)
    longest = len(texts[-1])
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts]).cuda()
    lengths = torch.tensor([len(text) for text in texts]).cuda()
    mask = (torch.arange(longest, device="cuda") < lengths[:, None]).long()
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    if model.config.model_type == "qwen3":
        vectors = states[torch.arange(len(texts), device="cuda"), lengths - 1]
    else:
        vectors = (states * mask[..., None]).sum(1) / lengths[:, None]
    return vectors.float().cpu()


def measure(model, tokens, batch_tokens):
    numbers = random.Random(3)
    length = lambda: numbers.randrange(9, 21) if tokens == 15 else tokens
    texts = [[numbers.randrange(5, 400) for _ in range(length())] for _ in range(max(1, batch_tokens // tokens))]
    for _ in range(2):
        encode(model, texts)
    rates = []
    for _ in range(ROUNDS):
        started, done = time.perf_counter(), 0
        while done == 0 or time.perf_counter() - started < SECONDS:
            encode(model, texts)
            done += len(texts)
        rates.append(done / (time.perf_counter() - started))
    low, middle, high = sorted(rates)
    return {"texts_s": round(middle, 1), "low": round(low, 1), "high": round(high, 1), "attention": model.config._attn_implementation}


held = None
for spec in sys.argv[1:]:
    folder, precision, tokens, batches = spec.split(":")
    for batch_tokens in map(int, batches.split(",")):
        row = {"what": "peer", "model": pathlib.Path(folder).name, "precision": precision, "tokens": int(tokens), "batch_tokens": batch_tokens}
        try:
            if not held or held[0] != (folder, precision):
                held = None
                torch.cuda.empty_cache()
                held = (folder, precision), load(folder, precision)
            row |= measure(held[1], int(tokens), batch_tokens)
        except Exception as error:
            row["error"] = repr(error)[:300]
        print(json.dumps(row), flush=True)
