"""The encoders behind the gateway: their servers, their registration, and their expected answers."""

import dataclasses

import expected
import stubs
import stubs_grpc


@dataclasses.dataclass
class Stubbed:
    """An encoder at a stub server."""

    id: str
    # The stub's name for the kind, its secret and its recorded requests.
    kind: str
    # The kind for `isomer providers create --kind`.
    provider_kind: str
    path: str
    model: str
    # Prompt names and the provider's names for them; the empty name is for requests that name no
    # prompt.
    types: dict = dataclasses.field(default_factory=dict)
    dimensions: bool = True
    reranker: str = ""
    limits: tuple = ()
    # Maximum number of texts in one request to the server, by its reference or by `limits`.
    most: int = 1

    def side(self, prompt=""):
        return self.types.get(prompt)

    def rows(self, texts, prompt="", dimensions=None):
        return expected.stub_rows(self.model, self.side(prompt), texts, dimensions)


STUBBED = [
    Stubbed("tei-http", "tei", "tei-http", "http/tei", stubs.TEI_MODEL, {"query": "query"}, most=32),
    Stubbed("openai-small", "openai", "openai", "http/openai/v1", "stub-small", most=2048),
    Stubbed(
        "cohere-embed",
        "cohere",
        "cohere-v2",
        "http/cohere",
        "stub-embed",
        {"": "search_document", "query": "search_query"},
        reranker="stub-rerank",
        most=96,
    ),
    Stubbed(
        "voyage-embed", "voyage", "voyage", "http/voyage", "stub-voyage", {"query": "query"}, reranker="stub-rerank", most=1000
    ),
    Stubbed("ollama-embed", "ollama", "ollama", "http/ollama", "stub", most=2048),
    Stubbed(
        "jina-embed",
        "jina",
        "jina",
        "http/jina",
        "stub-jina",
        {"query": "retrieval.query"},
        reranker="stub-rerank",
        limits=("--max-batch-items", "10"),
        most=10,
    ),
    Stubbed("hf-embed", "hf", "hugging-face", "http", "stub/feature", {"query": "query"}, dimensions=False, most=32),
    Stubbed("vllm-embed", "vllm", "vllm", "http/vllm", "stub-vllm", most=2048),
    Stubbed("tei-grpc", "tei-grpc", "tei-grpc", "grpc", stubs_grpc.TEI_MODEL, {"query": "query"}, most=1),
    Stubbed("oip-embed", "oip", "oip-v2-grpc", "grpc", stubs_grpc.OIP_MODEL, dimensions=False, most=2048),
]


def register(harness, home, gateway, stubbed, http, grpc):
    """Registers an encoder with the gateway by the command line."""
    scheme, _, path = stubbed.path.partition("/")
    address = f"http://{http}/{path}".rstrip("/") if scheme == "http" else f"grpc://{grpc}"
    encoders = ["--encoder", f"{stubbed.id}={stubbed.model}"]
    if stubbed.reranker:
        encoders += ["--encoder", f"{stubbed.kind}-rerank={stubbed.reranker}"]
    types = [word for prompt, name in stubbed.types.items() for word in ("--input-type", f"{prompt}={name}")]
    secret = harness.write(f"secrets/{stubbed.kind}", stubs.SECRETS[stubbed.kind] + "\n")
    harness.run(
        home,
        *("providers", "--server", gateway, "create", f"stub-{stubbed.kind}", "--kind", stubbed.provider_kind),
        *("--address", address, "--secret-file", secret, "--header", "x-project=clients"),
        *encoders,
        *types,
        *stubbed.limits,
    )


def texts():
    """Texts of many lengths and several scripts, all distinct; none is empty, because some providers refuse empty texts."""
    words = "the quick brown fox jumps over the lazy dog while nobody looks at all".split()
    lines = [f"Sentence {k} says {' '.join(words[k % 5 : k % 5 + k % 9 + 1])}." for k in range(110)]
    others = ["Ein Satz über Ärger & Öfen.", "句子很短。", "الجملة قصيرة 🙂", "a\ttab and  two blanks", "naïve café — “quoted”"]
    return others + lines + ["long " * 300]
