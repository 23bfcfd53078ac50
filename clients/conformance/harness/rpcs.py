"""Every rpc of the .proto files against what is written by hand in each language.

An rpc is in a client where the client's own code calls it, or where `left-out.toml` says why it does
not. Read from source files alone, so that no toolchain is needed: a new rpc fails on every machine.
"""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[3]
LEFT_OUT = pathlib.Path(__file__).resolve().parents[1] / "left-out.toml"
PLANTED = "isomer.encoder.v1.EncoderService/Planted"


def declared():
    """Full names of all rpcs, `package.Service/Method`."""
    names = []
    for path in sorted((ROOT / "proto/isomer").rglob("*.proto")):
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        package = re.search(r"^package ([\w.]+);", text, re.MULTILINE)[1]
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            names += [f"{package}.{service}/{method}" for method in re.findall(r"\brpc (\w+)", body)]
    return names


def python(service, method):
    return rf"\bmethods\.{re.sub(r'(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])', '_', method).upper()}\b"


def typescript(service, method):
    return rf"\b{service}\.method\.{method[0].lower()}{method[1:]}\b"


def go(service, method):
    field = {"EncoderService": "encoding", "TransformService": "transforming", "AugmentationService": "augmentation"}.get(service, "stub")
    # The generated client of a service may be what users get; it has every rpc.
    return rf"\.{field}\.{method}\(|^\t[A-Z]\w* +\w+\.{service}Client$"


def java(service, method):
    return rf"\b{service}Grpc\s*\.get{method}Method\("


def rust(service, method):
    # The path of an rpc and the method of its stub, side by side: `unary!(…, Stub.method, "path",
    # …)`.
    stub = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", method).lower()
    return rf'\b{service}Client\.{stub},\s*"/isomer\.\w+\.v1\.{service}/{method}"'


# Of each language: where its own code lies, and how that names an rpc.
LANGUAGES = {
    "python": ("python/src/isomer_client", "_aio/*.py", python),
    "typescript": ("typescript/src", "*.ts", typescript),
    "go": ("go", "*.go", go),
    "java": ("java/src/main/java/dev/isomer/client", "*.java", java),
    "rust": ("rust/src", "*.rs", rust),
}


def source(language):
    folder, pattern, _ = LANGUAGES[language]
    files = [path for path in sorted((ROOT / "clients" / folder).glob(pattern)) if not path.name.endswith("_test.go")]
    return "\n".join(re.sub(r"^\s*(//|#|\*).*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE) for path in files)


def problems(rpcs, left_out):
    """Calls that are neither made nor left out, and calls that are both."""
    found = []
    methods = [name.rpartition("/")[2] for name in rpcs]
    for method in sorted({one for one in methods if methods.count(one) > 1}):
        found.append(f"two services have {method}, which this check tells apart by its name alone: harness/rpcs.py")
    for name in left_out.keys() - set(rpcs):
        found.append(f"left-out.toml names {name}, and there is no such rpc")
    for language, (_, _, pattern) in LANGUAGES.items():
        text = source(language)
        for name in rpcs:
            service, method = name.rpartition(".")[2].split("/")
            called = re.search(pattern(service, method), text, re.MULTILINE) is not None
            out = language in left_out.get(name, {}).get("languages", LANGUAGES) if name in left_out else False
            if not called and not out:
                found.append(f"{language}: the client does not have {name}: write it, or say in clients/conformance/left-out.toml why not")
            if called and out:
                found.append(f"{language}: the client has {name}, which left-out.toml leaves out")
    return found


def check():
    """Problems; among them, where this check would pass over a new rpc."""
    rpcs, left_out = declared(), tomllib.loads(LEFT_OUT.read_text(encoding="utf-8"))
    found = problems(rpcs, left_out)
    blind = LANGUAGES.keys() - {one.split(":")[0] for one in problems([*rpcs, PLANTED], left_out) if PLANTED in one}
    return found + [f"{language}: an rpc that no client has is not found missing" for language in sorted(blind)], len(rpcs)
