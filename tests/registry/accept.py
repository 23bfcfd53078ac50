"""Checks of a model registry, against a real MLflow server. See tests/registry/run."""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings

os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "1"
os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
warnings.filterwarnings("ignore")

import boto3  # noqa: E402
import encoders  # noqa: E402
import keys  # noqa: E402
import mlflow  # noqa: E402
import models  # noqa: E402
from mlflow.entities.webhook import WebhookEvent  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from parts import until  # noqa: E402
from servers import SECRET, Isomer, Mlflow, Proxy  # noqa: E402

PASSED, CHAMPION = "isomer-passed", "champion"
EVENTS = ["model_version.created", "model_version_tag.set", "model_version_tag.deleted",
          "model_version_alias.created", "model_version_alias.deleted"]
REPORTS = ["isomer/junit.xml", "isomer/report.html", "isomer/report.json", "isomer/report.md"]
FORMS = ["isomer/attestation.dsse.json", *REPORTS]


class Table:
    """Assertions, and their results."""

    def __init__(self):
        self.failed = 0

    def row(self, what: str, wanted: object, found: object) -> None:
        fine = wanted == found
        self.failed += not fine
        print(f"{'ok  ' if fine else 'FAIL'} {what}: {found}" + ("" if fine else f" (wanted {wanted})"), flush=True)

    def said(self, what: str, value: object) -> None:
        print(f"     {what}: {value}", flush=True)


class Scene:
    """Both servers, a language model, and a client of MLflow's own."""

    def __init__(self, isomer: str, folder: pathlib.Path):
        self.folder, self.table = folder, Table()
        self.generator = encoders.generator(0.05)
        self.mlflow = Mlflow(folder)
        self.mlflow.start()
        mlflow.set_tracking_uri(self.mlflow.url)
        mlflow.set_experiment("training")
        self.client = mlflow.MlflowClient()
        self.key = keys.pair(folder)
        self.flags_but_uri = ["--attest", str(self.key.private), "--suite", str(encoders.SUITE), "--generator",
                              self.generator.spec, "--max-bytes", str(encoders.MAX_BYTES), *encoders.RULES]
        self.flags = ["--tracking-uri", self.mlflow.url, *self.flags_but_uri]
        self.isomer = Isomer(isomer, folder, self.flags)
        self.isomer.start()

    def close(self) -> None:
        for server in (self.isomer, self.mlflow):
            server.kill()

    def encoder(self, kind: str, **settings) -> pathlib.Path:
        return getattr(encoders, kind)(self.folder / f"encoders/{kind}-{uuid.uuid4().hex[:6]}", **settings)

    def tags(self, name: str, version: str) -> dict[str, str]:
        return self.client.get_model_version(name, version).tags

    def verdict(self, name: str, version: str) -> str | None:
        return self.tags(name, version).get("isomer.verdict")

    def verdicts(self, name: str) -> dict[str, str | None]:
        found = self.client.search_model_versions(f"name='{name}'")
        return {version.version: version.tags.get("isomer.verdict") for version in found}

    def alias(self, name: str, alias: str) -> str | None:
        found = self.client.get_registered_model(name).aliases.get(alias)
        return None if found is None else str(found)

    def wait(self, what: str, holds, seconds: float = 180) -> None:
        def tried() -> bool:
            try:
                return holds()
            except (mlflow.exceptions.MlflowException, OSError):
                return False

        until(what, tried, seconds)

    def records(self, name: str, version: str) -> int:
        """Runs of MLflow in which checks of a version are recorded."""
        experiment = self.client.get_experiment_by_name("isomer")
        where = f"tags.`isomer.model` = '{name}' and tags.`isomer.model_version` = '{version}'"
        return len(self.client.search_runs([experiment.experiment_id], where))


