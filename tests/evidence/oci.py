"""Attestations beside artifacts of a real OCI registry (Debian's docker-registry, which has no referrers API): pushed
by this command, found by the tag, verified by cosign. Usage: oci.py ISOMER REGISTRY COSIGN FOLDER, where COSIGN may be
empty and FOLDER holds ecdsa.pem and ecdsa.pub."""

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENCODER = ROOT / "embed-svc/tests/fixtures/static_embedding"
FILES = ["modules.json", "0_StaticEmbedding/model.safetensors", "0_StaticEmbedding/tokenizer.json"]
USER, PASSWORD = "ann", "a-password"
# bcrypt of PASSWORD, made with crypt(3).
HASH = "$2y$04$9pl6IPago3f6VmYwjMBfkO2oeOSTGQIxNBCJbD19idivGI2z1UPlm"
MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r} instead of {wanted!r}")


class Registry:
    """A repository, by the requests of the specification."""

    def __init__(self, port):
        self.port, self.repository = port, "encoders/enc"
        self.base = f"http://127.0.0.1:{port}/v2"
        self.login = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    def ask(self, method, url, data=None, **headers):
        headers = {"Authorization": self.login, **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers, answer.read()

    def blob(self, data):
        place, _ = self.ask("POST", f"{self.base}/{self.repository}/blobs/uploads/", b"")
        location = place["Location"]
        apart = "&" if "?" in location else "?"
        self.ask("PUT", f"{location}{apart}digest={digest(data)}", data, Content_Type="application/octet-stream")
        return {"digest": digest(data), "size": len(data)}

    def artifact(self, tag, layers):
        config = {"mediaType": "application/vnd.oci.empty.v1+json", **self.blob(b"{}")}
        layers = [{"mediaType": kind, **self.blob(data), "annotations": notes} for kind, data, notes in layers]
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
                               "annotations": {"tag": tag}}).encode()
        self.ask("PUT", f"{self.base}/{self.repository}/manifests/{tag}", manifest, Content_Type=MANIFEST)
        return digest(manifest)

    def manifest(self, version):
        headers, body = self.ask("GET", f"{self.base}/{self.repository}/manifests/{version}", Accept=f"{MANIFEST}, {INDEX}")
        return headers["Content-Type"], json.loads(body)

    def content(self, name):
        return self.ask("GET", f"{self.base}/{self.repository}/blobs/{name}")[1]


@contextlib.contextmanager
def served(program, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "htpasswd").write_text(f"{USER}:{HASH}\n")
    (folder / "registry.yml").write_text(json.dumps({
        "version": "0.1", "log": {"level": "error"}, "http": {"addr": f"127.0.0.1:{port}"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "auth": {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}}))
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(folder / "registry.yml")], stdout=log, stderr=log)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=1)
            except urllib.error.HTTPError:
                break
            except OSError:
                if process.poll() is not None:
                    raise SystemExit((folder / "registry.log").read_text())
                time.sleep(0.1)
        yield Registry(port)
    finally:
        process.kill()
        process.wait()


def raw(files):
    return [("application/octet-stream", data, {"org.opencontainers.image.title": name}) for name, data in files.items()]


def archive(files, below):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"./{below}/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return [("application/vnd.cncf.model.weight.v1.tar+gzip", gzip.compress(packed.getvalue()), {})]


def main():
    isomer, program, cosign, folder = *sys.argv[1:4], pathlib.Path(sys.argv[4])
    files = {name: (ENCODER / name).read_bytes() for name in FILES}
    weights = hashlib.sha256(files[FILES[1]]).hexdigest()
    # The report of a check of this encoder.
    report = json.loads((ROOT / "eval-svc/fixtures/report/report.json").read_text())
    report["encoders"][1]["weights_digest"] = weights
    checked = folder / "oci-report.json"
    checked.write_text(json.dumps(report))
    docker = folder / "docker"
    docker.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ISOMER_OCI")}
    environment |= {"DOCKER_CONFIG": str(docker), "ISOMER_HOME": str(folder / "home")}
    # cosign fetches the public roots otherwise; a key needs none.
    root = folder / "root.json"
    root.write_text(json.dumps({"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}))
    tried = 0

    def run(wanted, *command):
        nonlocal tried
        ended = subprocess.run(command, env=environment, text=True, capture_output=True)
        if ended.returncode != wanted:
            raise SystemExit(f"{' '.join(command)}: ended with {ended.returncode}, not {wanted}:\n{ended.stdout}{ended.stderr}")
        tried += 1
        return ended.stdout + (ended.stderr if wanted else "")

    with served(program, folder) as registry:
        name = f"127.0.0.1:{registry.port}/{registry.repository}"

        def attest(wanted, tag, *more):
            return run(wanted, isomer, "report", "attest", "--report", str(checked), "--key", str(folder / "ecdsa.pem"), "--out",
                       str(folder / "oci"), "--push", f"{name}:{tag}", "--format", "json", *more)

        digests = {"raw": registry.artifact("raw", raw(files)), "tar": registry.artifact("tar", archive(files, "model"))}
        altered = {**files, FILES[1]: files[FILES[1]][:-1] + b"!"}
        registry.artifact("altered", raw(altered))
        registry.artifact("empty", raw({"README.md": b"no encoder"}))
        expect("nobody logged in", "wants a user and a password" in attest(3, "raw"), True)
        (docker / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{registry.port}": {
            "auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}}))
        for tag, subject in digests.items():
            told = json.loads(attest(0, tag))
            expect("artifact", told["artifact"], f"{name}@{subject}")
            expect("tag", told["tag"], subject.replace(":", "-"))
            kind, index = registry.manifest(told["tag"])
            expect("the index", (kind, len(index["manifests"])), (INDEX, 1))
            _, manifest = registry.manifest(told["attestation"].split("@")[1])
            expect("subject", manifest["subject"]["digest"], subject)
            expect("type", (manifest["artifactType"], index["manifests"][0]["artifactType"]), (BUNDLE, BUNDLE))
            bundle = folder / "bundle.json"
            bundle.write_bytes(registry.content(manifest["layers"][0]["digest"]))
            verified = json.loads(run(0, isomer, "report", "verify", str(bundle), "--report", str(checked), "--key",
                                      str(folder / "ecdsa.pub"), "--format", "json"))
            expect("weights", verified["weights_sha256"], weights)
            expect("carried by", [(one["name"], one["digest"]["sha256"]) for one in verified["artifacts"]], [(name, subject[7:])])
            run(3, isomer, "report", "verify", str(bundle), "--report", str(checked), "--key", str(folder / "other.pub"))
            if cosign:
                verify = [cosign, "verify-attestation", "--new-bundle-format", "--trusted-root", str(root), "--insecure-ignore-tlog", "--allow-http-registry",
                          "--type", PREDICATE]
                run(0, *verify, "--key", str(folder / "ecdsa.pub"), f"{name}@{subject}")
                run(1, *verify, "--key", str(folder / "other.pub"), f"{name}@{subject}")
        # A second one beside the first: both are kept.
        told = json.loads(attest(0, "raw"))
        expect("referrers", len(registry.manifest(told["tag"])[1]["manifests"]), 2)
        expect("other weights", "which the report is not about" in attest(3, "altered"), True)
        expect("no encoder", "no sentence-transformers or Hugging Face folder" in attest(3, "empty"), True)
        expect("no artifact", "has no" in attest(3, "absent"), True)
        expect("too large", "--max-bytes" in attest(3, "raw", "--max-bytes", "1000"), True)
        by = ", those of cosign among them" if cosign else ""
        print(f"oci: {tried} results as they should be at docker-registry{by}")


main()
