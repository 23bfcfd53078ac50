"""Type-checks and runs the TypeScript of docs/how-to/clients-typescript.md, from top to bottom, against a real server; then services.ts."""

import argparse
import importlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
PAGE = HERE.parents[1] / "docs/how-to/clients-typescript.md"
# Assertions on the page's own names after it ran.
CHECKS = """
import assert from "node:assert/strict";
assert.ok(report.text.length > 0 && ended.error === "", ended.error);
assert.ok(best < 2000 && german.results.length === 1 && stored.digest.length === 64);
assert.equal(count, 1000);
console.log("the page ran to its end");
"""


def ran(name, script, environment, last):
    """Ends the check unless the script ran to its last line."""
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, env=environment, timeout=300)
    if done.returncode != 0 or last not in done.stdout:
        sys.exit(f"{name} fails:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    servers = importlib.import_module("harness.servers")
    generator = importlib.import_module("harness.generator")
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```ts\n(.*?)^```", page, re.S | re.M)
    tasks = re.findall(r"^## (\d+)\. ", page, re.M)
    assert tasks == [str(number) for number in range(1, 13)], tasks
    # One module: its imports are moved to the top by the language itself.
    source = HERE / "build/page/page.ts"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("".join(f"// block {number}\n{block}" for number, block in enumerate(blocks, 1)) + CHECKS, encoding="utf-8")
    (source.parent / "tsconfig.json").write_text(
        '{"extends": "../../tsconfig.json", "compilerOptions": {"rootDir": ".", "outDir": "out", "declaration": false, "incremental": false,'
        ' "noUnusedLocals": false}, "include": ["page.ts"], "exclude": []}'
    )
    checked = subprocess.run([HERE / "node_modules/.bin/tsc", "--project", str(source.parent)], capture_output=True, text=True)
    if checked.returncode != 0:
        sys.exit(f"{PAGE.name} has other types than it says:\n{checked.stdout}")
    _, url = generator.serve()
    models = {"all-MiniLM-L6-v2": "xlm_roberta", "ms-marco-MiniLM-L6-v2": "bert_reranker", "bge-m3": "bge_m3"}
    models = {name: servers.FIXTURES / folder for name, folder in models.items()}
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
        environment = {name: value for name, value in os.environ.items() if name != "ISOMER_API_KEY"}
        environment["ISOMER_SERVER"] = server.address
        try:
            ran(PAGE.name, source.parent / "out/page.js", environment, "the page ran to its end")
            ran("services.ts", HERE / "build/tests/services.js", environment, "every service answered")
        finally:
            server.stop()
    print(f"{PAGE.name}: {len(blocks)} blocks ran")


if __name__ == "__main__":
    main()