def verdicts_of_every_kind(scene: Scene) -> None:
    """Versions of every kind, while both servers are killed."""
    table, client = scene.table, scene.client
    webhook = client.create_webhook("isomer", scene.isomer.hook, [WebhookEvent.from_str(e) for e in EVENTS], secret=SECRET)
    table.row("a test delivery of MLflow is accepted", True, client.test_webhook(webhook.webhook_id).success)
    client.create_registered_model("enc")
    first = models.as_artifacts(client, "enc", scene.encoder("good"))
    client.set_registered_model_alias("enc", CHAMPION, first)
    scene.generator.wait(30)
    scene.isomer.kill()
    table.said("Isomer killed", f"after {scene.generator.calls} calls of the language model")
    wanted = {first: "pass"}
    wanted[models.as_pyfunc(client, "enc", scene.encoder("good", seed=2))] = "pass"
    wanted[models.as_sentence_transformers(client, "enc", scene.encoder("worse"))] = "fail"
    scene.isomer.start()
    wanted[models.as_artifacts(client, "enc", scene.encoder("near_constant"))] = "fail"
    wanted[models.as_pyfunc(client, "enc", scene.encoder("undecided"))] = "undecided"
    scene.wait("two verdicts", lambda: sum(map(bool, scene.verdicts("enc").values())) >= 2)
    scene.mlflow.kill()
    time.sleep(2)
    table.said("MLflow killed and started", "with two verdicts")
    scene.mlflow.start()
    wanted[models.as_artifacts(client, "enc", scene.encoder("invalid"))] = "invalid"
    wanted[models.as_pyfunc(client, "enc", None)] = "unsupported"
    wanted[models.as_artifacts(client, "enc", scene.encoder("large"))] = "refused"
    scene.wait("five verdicts", lambda: sum(map(bool, scene.verdicts("enc").values())) >= 5)
    for server in (scene.isomer, scene.mlflow):
        server.kill()
    table.said("both killed and started", "with five verdicts")
    for server in (scene.mlflow, scene.isomer):
        server.start()
    scene.wait("a verdict of each", lambda: all(scene.verdicts("enc").get(version) for version in wanted))
    # The steps that follow the verdict of the last one.
    time.sleep(1)
    names = ["good, artifacts of a run", "good, pyfunc with a folder", "worse, flavour sentence_transformers", "near-constant",
             "undecided", "invalid", "pickle alone", "too large"]
    found = scene.verdicts("enc")
    for name, (version, verdict) in zip(names, wanted.items()):
        table.row(f"verdict of version {version} ({name})", verdict, found[version])
    good = list(wanted)[1]
    table.row("alias of those that passed", good, scene.alias("enc", PASSED))
    table.row("alias of the champion, which nobody moved", first, scene.alias("enc", CHAMPION))
    ran = [version for version, verdict in wanted.items() if verdict not in ("unsupported", "refused")]
    table.row("records of each version", {version: int(version in ran) for version in wanted},
              {version: scene.records("enc", version) for version in wanted})
    compared = {version: scene.tags("enc", version).get("isomer.baseline") for version in ran}
    table.row("compared with", {version: "none" if version == first else first for version in ran}, compared)
    evidence(scene, good)
    def left() -> list[str]:
        # The partial download of a killed process (`incoming-…`) is removed after a day.
        return [folder.name for folder in (scene.folder / "home/registry/files").iterdir()
                if folder.is_dir() and not folder.name.startswith("incoming-")]

    scene.wait("the folders of encoders are gone", lambda: not left())
    table.row("folders of encoders that are left on disk", [], left())


