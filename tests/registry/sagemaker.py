"""Checks of SageMaker's model registry, against moto: versions as archives and as single files, seen through boto3; each
request's signature compared with botocore's. See tests/registry/run."""

from __future__ import annotations

import argparse
import datetime
import http.client
import http.server
import io
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading

import boto3
import encoders
import keys
from accept import Table
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.server import ThreadedMotoServer

KEY, SECRET, TOKEN, REGION, BUCKET, GROUP = "AKIDEXAMPLE", "a-secret-key", "a-session-token", "eu-central-1", "models", "enc"
FORMS = ["attestation.dsse.json", "junit.xml", "report.html", "report.json", "report.md"]


class Signed(http.server.ThreadingHTTPServer):
    """Stands before moto, which takes every signature, and signs each request of SageMaker again with botocore."""

    daemon_threads = True

    def __init__(self, port: int):
        self.upstream, self.requests, self.wrong = port, 0, []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def check(self, headers, body: bytes) -> None:
        self.requests += 1
        given = headers["Authorization"]
        names = given.split("SignedHeaders=")[1].split(",")[0].split(";")
        request = AWSRequest("POST", f"{self.url}/", data=body, headers={name: headers[name] for name in names if name != "host"})
        request.context["timestamp"] = headers["X-Amz-Date"]
        auth = SigV4Auth(Credentials(KEY, SECRET, TOKEN), "sagemaker", REGION)
        canonical = auth.canonical_request(request)
        own = auth.signature(auth.string_to_sign(request, canonical), request)
        age = abs(datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
                  - datetime.datetime.strptime(headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ"))
        if own != given.split("Signature=")[1] or "x-amz-target" not in names or age > datetime.timedelta(minutes=5):
            self.wrong.append((given, own))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.check(self.headers, body)
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        upstream.request("POST", self.path, body, {name: value for name, value in self.headers.items() if name != "host"})
        answer = upstream.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        upstream.close()


class Scene:
    def __init__(self, isomer: str, folder: pathlib.Path, port: int):
        self.isomer, self.folder, self.table = isomer, folder, Table()
        self.generator = encoders.generator()
        self.signed = Signed(port)
        moto = f"http://127.0.0.1:{port}"
        access = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": REGION, "endpoint_url": moto}
        self.sagemaker, self.s3 = boto3.client("sagemaker", **access), boto3.client("s3", **access)
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.sagemaker.create_model_package_group(ModelPackageGroupName=GROUP)
        self.key = keys.pair(folder)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MLFLOW_"))},
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN, "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_SAGEMAKER": self.signed.url, "AWS_ENDPOINT_URL_S3": moto,
            "ISOMER_HOME": str(folder / "home"), "ISOMER_OFFLINE": "1", "ISOMER_LOG": "warn",
        }

    def register(self, data: dict) -> str:
        """A version, which waits for approval; its ARN."""
        container = {"Image": "1.dkr.ecr.eu-central-1.amazonaws.com/i:1", **data}
        return self.sagemaker.create_model_package(
            ModelPackageGroupName=GROUP, ModelApprovalStatus="PendingManualApproval",
            CustomerMetadataProperties={"team": "search"},
            InferenceSpecification={"Containers": [container], "SupportedContentTypes": ["application/json"],
                                    "SupportedResponseMIMETypes": ["application/json"]})["ModelPackageArn"]

    def archive(self, kind: str, members: dict[str, bytes] | pathlib.Path) -> str:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            if isinstance(members, pathlib.Path):
                tar.add(members, ".")
            else:
                for name, data in members.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
        return self.register({"ModelDataUrl": self.put(f"artifacts/{kind}/model.tar.gz", packed.getvalue())})

    def put(self, key: str, content: bytes) -> str:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def single(self, folder: pathlib.Path) -> str:
        for file in folder.rglob("*"):
            if file.is_file():
                self.s3.upload_file(str(file), BUCKET, f"plain/model/{file.relative_to(folder)}")
        source = {"S3Uri": f"s3://{BUCKET}/plain/model/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        return self.register({"ModelDataSource": {"S3DataSource": source}})

    def check(self, arn: str, *more: str) -> subprocess.CompletedProcess:
        command = [self.isomer, "registry", "check", "--registry", "sagemaker", "--model", GROUP, "--version", arn.rsplit("/", 1)[1],
                   "--suite", str(encoders.SUITE), "--generator", self.generator.spec, "--max-bytes", str(encoders.MAX_BYTES),
                   "--attest", str(self.key.private), "--format", "json", *encoders.RULES, *more]
        return subprocess.run(command, env=self.environment, text=True, capture_output=True)

    def described(self, arn: str) -> dict:
        return self.sagemaker.describe_model_package(ModelPackageName=arn)

    def encoder(self, kind: str, **settings) -> pathlib.Path:
        return getattr(encoders, kind)(self.folder / f"encoders/{kind}-{len(list(self.folder.glob('encoders/*')))}", **settings)


def kinds(scene: Scene) -> None:
    """Versions of every kind."""
    table = scene.table
    made = {
        "good": (scene.archive("good", scene.encoder("good")), "pass", "Approved", 0),
        "single files": (scene.single(scene.encoder("good", seed=2)), "pass", "Approved", 0),
        "worse": (scene.archive("worse", scene.encoder("worse")), "fail", "Rejected", 1),
        "undecided": (scene.archive("undecided", scene.encoder("undecided")), "undecided", "PendingManualApproval", 4),
        "pickle": (scene.archive("pickle", {"model.pkl": b"no"}), "unsupported", "PendingManualApproval", 3),
        "leaves its folder": (scene.archive("out", {"../../evil.json": b"{}"}), "unsupported", "PendingManualApproval", 3),
        "large": (scene.archive("large", {"0/model.safetensors": bytes(encoders.MAX_BYTES + 1)}), "refused", "PendingManualApproval", 3),
        "no archive": (scene.register({"ModelDataUrl": scene.put("broken/model.tar.gz", b"no archive")}), "unsupported",
                       "PendingManualApproval", 3),
    }
    champions = {"good": "none", "single files": "1", "worse": "2", "undecided": "2"}
    for name, (arn, verdict, status, code) in made.items():
        ended = scene.check(arn)
        found = scene.described(arn)
        properties = found.get("CustomerMetadataProperties", {})
        told = (ended.returncode, properties.get("isomer.verdict"), found["ModelApprovalStatus"])
        table.row(name, (code, verdict, status), told)
        if told != (code, verdict, status):
            print(ended.stdout, ended.stderr)
        table.row(f"{name}: a property of others", "search", properties.get("team"))
        if name in champions:
            table.row(f"{name}: compared with", champions[name], properties.get("isomer.baseline"))
            evidence(scene, arn, properties)
    table.row("nothing outside of the folder", [], list(pathlib.Path(tempfile.gettempdir()).rglob("evil.json")))


def evidence(scene: Scene, arn: str, properties: dict) -> None:
    table = scene.table
    bucket, prefix = properties["isomer.record"].removeprefix("s3://").split("/", 1)
    found = scene.s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/").get("Contents", [])
    table.row("the report beside the model", FORMS, sorted(one["Key"].removeprefix(f"{prefix}/") for one in found))
    folder = scene.folder / "evidence"
    folder.mkdir(exist_ok=True)
    for name in ("report.json", "attestation.dsse.json"):
        scene.s3.download_file(bucket, f"{prefix}/{name}", str(folder / name))
    report = json.loads((folder / "report.json").read_text())
    table.row("its encoder", True, arn in [one["id"] for one in report["encoders"]])
    verified = subprocess.run([scene.isomer, "report", "verify", str(folder / "attestation.dsse.json"), "--report",
                               str(folder / "report.json"), "--key", str(scene.key.public), "--format", "json"],
                              text=True, capture_output=True)
    table.row("its attestation", arn, json.loads(verified.stdout or "{}").get("encoder", verified.stderr))


def again(scene: Scene) -> None:
    """A person's approval, and a check that is made again."""
    table = scene.table
    arns = [one["ModelPackageArn"] for one in scene.sagemaker.list_model_packages(ModelPackageGroupName=GROUP)["ModelPackageSummaryList"]]
    worse = next(arn for arn in arns if arn.endswith("/3"))
    scene.sagemaker.update_model_package(ModelPackageArn=worse, ModelApprovalStatus="Approved",
                                         CustomerMetadataProperties=scene.described(worse)["CustomerMetadataProperties"])
    scene.check(worse)
    table.row("a check takes back an approval that is not earned", "Rejected", scene.described(worse)["ModelApprovalStatus"])
    calls = scene.generator.calls
    first = next(arn for arn in arns if arn.endswith("/1"))
    scene.check(first)
    table.row("a check again: no call, compared with the newest approved", (calls, "2"),
              (scene.generator.calls, scene.described(first)["CustomerMetadataProperties"]["isomer.baseline"]))
    for what, ended, wanted in (("--promote", scene.check(first, "--promote"), (2, "leave it out")),
                                ("a version that is not there", scene.check("group/77"), (3, "no version 77"))):
        table.row(what, (wanted[0], True), (ended.returncode, wanted[1] in ended.stderr))
    watched = subprocess.run([scene.isomer, "registry", "watch", "--registry", "sagemaker", "--once"], text=True,
                             env=scene.environment, capture_output=True)
    table.row("watch", (2, True), (watched.returncode, "only MLflow is watched" in watched.stderr))
    table.row("requests whose signature botocore makes too", (True, []), (scene.signed.requests > 20, scene.signed.wrong))


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--isomer", required=True)
    arguments = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="isomer-sagemaker-"))
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    scene = Scene(arguments.isomer, folder, server.get_host_and_port()[1])
    try:
        for part in (kinds, again):
            print(f"\n{(part.__doc__ or '').splitlines()[0]}", flush=True)
            part(scene)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{scene.table.failed} FAILED" if scene.table.failed else "\nall as it should be")
    return 1 if scene.table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
