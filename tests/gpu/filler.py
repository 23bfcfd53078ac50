"""Holds the GPU's memory but for some GiB: filler.py GIB SECONDS. Prints a line once it does."""

import sys
import time

import torch

free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - int(float(sys.argv[1]) * 2**30), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print(f"held {held.nbytes >> 20} MiB, free {torch.cuda.mem_get_info()[0] >> 20} MiB", flush=True)
time.sleep(float(sys.argv[2]))
