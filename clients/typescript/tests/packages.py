"""Packs the client as in a new clone, installs it into a clean folder, and type-checks and runs the README's first example there."""

import argparse
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
ENCODER = "all-MiniLM-L6-v2"


def first_example():
    found = re.search(r"^```ts\n(.*?)^```", (HERE / "README.md").read_text(encoding="utf-8"), re.S | re.M)
    assert found, "README.md has no example"
    return found[1]


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:6]))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def checkout(folder):
    """The client's files in a clone, where nothing is installed or compiled."""
    listed = run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=HERE)
    for name in listed.rstrip("\0").split("\0"):
        if (HERE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / name, folder / name)
    return folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    servers = importlib.import_module("harness.servers")
    with tempfile.TemporaryDirectory(prefix="isomer-npm-") as name:
        folder = pathlib.Path(name)
        packed = run(["npm", "pack", "--silent", "--pack-destination", name], cwd=checkout(folder / "checkout")).split()[-1]
        listed = run(["tar", "-tzf", str(folder / packed)]).split()
        for wanted in ("package/LICENSE", "package/README.md", "package/dist/index.js", "package/dist/index.d.ts", "package/examples/provider.ts"):
            assert wanted in listed, f"{wanted} is not in the package"
        assert not any("/node_modules/" in path or "/build/" in path for path in listed), "what is not published is in the package"
        clean = folder / "clean"
        clean.mkdir()
        (clean / "package.json").write_text('{"private": true, "type": "module"}')
        install = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--silent", str(folder / packed)]
        run(install, cwd=clean)
        (clean / "example.ts").write_text(first_example(), encoding="utf-8")
        (clean / "example.mjs").write_text(first_example(), encoding="utf-8")
        # As Node resolves packages, and as bundlers do; without Node's types, as on a page.
        for module, resolution in (("NodeNext", "NodeNext"), ("ESNext", "Bundler")):
            options = ["--noEmit", "--strict", "--target", "ES2022", "--types", "", "--module", module, "--moduleResolution", resolution]
            run([HERE / "node_modules/.bin/tsc", *options, "example.ts"], cwd=clean)
        config = f'[embed.encoders]\n"{ENCODER}" = "{servers.FIXTURES / "xlm_roberta"}"\n'
        server = servers.Isomer(parser.parse_args().isomer, folder, "packages", config).start()
        try:
            printed = run(["node", "example.mjs"], cwd=clean, env={"ISOMER_SERVER": server.address, "PATH": os.environ["PATH"]})
        finally:
            server.stop()
        assert re.fullmatch(r"2 32 Float32Array\ncosine -?\d\.\d\d, space [0-9a-f]{12}\n", printed), printed
        print(f"{packed}: {printed.splitlines()[-1]}")


if __name__ == "__main__":
    main()