def evidence(scene: Scene, version: str) -> None:
    """The record of a version, through MLflow's own client."""
    table, client = scene.table, scene.client
    tags = scene.tags("enc", version)
    run = client.get_run(tags["isomer.record"])
    table.row("the record is finished", "FINISHED", run.info.status)
    metrics = run.data.metrics
    ends = metrics["isomer.drop.total.low"] <= metrics["isomer.drop.total"] <= metrics["isomer.drop.total.high"]
    table.row("the drop lies within its interval", True, ends)
    table.row("the comparison with the baseline is there", True, "isomer.versus_baseline.original" in metrics)
    table.row("artifacts", FORMS, sorted(file.path for file in client.list_artifacts(run.info.run_id, "isomer")))
    local = pathlib.Path(client.download_artifacts(run.info.run_id, "isomer/report.json"))
    digest = hashlib.sha256(local.read_bytes()).hexdigest()
    table.row("sha256 of report.json", tags["isomer.report_sha256"], digest)
    champion = scene.alias("enc", CHAMPION)
    names = [f"models:/enc/{number}" for number in (version, champion)]
    told = json.loads(local.read_text())
    table.row("encoders of the report", sorted(names), sorted(one["id"] for one in told["encoders"]))
    table.row("the gate judges", [names[0]], [one["encoder"] for one in told["gate"]["encoders"]])
    whole = pathlib.Path(client.download_artifacts(run.info.run_id, "isomer"))
    of_machine = [file.name for file in whole.iterdir() if str(scene.folder) in file.read_text()]
    table.row("artifacts that name a folder of this machine", [], of_machine)
    verified = scene.isomer.run("report", "verify", str(whole / "attestation.dsse.json"), "--report", str(local), "--key",
                                str(scene.key.public), "--format", "json")
    table.row("the attestation holds", (0, names[0], tags["isomer.weights_sha256"]),
              (verified.returncode, *map(json.loads(verified.stdout or "{}").get, ("encoder", "weights_sha256"))))
    datasets = [(one.dataset.name, json.loads(one.dataset.source)["digest"]) for one in run.inputs.dataset_inputs]
    table.row("data sets with their digests", [(d["name"], d["digest"]) for d in told["datasets"]], datasets)
    source = client.get_model_version("enc", version).source
    if source.startswith("models:/"):
        logged = mlflow.get_logged_model(source.removeprefix("models:/")).metrics or []
        values = {one.key: one.value for one in logged}
        table.row("metrics at the logged model", metrics["isomer.drop.total"], values.get("isomer.drop.total"))


def stale_aliases(scene: Scene, model: str = "enc") -> None:
    """An alias that its version has not earned, or earns no more."""
    table, client = scene.table, scene.client
    passed = scene.alias(model, PASSED)
    failed = next(version for version, verdict in scene.verdicts(model).items() if verdict == "fail")
    client.set_registered_model_alias(model, PASSED, failed)
    scene.wait("the alias is taken from a version that failed", lambda: scene.alias(model, PASSED) is None)
    table.row("an alias that a person gave to a version that failed is taken back", None, scene.alias(model, PASSED))
    # A person asks for the verdict once more.
    calls, records = scene.generator.calls, scene.records(model, passed)
    client.delete_model_version_tag(model, passed, "isomer.verdict")
    scene.wait("the alias is back", lambda: scene.alias(model, PASSED) == passed)
    table.row("a removed verdict is made again, with the same record and no call", ("pass", records, calls),
              (scene.verdict(model, passed), scene.records(model, passed), scene.generator.calls))
    # Other files under the same version: those that passed are not there any more.
    own = weights_of(scene, client.get_model_version(model, passed))
    shutil.copytree(scene.encoder("worse"), own.parents[1], dirs_exist_ok=True)
    scene.wait("a new verdict of changed files", lambda: scene.verdict(model, passed) == "fail")
    table.row("a passing alias whose files changed is taken back", None, scene.alias(model, PASSED))
    table.row("both checks are recorded", records + 1, scene.records(model, passed))
    # A change that keeps all sizes: found when the files are read again.
    again = models.as_pyfunc(client, model, scene.encoder("good", seed=3))
    scene.wait("another one passed", lambda: scene.alias(model, PASSED) == again)
    scene.wait("its files were read for the first time", lambda: scene.isomer.said("were read again", version=again))
    own = weights_of(scene, client.get_model_version(model, again))
    other = bytearray(own.read_bytes())
    other[-1] ^= 1
    own.write_bytes(other)
    time.sleep(5)
    table.row("a change that keeps the sizes is not seen by looks", again, scene.alias(model, PASSED))
    scene.isomer.kill(signal.SIGTERM)
    scene.isomer.start()
    scene.wait("its files are read again", lambda: scene.isomer.said("not those that passed", version=again))
    scene.wait("a new verdict", lambda: scene.records(model, again) == 2 and scene.alias(model, PASSED) == again)
    table.row("it is found when they are read again, and checked again", 2, scene.records(model, again))


def weights_of(scene: Scene, version) -> pathlib.Path:
    weights = [file for file in scene.mlflow.artifacts.rglob("*.safetensors") if "models" in file.parts]
    return next(file for file in weights if version.source.removeprefix("models:/") in file.parts)


