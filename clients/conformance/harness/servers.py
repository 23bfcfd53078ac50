"""Everything that cases talk to: real servers of different settings, the stub, and what stands between."""

import os
import pathlib
import queue
import re
import subprocess
import tempfile
import threading
import time

from . import credentials, generator
from .proxy import KillingProxy
from .stub import Stub

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "embed-svc/tests/fixtures"
PATIENCE_SECONDS = 60


class Failed(Exception):
    """A server that did not do what it should."""


class Isomer:
    """`isomer serve` with a home of its own."""

    def __init__(self, binary, folder, name, config, listen="127.0.0.1:0"):
        self._binary, self._name, self._home = binary, name, folder / name
        self._home.mkdir(exist_ok=True)
        self._config = folder / f"{name}.toml"
        self._config.write_text(config, encoding="utf-8")
        self._listen, self._lines = listen, []
        self.address = ""

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ISOMER_")}
        return {**kept, "ISOMER_HOME": str(self._home), "ISOMER_OFFLINE": "1"}

    def start(self):
        command = [self._binary, "serve", "--listen", self._listen, "--config", str(self._config)]
        self._child = subprocess.Popen(
            command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        told = queue.Queue()
        threading.Thread(target=self._read, args=(self._child, told), daemon=True).start()
        try:
            self.address = told.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            self.address = None
        if not self.address:
            raise Failed(f"the server `{self._name}` did not start:\n{self.tail()}")
        # The same port when it starts again.
        self._listen = self.address
        return self

    def _read(self, child, told):
        for line in child.stdout:
            self._lines.append(line)
            if line.startswith("isomer serves "):
                told.put(line.split()[-1])
        told.put(None)

    def kill_and_start(self):
        self._child.kill()
        self._child.wait()
        self.start()

    def run(self, *arguments):
        """A command of `isomer` in this server's home, to its end; what it printed."""
        command = [self._binary, *arguments]
        done = subprocess.run(command, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        if done.returncode != 0:
            raise Failed(f"isomer {' '.join(arguments[:3])} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def key(self, name, scopes, *more):
        arguments = [word for scope in scopes for word in ("--scope", scope)]
        printed = self.run("keys", "create", "--config", str(self._config), "--name", name, *arguments, *more)
        return re.search(r"iso_[0-9a-z]{12}_[0-9A-Za-z]{49}", printed)[0]

    def revoke(self, key):
        self.run("keys", "revoke", "--config", str(self._config), key.split("_")[1])

    def tail(self):
        return "".join(self._lines[-30:])

    def stop(self):
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()


ENCODERS = f"""
[embed]
max_batch_items = 256
threads = 1
[embed.encoders]
tiny = "{FIXTURES / 'xlm_roberta'}"
three = "{FIXTURES / 'bge_m3'}"
reranker = "{FIXTURES / 'xlm_roberta_reranker'}"
"""


class Servers:
    """All of them, by the names that cases use."""

    def __init__(self, binary):
        self._folder = tempfile.TemporaryDirectory(prefix="isomer-conformance-")
        self.folder = pathlib.Path(self._folder.name)
        self._binary, self._started = str(pathlib.Path(binary).resolve()), []
        self.names = {}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _isomer(self, name, config):
        server = Isomer(self._binary, self.folder, name, config)
        self._started.append(server)
        self.names[name] = server.start().address
        return server

    def _start(self):
        self.stub, self.fragile = Stub(), Stub()
        self._started += [self.stub, self.fragile]
        self._generator, url = generator.serve()
        files = credentials.authority(self.folder)
        other = credentials.authority(self.folder, "other-")
        identity = credentials.Provider(self.folder)
        tls = f'[server.tls]\ncertificate_file = "{files["server.pem"]}"\nkey_file = "{files["server.key"]}"\n'
        self.plain = self._isomer("plain", ENCODERS)
        self._isomer("newer", f'{ENCODERS}[server.limits]\noldest_client = "99.0.0"\n')
        self._isomer("tls", ENCODERS + tls)
        self._isomer("mtls", f'{ENCODERS}{tls}client_ca_file = "{files["ca.pem"]}"\n')
        self._start_gateway(url, identity)
        self.killed = self._isomer("behind", ENCODERS)
        self.proxy = KillingProxy(self.killed)
        self._started.append(self.proxy)
        self.names.update(
            {
                "stub": self.stub.address,
                "fragile": self.fragile.address,
                "killed": self.proxy.address,
                "nowhere": "127.0.0.1:9",
                "ca": files["ca.pem"],
                "other_ca": other["ca.pem"],
                "client_certificate": files["client.pem"],
                "client_key": files["client.key"],
                "token": identity.token("encode", 3600),
                "expired_token": identity.token("encode", -600),
            }
        )

    def _start_gateway(self, url, identity):
        config = f"""
{ENCODERS}
[server.limits]
max_message_bytes = 262144
[access]
mode = "required"
[access.jwt]
issuer = "{credentials.ISSUER}"
audiences = ["{credentials.AUDIENCE}"]
jwks_file = "{identity.jwks_file}"
[addresses]
allow = ["127.0.0.1"]
[transform]
default_generator = "stub"
[transform.generators.stub]
model = "stub"
url = "{url}"
api_key_env = ""
"""
        server = Isomer(self._binary, self.folder, "gateway", config)
        self._started.append(server)
        self.gateway = server
        keys = {
            "encode": server.key("encode", ["encode"]),
            "admin": server.key("admin", ["admin", "encode"]),
            "all": server.key("all", ["encode", "transform", "evaluate"]),
            "slow": server.key("slow", ["encode"], "--requests-per-second", "4"),
            "expired": server.key("expired", ["encode"], "--expires", "1s"),
            "revoked": server.key("revoked", ["encode"]),
        }
        time.sleep(1.2)
        server.revoke(keys["revoked"])
        # Another last digit: its checksum is wrong.
        keys["mistyped"] = keys["encode"][:-1] + ("A" if keys["encode"][-1] != "A" else "B")
        self.names.update(keys)
        self.names["gateway"] = server.start().address

    def __exit__(self, *_):
        for server in reversed(self._started):
            server.stop()
        self._folder.cleanup()
