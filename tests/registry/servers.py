"""MLflow's server and Isomer's, as processes that can be killed and started again."""

from __future__ import annotations

import http.client
import http.server
import os
import pathlib
import signal
import subprocess
import sys
import threading
import urllib.request

from cryptography.fernet import Fernet
from parts import free_port, until

SECRET = "a-secret-of-the-webhook"


class Process:
    """A process of a group of its own."""

    def __init__(self, folder: pathlib.Path, name: str):
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen | None = None

    def launch(self, command: list[str], environment: dict[str, str], ready: str) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log,
                                            start_new_session=True)
        until(f"{ready} answers", lambda: self.alive() and is_there(ready), 120)

    def alive(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError(f"it ended by itself; see {self.log}:\n" + self.log.read_text()[-3000:])
        return True

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, number)
            self.process.wait()
            self.process = None


def is_there(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2):
            return True
    except OSError:
        return False


class Mlflow(Process):
    """A server with a SQLite file and artifacts that it serves itself."""

    def __init__(self, folder: pathlib.Path):
        super().__init__(folder, "mlflow")
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.artifacts = folder / "artifacts"
        # Without these, MLflow sends webhooks to public https addresses only.
        self.environment = {
            "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http,https", "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
            "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode(),
            "MLFLOW_WEBHOOK_CACHE_TTL": "1",
        }

    def start(self) -> None:
        mlflow = pathlib.Path(sys.executable).with_name("mlflow")
        self.launch([str(mlflow), "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
                     "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db",
                     "--artifacts-destination", str(self.artifacts), "--serve-artifacts"],
                    self.environment, f"{self.url}/health")


class Isomer(Process):
    """`isomer registry serve`, with the services in its own process."""

    def __init__(self, binary: str, folder: pathlib.Path, more: list[str]):
        super().__init__(folder, "isomer")
        self.binary, self.more, self.port = binary, more, free_port()
        self.hook = f"http://127.0.0.1:{self.port}/hooks/mlflow"
        self.environment = {"ISOMER_HOME": str(folder / "home"), "ISOMER_WEBHOOK_SECRET": SECRET,
                            "ISOMER_OFFLINE": "1", "ISOMER_LOG": "info"}

    def start(self) -> None:
        self.launch([self.binary, "registry", "serve", "--listen", f"127.0.0.1:{self.port}", "--interval", "2s",
                     *self.more], self.environment, f"http://127.0.0.1:{self.port}/healthz")

    def said(self, words: str, **fields: str) -> bool:
        """Whether a line of its log has these words and fields."""
        return any(words in line and all(f'"{name}":"{value}"' in line for name, value in fields.items())
                   for line in self.log.read_text().splitlines())

    def another(self, folder: pathlib.Path, name: str) -> Isomer:
        """Another one, with a home of its own."""
        folder = folder / name
        folder.mkdir(exist_ok=True)
        return Isomer(self.binary, folder, [])

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Any command."""
        return subprocess.run([self.binary, *arguments], text=True, capture_output=True)

    def once(self, command: str, *arguments: str, more: list[str] | None = None) -> subprocess.CompletedProcess:
        """Another command of the registry, in a folder of its own."""
        folder = self.log.parent / "home-of-checks"
        return subprocess.run([self.binary, "registry", command, *arguments, *(more or self.more)], text=True,
                              env={**os.environ, **self.environment, "ISOMER_HOME": str(folder), "ISOMER_LOG": "warn"},
                              capture_output=True)


class Proxy:
    """Stands before MLflow, and kills a process instead of passing on that the champion is another."""

    def __init__(self, port: int, victim: Process):
        proxy = self
        self.killed = False

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def passed(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command == "POST" and "registered-models/alias" in self.path and b'"champion"' in body:
                    victim.kill()
                    proxy.killed = True
                    self.close_connection = True
                    return
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
                upstream.request(self.command, self.path, body or None, kept)
                answer = upstream.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                upstream.close()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = passed

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.server_close()
