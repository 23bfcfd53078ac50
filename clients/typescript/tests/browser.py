"""The client in a browser: bundles a page, opens it in headless Chromium, and looks at what it got from a gateway of another origin.

Without Chromium the bundle is made and looked at, and the rest is skipped, which is said.
"""

import argparse
import hashlib
import http.server
import importlib
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

import grpc
from isomer_client.proto.encoder.v1 import encoder_pb2, encoder_pb2_grpc

HERE = pathlib.Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 120
TEXTS = [f"The gardener watered {number} roses in the rain." for number in range(300)]


def bundle(folder):
    """The page's script, as a bundler makes it for browsers: no module of Node may be in it."""
    command = [HERE / "node_modules/.bin/esbuild", HERE / "build/tests/page.js", "--bundle", "--minify", "--platform=browser", "--format=esm"]
    done = subprocess.run([*command, "--log-level=warning", f"--outfile={folder / 'page.js'}"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the client cannot be bundled for browsers:\n{done.stderr}")
    script = (folder / "page.js").read_bytes()
    assert b"node:http2" not in script and b"node:fs" not in script, "a module of Node is in the bundle"
    return script


class Page(http.server.BaseHTTPRequestHandler):
    """The page, what it is to do, and what it found."""

    script = b""
    plan = {}
    told = queue.Queue()

    def do_GET(self):
        content, kind = {
            "/": (b'<!doctype html><title>isomer-client</title><script type="module" src="/page.js"></script>', "text/html"),
            "/page.js": (self.script, "text/javascript"),
            "/plan": (json.dumps(self.plan).encode(), "application/json"),
        }.get(self.path, (b"", "text/plain"))
        self.answer(content, kind)

    def do_POST(self):
        self.told.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.answer(b"", "text/plain")

    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):
        """Says nothing."""


def due(address, key):
    """Vectors by the bare stub, over gRPC, one text per request."""
    whole = hashlib.sha256()
    metadata = (("authorization", f"Bearer {key}"),)
    with grpc.insecure_channel(address) as channel:
        stub = encoder_pb2_grpc.EncoderServiceStub(channel)
        for text in TEXTS:
            request = encoder_pb2.EncodeRequest(encoder_id="tiny", inputs=[encoder_pb2.Input(text=text)], prompt_name="query")
            whole.update(stub.Encode(request, metadata=metadata, timeout=60).embeddings.data)
    return whole.hexdigest()


def opened(chromium, url, folder):
    """Output of the page, or the browser's last words."""
    # As root, as in containers, Chromium has no sandbox; the only page that it opens is ours.
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={folder / 'profile'}"]
    log = (folder / "chromium.log").open("w+")
    browser = subprocess.Popen([chromium, *options, "--enable-logging=stderr", "--remote-debugging-port=0", url], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        return Page.told.get(timeout=PATIENCE_SECONDS)
    except queue.Empty:
        log.seek(0)
        sys.exit(f"the page told nothing in {PATIENCE_SECONDS} s:\n{log.read()[-3000:]}")
    finally:
        browser.terminate()
        try:
            browser.wait(20)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    isomer = parser.parse_args().isomer
    servers = importlib.import_module("harness.servers")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory(prefix="isomer-page-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        Page.script = bundle(folder)
        size = len(Page.script)
        if not chromium:
            print(f"the bundle for browsers has {size / 1000:.0f} kB; skipped: no Chromium (apt-get install chromium, or name one in CHROMIUM)")
            return
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{site.server_address[1]}"
        config = f'{servers.ENCODERS}\n[access]\nmode = "required"\n[web]\nallowed_origins = ["{origin}"]\n'
        gateway = servers.Isomer(isomer, folder, "gateway", config)
        key = gateway.key("page", ["encode", "transform"])
        gateway.start()
        try:
            Page.plan = {"address": f"http://{gateway.address}", "key": key, "texts": TEXTS}
            told = opened(chromium, origin, folder)
            expected = {
                "rows": len(TEXTS),
                "digest": due(gateway.address, key),
                "unknown": [True, "UNKNOWN_ENCODER", True],
                "misspelt": ["INVALID_ARGUMENT", "prompt_name"],
                "cancelled": True,
                "nobody": "UNAVAILABLE",
                "node": "protocol",
            }
        finally:
            gateway.stop()
            site.shutdown()
    assert "failed" not in told, told["failed"]
    for protocol in ("connect", "grpc-web"):
        found = told[protocol]
        assert len(found.pop("results")) == 3, found
        assert found == expected, f"{protocol}: {found} in place of {expected}"
    print(f"a page in Chromium, by Connect and gRPC-Web: {len(TEXTS)} vectors bit for bit, errors, a stream, cancelling; {size / 1000:.0f} kB of script")


if __name__ == "__main__":
    main()