def champion_changes(scene: Scene) -> None:
    """The champion becomes another version while a version is checked."""
    table, client = scene.table, scene.client
    client.create_registered_model("moving")
    first, second = (models.as_artifacts(client, "moving", scene.encoder("good", seed=seed)) for seed in (5, 6))
    scene.wait("both have a verdict", lambda: all(scene.verdicts("moving").get(v) for v in (first, second)))
    client.set_registered_model_alias("moving", CHAMPION, first)
    third = models.as_artifacts(client, "moving", scene.encoder("good", seed=7))
    scene.wait("the third is checked", lambda: scene.verdict("moving", third) == "pass")
    # Other texts, so that the run takes a while.
    calls = scene.generator.calls
    ended: list[subprocess.CompletedProcess] = []
    more = [*scene.flags, "--seeds", "11", "--temperature", "0.7", "--experiment", "by-hand", "--format", "json"]

    def check() -> None:
        ended.append(scene.isomer.once("check", "--model", "moving", "--version", third, more=more))

    running = threading.Thread(target=check)
    running.start()
    scene.generator.wait(calls + 20)
    client.set_registered_model_alias("moving", CHAMPION, second)
    running.join()
    told = json.loads(ended[0].stdout) if ended[0].returncode == 0 else ended[0].stderr
    table.row("a version is compared with the champion of the end, not of the beginning", ("pass", second),
              (told["verdict"], told["baseline"]) if isinstance(told, dict) else told)
    table.row("the change was told", True, "the champion changed" in ended[0].stderr)
    table.row("the tag names it", second, scene.tags("moving", third).get("isomer.baseline"))
    # The version with the alias is checked against a new champion; --promote moves the alias.
    client.set_registered_model_alias("moving", CHAMPION, first)
    scene.wait("the version at the alias is compared with the new champion",
               lambda: scene.tags("moving", third).get("isomer.baseline") == first)
    table.row("the version at the alias is checked against a new champion", (third, first),
              (scene.alias("moving", PASSED), scene.tags("moving", third)["isomer.baseline"]))
    promoted = scene.isomer.once("check", "--model", "moving", "--version", third, more=[*scene.flags, "--promote"])
    table.row("--promote makes a version that passed the champion", (0, third),
              (promoted.returncode, scene.alias("moving", CHAMPION)))


def promotion_cut_off(scene: Scene) -> None:
    """Killed after the alias of those that passed, before that of the champion."""
    table, client = scene.table, scene.client
    client.create_registered_model("cut")
    first = models.as_artifacts(client, "cut", scene.encoder("good", seed=8))
    scene.wait("the first has a verdict", lambda: scene.verdict("cut", first))
    client.set_registered_model_alias("cut", CHAMPION, first)
    scene.isomer.kill(signal.SIGTERM)
    second = models.as_artifacts(client, "cut", scene.encoder("good", seed=9))
    promoting = scene.isomer.another(scene.folder, "promoting")
    with Proxy(scene.mlflow.port, promoting) as proxy:
        promoting.more = ["--tracking-uri", proxy.url, *scene.flags_but_uri, "--promote", "--model", "cut"]
        promoting.start()
        until("it is killed", lambda: proxy.killed, 180)
    table.row("aliases after the kill", (second, first), (scene.alias("cut", PASSED), scene.alias("cut", CHAMPION)))
    told = scene.tags("cut", second).get("isomer.promotion")
    table.row("the tag that is left", "due", told)
    calls = scene.generator.calls
    promoting.more = [*scene.flags, "--promote", "--model", "cut"]
    promoting.start()
    scene.wait("the promotion is made", lambda: scene.alias("cut", CHAMPION) == second)
    scene.wait("the tag is gone", lambda: "isomer.promotion" not in scene.tags("cut", second))
    promoting.kill(signal.SIGTERM)
    table.row("the champion after a restart, without a call", (second, 0),
              (scene.alias("cut", CHAMPION), scene.generator.calls - calls))
    table.row("records", 1, scene.records("cut", second))
    scene.isomer.start()


