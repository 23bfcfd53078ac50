"""Runs the Python of docs/how-to/clients-python.md, from top to bottom, against a real server."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import pathlib
import re
import tempfile
from typing import Any, Dict

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/how-to/clients-python.md"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    servers: Any = importlib.import_module("harness.servers")
    generator: Any = importlib.import_module("harness.generator")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    tasks = re.findall(r"^## (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.M)
    assert tasks == [str(number) for number in range(1, 13)], tasks
    _, url = generator.serve()
    models: Dict[str, pathlib.Path] = {
        "all-MiniLM-L6-v2": servers.FIXTURES / "xlm_roberta",
        "ms-marco-MiniLM-L6-v2": servers.FIXTURES / "bert_reranker",
        "bge-m3": servers.FIXTURES / "bge_m3",
    }
    encoders = "".join(f'"{name}" = "{folder}"\n' for name, folder in models.items())
    config = f"""
[embed.encoders]
{encoders}
[transform]
default_generator = "stub"
[transform.generators.stub]
model = "stub"
url = "{url}"
api_key_env = ""
"""
    with tempfile.TemporaryDirectory(prefix="isomer-documents-") as folder:
        server = servers.Isomer(parser.parse_args().isomer, pathlib.Path(folder), "documents", config).start()
        os.environ["ISOMER_SERVER"] = server.address
        os.environ.pop("ISOMER_API_KEY", None)
        try:
            names: Dict[str, Any] = {}
            for number, block in enumerate(blocks, 1):
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
            assert names["report"].text and names["ended"].error == "", names["ended"]
            assert names["best"] < 2000 and names["german"].results and names["stored"]["digest"]
        finally:
            server.stop()
    print(f"{PAGE.name}: {len(blocks)} blocks ran")


if __name__ == "__main__":
    main()
