"""The GPU's own limits by torch in bf16, as lines of JSON: a product, two attentions, a copy."""

import json

import torch
from torch.nn.functional import scaled_dot_product_attention as attention


def seconds(call, repeats=10):
    for _ in range(3):
        call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def say(name, unit, amount, call):
    print(json.dumps({"what": "ceiling", "name": name, unit: round(amount / seconds(call) / 1e12, 2)}), flush=True)


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


a, b = random(8192, 8192), random(8192, 8192)
say("8192^3 product", "tflops", 2 * 8192**3, lambda: a @ b)
for name, shape, causal in [("4 x 16 heads x 8192 x 128, causal", (4, 16, 8192, 128), True), ("262 x 16 heads x 250 x 64", (262, 16, 250, 64), False)]:
    q, k, v = (random(*shape) for _ in range(3))
    texts, heads, tokens, width = shape
    operations = 4 * texts * heads * tokens**2 * width / (2 if causal else 1)
    say(f"attention {name}", "tflops", operations, lambda: attention(q, k, v, is_causal=causal))
source = torch.empty(8 << 30, dtype=torch.uint8, device="cuda")
target = torch.empty_like(source)
say("copy of 8 GiB, read and written", "tb_s", 2 * source.nbytes, lambda: target.copy_(source))
