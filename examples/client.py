"""Two texts to vectors and their cosine, over HTTP. Usage: python3 client.py [URL]"""

import json
import math
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:50051"
texts = ["A man is playing a guitar.", "Someone plays the guitar."]
request = urllib.request.Request(
    f"{url}/v1/embeddings",
    data=json.dumps({"model": "all-MiniLM-L6-v2", "input": texts}).encode(),
    headers={"content-type": "application/json"},
)
with urllib.request.urlopen(request) as answer:
    first, second = (item["embedding"] for item in json.load(answer)["data"])
product = sum(a * b for a, b in zip(first, second))
print(f"cosine {product / (math.hypot(*first) * math.hypot(*second)):.3f}")