def many_webhooks(scene: Scene) -> None:
    """A hundred webhooks at once: each version is checked once."""
    table, client = scene.table, scene.client
    for webhook in client.list_webhooks():
        client.delete_webhook(webhook.webhook_id)
    time.sleep(2)
    client.create_registered_model("many")
    # Nobody looks meanwhile: the reconciler would find them too.
    os.killpg(scene.isomer.process.pid, signal.SIGSTOP)
    versions = [models.as_artifacts(client, "many", scene.encoder("good", seed=20 + n)) for n in range(5)]
    now = int(time.time())
    deliveries = []
    for version in versions:
        body = json.dumps({"entity": "model_version", "action": "created", "data": {"name": "many", "version": version}})
        ids = [str(uuid.uuid4()) for _ in range(4)]
        deliveries += [(body, id, now, SECRET, 202) for id in ids]
        deliveries += [(body, id, now, SECRET, 200) for id in ids] * 2
        deliveries += [(body, str(uuid.uuid4()), now, "guessed", 401) for _ in range(4)]
        deliveries += [(body, str(uuid.uuid4()), now - 3600, SECRET, 401) for _ in range(4)]
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        sent = [pool.submit(deliver, scene.isomer.port, *delivery[:4]) for delivery in deliveries]
        os.killpg(scene.isomer.process.pid, signal.SIGCONT)
        answers = [one.result() for one in sent]
    table.row("webhooks sent", 100, len(deliveries))
    table.row("first of their id, and repeated", (20, 40), (answers.count(202), answers.count(200)))
    table.row("forged or replayed, refused", 40, answers.count(401))
    scene.wait("verdicts of all", lambda: all(scene.verdicts("many").get(version) for version in versions))
    time.sleep(3)
    table.row("each version is checked once", {version: 1 for version in versions},
              {version: scene.records("many", version) for version in versions})
    log = scene.isomer.log.read_text()
    begun = sum("checking" in line and '"many"' in line for line in log.splitlines())
    table.row("checks that were begun", len(versions), begun)


def deliver(port: int, body: str, id: str, time: int, secret: str) -> int:
    signed = base64.b64encode(hmac.new(secret.encode(), f"{id}.{time}.{body}".encode(), hashlib.sha256).digest()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/hooks/mlflow", body, {
        "Content-Type": "application/json", "X-MLflow-Delivery-Id": id, "X-MLflow-Timestamp": str(time),
        "X-MLflow-Signature": f"v1,{signed}"})
    status = connection.getresponse().status
    connection.close()
    return status


def what_webhooks_missed(scene: Scene) -> None:
    """No webhook at all: the reconciler finds a version; and the time that a check takes."""
    table, client = scene.table, scene.client
    client.create_registered_model("polled")
    version = models.as_transformers(client, "polled", *plain(scene))
    scene.wait("a verdict without a webhook", lambda: scene.verdict("polled", version))
    tags = scene.tags("polled", version)
    table.row("a version of the flavour transformers, which no webhook told of, is checked", True, "isomer.run" in tags)
    table.said("its verdict", tags["isomer.verdict"])
    client.create_webhook("isomer", scene.isomer.hook, [WebhookEvent.from_str(EVENTS[0])], secret=SECRET)
    time.sleep(2)
    begun, calls = time.monotonic(), scene.generator.calls
    version = models.as_artifacts(client, "polled", scene.encoder("good", seed=40))
    made = time.monotonic()
    scene.wait("a verdict", lambda: scene.verdict("polled", version))
    table.said("from registration to verdict, warm caches", f"{time.monotonic() - made:.1f} s "
               f"(registered in {made - begun:.1f} s), {scene.generator.calls - calls} calls of the language model")
    scene.isomer.kill(signal.SIGTERM)
    late = models.as_artifacts(client, "polled", scene.encoder("good", seed=41))
    watched = scene.isomer.once("watch", "--once", "--model", "pol*")
    table.row("watch --once", (0, "3 versions, 1 to check, 1 checks made\n"), (watched.returncode, watched.stdout))
    table.row("and its verdict", "pass", scene.verdict("polled", late))


