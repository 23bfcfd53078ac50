"""Runs a command beside a real server, as the pages of the documentation and the READMEs expect one: `examples --isomer FILE -- COMMAND`.

The command finds the server in ISOMER_SERVER.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from . import generator
from .servers import FIXTURES, Isomer

MODELS = {"all-MiniLM-L6-v2": "xlm_roberta", "ms-marco-MiniLM-L6-v2": "bert_reranker", "bge-m3": "bge_m3"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    _, url = generator.serve()
    encoders = "".join(f'"{name}" = "{FIXTURES / folder}"\n' for name, folder in MODELS.items())
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
    with tempfile.TemporaryDirectory(prefix="isomer-examples-") as folder:
        server = Isomer(str(pathlib.Path(arguments.isomer).resolve()), pathlib.Path(folder), "examples", config).start()
        try:
            kept = {name: value for name, value in os.environ.items() if name != "ISOMER_API_KEY"}
            done = subprocess.run(arguments.command, env={**kept, "ISOMER_SERVER": server.address}, stdin=subprocess.DEVNULL)
        finally:
            server.stop()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
