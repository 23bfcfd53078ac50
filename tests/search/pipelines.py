"""Retrieval pipelines over real stores, with and without augmented vectors, against `isomer eval`. See tests/search/pipelines."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "clients/conformance"), str(ROOT / "clients/python/src")]
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "False", "ANONYMIZED_TELEMETRY": "False", "HF_HUB_OFFLINE": "1"}
warnings.filterwarnings("ignore")

import judged  # noqa: E402
from frameworks import EXACT, FRAMEWORKS, STORES, Place  # noqa: E402
from harness import generator  # noqa: E402
from isomer_client import Client, Source  # noqa: E402
from isomer_client.integrations.vectors import Gase  # noqa: E402
from stores import Process, free_port  # noqa: E402

# mteb and the other reports give scores to four decimals.
EQUAL, NEAR = 5e-5, 0.01


class Gateway(Process):
    """`isomer serve` that keeps vectors, so that each text is encoded once for all stores."""

    def __init__(self, isomer: str, folder: pathlib.Path, model: str, given: argparse.Namespace, data: list[str]):
        self.isomer, self.port, self.model = isomer, free_port(), model
        _, url = generator.serve()
        config = folder / "serve.toml"
        config.write_text(
            f'[embed]\nprecision = "{given.precision}"\ncache_dir = "{folder / "vectors"}"\nwarm_up = ["{model}"]\n[addresses]\nallow = ["127.0.0.1"]\n'
            f'[eval]\ndata_roots = {json.dumps(data)}\n[transform]\ndefault_generator = "stub"\ncache_dir = "{folder / "variants"}"\n'
            f'[transform.generators.stub]\nmodel = "stub"\nurl = "{url}"\napi_key_env = ""\nconcurrency = 32\n'
            f'[transform.generators.real]\nkind = "local"\nmodel = "{given.local}"\n'
        )
        command = [isomer, "serve", "--listen", f"127.0.0.1:{self.port}", "--config", str(config)]
        super().__init__(command, f"http://127.0.0.1:{self.port}/readyz", folder / "serve.log")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def json(self, *arguments: str) -> dict:
        command = [self.isomer, *arguments, "--server", self.address, "--format", "json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=7200)
        if done.returncode != 0:
            raise AssertionError(f"isomer {' '.join(arguments[:2])} ended with {done.returncode}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def scores(self, data: judged.Judged, augment: str, source: str) -> dict[str, float]:
        """nDCG@10 by `isomer eval`: plain, with augmented queries, with all augmented."""
        common = ["eval", "--model", self.model, "--task", "retrieval", "--data", str(data.folder)]
        found = {}
        for mode, more in (("queries", ["--queries-only"]), ("both", [])):
            told = self.json(*common, "--augment", augment, "--generator", source, *more)
            found |= {"off": ndcg(told["plain"]), mode: ndcg(told["augmented"])}
        return found


def ndcg(result: dict) -> float:
    (split,) = result["scores"].values()
    return split[0]["ndcg_at_10"]


def chroma(folder: pathlib.Path) -> tuple[Process, int]:
    port = free_port()
    command = [str(pathlib.Path(sys.executable).with_name("chroma")), "run", "--host", "127.0.0.1", "--port", str(port), "--path", str(folder / "chroma")]
    server = Process(command, f"http://127.0.0.1:{port}/api/v2/heartbeat", folder / "chroma.log", {"ANONYMIZED_TELEMETRY": "False"})
    server.start()
    return server, port


FAILED: list[str] = []


def compared(data: judged.Judged, place: Place, due: dict[str, float], given: argparse.Namespace, number: int) -> None:
    all_texts = Gase([Source(given.augment, generator=given.generator)], queries_only=False)
    for framework in given.framework or FRAMEWORKS:
        for store in given.store or STORES:
            began, told = time.monotonic(), {}
            # Documents plain: queries plain, and augmented; documents augmented: queries augmented.
            for of_documents, modes in ((None, {"off": None, "queries": all_texts}), (all_texts, {"both": all_texts})):
                name = f"d{number}_{framework.lower()}_{'gase' if of_documents else 'plain'}"
                pipeline = FRAMEWORKS[framework](store, place, name)
                pipeline.write(data.documents, of_documents)
                for mode, of_queries in modes.items():
                    search = pipeline.open(of_queries)
                    told[mode] = data.ndcg({key: search(text) for key, text in data.queries.items()})
            within = EQUAL if store in EXACT else NEAR
            far = {mode: told[mode] - due[mode] for mode in due if not abs(told[mode] - due[mode]) <= within}
            verdict = "FAIL" if far else "ok  "
            if far:
                FAILED.append(f"{data.name} {framework} {store}")
            scores = "  ".join(f"{told[mode]:.4f}" for mode in ("off", "queries", "both"))
            print(f"{verdict} {data.name:14} {framework:11} {store:12} {scores}  {time.monotonic() - began:6.1f} s  {far or ''}", flush=True)


def run(given: argparse.Namespace, folder: pathlib.Path, gateway: Gateway) -> None:
    server, port = chroma(folder)
    try:
        with Client(gateway.address) as client:
            encoder = client.encoder(gateway.model)
            if not encoder.normalises:
                sys.exit(f"{gateway.model} does not give unit vectors, and LanceDB's integrations compare by distance: name another with --model")
            place = Place(given.postgres, port, folder, client, gateway.address, gateway.model, encoder.dimensions)
            sets = [judged.graded(folder / "graded"), judged.claims(folder / "claims")]
            if given.data:
                sets = [judged.read(pathlib.Path(given.data).resolve())]
                if given.most_documents:
                    sets = [judged.part(folder / f"{sets[0].name} part", sets[0], given.most_documents)]
                sets.append(judged.claims(folder / "titles", sets[0], 300))
            print(f"nDCG@10, encoder {gateway.model}, {given.augment} by {given.generator}\n")
            print(f"     {'data':14} {'framework':11} {'store':12} {'plain':6}  {'queries':6} {'all':>6}")
            for number, data in enumerate(sets):
                due = gateway.scores(data, given.augment, given.generator)
                print(f"     {data.name:14} {'isomer eval':24} {due['off']:.4f}  {due['queries']:.4f}  {due['both']:.4f}  {len(data.documents)} documents, {len(data.judgements)} queries")
                if len({round(score, 6) for score in due.values()}) < 3:
                    FAILED.append(f"{data.name}: augmentation changes no score, so the table says nothing of it")
                compared(data, place, due, given, number)
    finally:
        server.kill()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--model", default=None, help="encoder [default: all-MiniLM-L6-v2; with --documents paraphrase-MiniLM-L3-v2]")
    parser.add_argument("--precision", default="f32", choices=["f32", "int8"], help="arithmetic of the encoder")
    parser.add_argument("--data", help="a data set in the form of BEIR's; by default two are generated")
    parser.add_argument("--most-documents", type=int, help="of that data set: queries and their judged documents, until there are so many")
    parser.add_argument("--framework", action="append", choices=list(FRAMEWORKS), help="by default all")
    parser.add_argument("--store", action="append", choices=STORES, help="by default all")
    parser.add_argument("--augment", default="paraphrase")
    parser.add_argument("--generator", default="stub", choices=["stub", "real"])
    parser.add_argument("--local", default="smollm2-135m-instruct", help="the generator `real`")
    parser.add_argument("--documents", type=int, help="load so many generated documents into the stores instead, and measure that")
    parser.add_argument("--real-documents", type=int, default=2000, help="of these so many are augmented by the generator `real`")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isomer-pipelines-") as name:
        folder = pathlib.Path(name)
        model = given.model or ("paraphrase-MiniLM-L3-v2" if given.documents else "all-MiniLM-L6-v2")
        data = [str(pathlib.Path(given.data).resolve().parent)] if given.data else []
        gateway = Gateway(given.isomer, folder, model, given, [str(folder), *data])
        gateway.start()
        try:
            if given.documents:
                from loading import measure

                measure(given, folder, gateway, FAILED)
            else:
                run(given, folder, gateway)
        finally:
            gateway.kill()
    print(f"\n{len(FAILED)} failed: {'; '.join(FAILED)}" if FAILED else "\nall hold")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
