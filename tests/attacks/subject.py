"""The server under attack: a gateway with keys, charges and runs, and the models behind it."""

import os
import pathlib
import signal
import sys
import threading

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "soak")]

import grpc  # noqa: E402
import soak  # noqa: E402
from server import serve  # noqa: E402

# The encoder that answers, and one whose answers are held.
ENCODER, HELD = "paid", "held"
PATIENCE = 20
SUITE = 'name = "attack"\nseeds = [1]\ntransformations = ["stopword_removal"]\n[[dataset]]\ntask = "sts"\nbuiltin = "quick/sts"\n'


def tokens(text):
    return -(-len(text.encode()) // 4)


class Models(soak.Models):
    """The models of the soak test. Every text counts, and one encoder holds its answers back."""

    def __init__(self):
        self.released = threading.Event()
        super().__init__()

    def embed(self, body):
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        # A single text is the gateway's question for the width of the vectors.
        if body["model"] == HELD and len(texts) > 1:
            self.released.wait(600)
        data = [{"object": "embedding", "index": at, "embedding": soak.vector(text)} for at, text in enumerate(texts)]
        used = sum(map(tokens, texts))
        return {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": used, "total_tokens": used}}


class Gateway(soak.Gateway):
    """The gateway of the soak test, with its state in one folder and its log in another."""

    def __init__(self, isomer, home, logs, models, more="", encoders=None):
        self.isomer, self.home, self.process, self.address = isomer, home, None, "127.0.0.1:0"
        self.config, self.log = logs / f"{home.name}.toml", logs / f"{home.name}.log"
        self.models = models
        offered = ", ".join(f'{name} = "{model}"' for name, model in ({ENCODER: "stub", HELD: HELD} | (encoders or {})).items())
        providers = logs / f"{home.name}-providers.toml"
        providers.write_text(
            f'[[provider]]\nid = "far"\nkind = "openai"\naddress = "{models.address}"\nprice_per_million_tokens = 1e3\n'
            f"encoders = {{ {offered} }}\n"
        )
        self.config.write_text(
            f'[access]\nmode = "required"\n[addresses]\nallow = ["127.0.0.1"]\n[providers]\nfile = "{providers}"\n'
            "[routing]\ncache_bytes = 0\nprobe_interval_seconds = 0\nhealth_interval_ms = 10000\nhealth_timeout_ms = 10000\nattempt_timeout_ms = 0\n"
            f'[transform]\ndefault_generator = "writer"\n[transform.generators.writer]\nmodel = "writer"\nurl = "{models.address}"\nmax_tries = 1\n'
            f"{more}"
        )
        home.mkdir(exist_ok=True)
        models_of_machine = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "isomer/models"
        (home / "models").symlink_to(models_of_machine)

    def start(self):
        # After a kill, it listens on the same address as before.
        with self.log.open("ab") as log:
            self.process, self.address = serve(self.isomer, self.home, ["--config", str(self.config)], self.address, log)

    def kill(self):
        """The caller ends what keeps the process from its end, and waits for it."""
        self.process.send_signal(signal.SIGKILL)

    def admin(self, scopes="encode,transform,evaluate,admin"):
        printed = self.run("keys", "create", "--config", str(self.config), "--name", "root", "--scope", scopes)
        return next(word for word in printed.split() if word.startswith("iso_") and len(word) > 60)


class Api:
    """Calls with one key."""

    def __init__(self, gateway, modules, key):
        self.modules, self.key = modules, key
        # A server that was restarted is called again at once.
        options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200), ("grpc.enable_retries", 0)]
        self.channel = grpc.insecure_channel(gateway.address, options)
        self.runs, self.keys, self.providers, self.encoders = map(
            self.messages,
            ["isomer/eval/v1/run", "isomer/gateway/v1/access", "isomer/gateway/v1/provider", "isomer/encoder/v1/encoder"],
        )

    def messages(self, name):
        return self.modules.message(name)

    def call(self, module, service, method, request, key=None, timeout=PATIENCE):
        stub = getattr(self.modules.grpc(f"isomer/{module}"), f"{service}Stub")(self.channel)
        return getattr(stub, method)(request, metadata=[("authorization", f"Bearer {key or self.key}")], timeout=timeout)

    def access(self, method, request, key=None):
        return self.call("gateway/v1/access", "AccessService", method, request, key)

    def provider(self, method, request, key=None):
        return self.call("gateway/v1/provider", "ProviderService", method, request, key)

    def run(self, method, request, key=None):
        return self.call("eval/v1/run", "RunService", method, request, key)

    def encode(self, texts, key=None, encoder=ENCODER):
        request = self.encoders.EncodeRequest(encoder_id=encoder, inputs=[self.encoders.Input(text=text) for text in texts])
        return self.call("encoder/v1/encoder", "EncoderService", "Encode", request, key)

    def new_key(self, name, scopes=("ENCODE", "TRANSFORM", "EVALUATE"), limits=None):
        scopes = [self.keys.AccessScope.Value(f"ACCESS_SCOPE_{scope}") for scope in scopes]
        request = self.keys.CreateKeyRequest(key=self.keys.ApiKey(name=name, scopes=scopes, limits=limits))
        return self.access("CreateKey", request)

    def new_run(self, seed, key=None, encoder=ENCODER, request_id=""):
        suite = self.runs.SuiteRef(toml=SUITE)
        spec = self.runs.RunSpec(suite=suite, encoder_ids=[encoder], limit=3, sample_seed=seed, seeds=[seed])
        return self.run("CreateRun", self.runs.CreateRunRequest(spec=spec, request_id=request_id), key).run

    def seen_run(self, run, key=None):
        return self.run("GetRun", self.runs.GetRunRequest(id=run), key).run

    def works(self, key):
        """Whether the server accepts a key; None if unknown."""
        try:
            self.call("encoder/v1/encoder", "EncoderService", "ListEncoders", self.encoders.ListEncodersRequest(), key)
            return True
        except grpc.RpcError as error:
            return False if error.code() is grpc.StatusCode.UNAUTHENTICATED else None