def time_of_the_quick_suite(scene: Scene) -> None:
    """From the webhook to the verdict, on the suite `quick`."""
    table, client = scene.table, scene.client
    for webhook in client.list_webhooks():
        client.delete_webhook(webhook.webhook_id)
    serving = scene.isomer.another(scene.folder, "timed")
    serving.more = ["--tracking-uri", scene.mlflow.url, "--suite", "quick", "--generator", scene.generator.spec, "--model", "timed",
                    "--rule", "max_drop=20,unit=item"]
    serving.start()
    client.create_registered_model("timed")
    client.create_webhook("timed", serving.hook, [WebhookEvent.from_str(EVENTS[0])], secret=SECRET)
    for caches, seed in (("cold", 50), ("warm", 51)):
        calls, begun = scene.generator.calls, time.monotonic()
        version = models.as_artifacts(client, "timed", scene.encoder("good", seed=seed))
        made = time.monotonic()
        scene.wait("a verdict", lambda: scene.verdict("timed", version))
        table.said(f"verdict with {caches} caches", f"{scene.verdict('timed', version)}, {time.monotonic() - made:.1f} s after registration "
                   f"(which took {made - begun:.1f} s), {scene.generator.calls - calls} calls of the language model; "
                   f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    serving.kill(signal.SIGTERM)


def files_in_s3(scene: Scene) -> None:
    """A version whose files are in S3."""
    table, client = scene.table, scene.client
    store = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    store.start()
    host, port = store.get_host_and_port()
    os.environ.update(MLFLOW_S3_ENDPOINT_URL=f"http://{host}:{port}", AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret",
                      AWS_DEFAULT_REGION="us-east-1")
    boto3.client("s3", endpoint_url=os.environ["MLFLOW_S3_ENDPOINT_URL"]).create_bucket(Bucket="models")
    mlflow.set_experiment(experiment_id=client.create_experiment("in-s3", artifact_location="s3://models/some prefix"))
    client.create_registered_model("stored")
    good, large = (models.as_artifacts(client, "stored", scene.encoder(kind)) for kind in ("good", "large"))
    table.row("source", "s3://models/some prefix", client.get_model_version("stored", good).source[:23])
    checks = {version: scene.isomer.once("check", "--model", "stored", "--version", version, more=[*scene.flags, "--experiment", "in-s3"])
              for version in (good, large)}
    table.row("exit codes", {good: 0, large: 3}, {version: check.returncode for version, check in checks.items()})
    table.row("verdicts", {good: "pass", large: "refused"}, scene.verdicts("stored"))
    tags = scene.tags("stored", good)
    if "isomer.record" in tags:
        table.row("artifacts, written to S3", FORMS, sorted(file.path for file in client.list_artifacts(tags["isomer.record"], "isomer")))
    else:
        table.said("stderr", checks[good].stderr)
    store.stop()


def plain(scene: Scene) -> tuple[pathlib.Path, pathlib.Path]:
    """A Hugging Face folder in the two parts that the flavour keeps."""
    model, tokenizer = scene.folder / "plain/model", scene.folder / "plain/tokenizer"
    for folder, names in ((model, ("config.json", "model.safetensors")), (tokenizer, ("tokenizer.json", "tokenizer_config.json"))):
        folder.mkdir(parents=True)
        for name in names:
            shutil.copy(encoders.ROOT / "embed-svc/tests/fixtures/mpnet" / name, folder)
    return model, tokenizer


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--isomer", required=True)
    arguments.add_argument("--keep", action="store_true", help="leave the folder, and print its name")
    arguments = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="isomer-registry-"))
    begun = time.monotonic()
    scene = Scene(arguments.isomer, folder)
    scene.table.said("MLflow", mlflow.__version__)
    try:
        for part in (verdicts_of_every_kind, stale_aliases, champion_changes, promotion_cut_off, many_webhooks, what_webhooks_missed,
                     time_of_the_quick_suite, files_in_s3):
            print(f"\n{(part.__doc__ or '').splitlines()[0]}", flush=True)
            part(scene)
    finally:
        scene.close()
        if arguments.keep:
            print(f"left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{time.monotonic() - begun:.0f} s, {scene.generator.calls} calls of the language model; "
          + (f"{scene.table.failed} FAILED" if scene.table.failed else "all as it should be"))
    return 1 if scene.table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
