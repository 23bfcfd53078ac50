#!/usr/bin/env python3
"""Holds `../examples/compose` against the binaries, without a container engine: `tests/compose/run`.

`check.py SCHEMA` checks the file against Docker Compose's own schema, and against what the binaries know: images and the
programs in them, commands, flags, variables, names of hosts, ports, probes, volumes. With ISOMER (the `isomer` command, with
the servers beside it) each binary is asked whether it takes its configuration. Then the file is broken on purpose, and each
fault must be found."""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "helm/tests"))
from knowledge import built, commands, image_binaries, server_flags, variables  # noqa: E402

FOLDER = ROOT / "examples/compose"
OURS = re.compile(r"^\$\{ISOMER_IMAGES:-localhost/isomer\}/([a-z-]+):\$\{ISOMER_TAG:-([0-9.]+)\}$")
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::[?-][^}]*)?\}")
SET_BY_PREPARE = {"POSTGRES_PASSWORD", "SERVICES_KEY"}
# Exit code of a configuration that is not valid; another one says that nothing answers.
REFUSED = 2


def program(service):
    """(target of the Containerfile, path of the program); None for images of others."""
    named = OURS.match(service["image"])
    if not named:
        return None
    return named[1], next(iter(image_binaries()[named[1]]), None)


def mounts(service):
    """Path in the container → source: a file of the folder, or the name of a volume."""
    return {target: source for source, target, *_ in (entry.split(":") for entry in service.get("volumes", []))}


def configuration(service, folder):
    """The configuration file that a service is started with, in the folder."""
    paths = [argument.removeprefix("--config=") for argument in service.get("command", []) if argument.startswith("--config=")]
    source = mounts(service).get(paths[0]) if paths else None
    return folder / source if source else None


def words(arguments, first):
    """The command of `isomer` and its flags: `isomer keys import`, [--name, …]."""
    names, flags = [first], []
    for argument in arguments:
        if argument.startswith("-"):
            flags.append(argument.split("=")[0])
        elif " ".join([*names, argument]) in commands() and not any(name not in ("--config",) for name in flags):
            names.append(argument)
    return " ".join(names), flags


def unknown_words(name, path, arguments):
    """Flags of a service's program that it does not have."""
    binary = path.rsplit("/", 1)[1]
    if binary != "isomer":
        known = server_flags(binary) | {"--config"}
        yield from (f"{name}: {binary} has no flag {flag}" for flag in (one.split("=")[0] for one in arguments) if flag not in known)
        return
    command, flags = words(arguments, "isomer")
    known = set(commands().get(command, {})) | set(commands().get("isomer", {})) | {"--config"}
    if command == "isomer":
        yield f"{name}: {arguments} is no command of isomer"
    for flag in flags:
        # Flags that several commands of a group share are listed at the group.
        parents = [" ".join(command.split()[:length]) for length in range(1, len(command.split()))]
        if flag not in known and not any(flag in commands().get(parent, {}) for parent in parents):
            yield f"{name}: {command} has no flag {flag}"


def problems(document, schema, folder=FOLDER):
    """Errors in a compose file."""
    for error in jsonschema.Draft201909Validator(schema).iter_errors(document):
        yield f"schema: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
    services = document["services"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for used in set(VARIABLE.findall(yaml.safe_dump(document))) - SET_BY_PREPARE - {"ISOMER_IMAGES", "ISOMER_TAG"}:
        yield f"nothing sets ${{{used}}}"
    listens = {name: port(configuration(service, folder)) for name, service in services.items() if program(service)}
    for name, service in services.items():
        for dependency, condition in service.get("depends_on", {}).items():
            other = services.get(dependency)
            if other is None:
                yield f"{name}: depends on {dependency}, which is no service"
            elif condition["condition"] == "service_healthy" and "healthcheck" not in other:
                yield f"{name}: waits for the health of {dependency}, which has no healthcheck"
            elif condition["condition"] == "service_completed_successfully" and other.get("restart") not in ("no", None):
                yield f"{name}: waits for the end of {dependency}, which is started again"
        for target, source in mounts(service).items():
            if source.startswith("./"):
                if not (folder / source).exists() and not source.startswith("./keys/"):
                    yield f"{name}: {source} is not there"
            elif source not in document["volumes"]:
                yield f"{name}: {source} at {target} is no volume"
        ours = program(service)
        if ours is None:
            continue
        target, path = ours
        if path is None or path.rsplit("/", 1)[1] not in built():
            yield f"{name}: the image {target} has no program that is built here"
            continue
        if OURS.match(service["image"])[2] != version:
            yield f"{name}: the image is of version {OURS.match(service['image'])[2]}, this is {version}"
        binary = path.rsplit("/", 1)[1]
        yield from unknown_words(name, path, service.get("command", []))
        known = variables(binary, "isomer worker") | variables(binary)
        yield from (f"{name}: {binary} reads no variable {variable}" for variable in service.get("environment", {}) if variable not in known)
        if service.get("cap_drop") != ["ALL"] or "no-new-privileges:true" not in service.get("security_opt", []):
            yield f"{name}: may gain privileges"
        yield from bad_probe(name, service, path, folder)
        for published in service.get("ports", []):
            host, _, inner = published.rsplit(":", 2)
            if host != "127.0.0.1":
                yield f"{name}: {published} is open to other machines"
            if int(inner) != listens[name]:
                yield f"{name}: publishes {inner} and listens on {listens[name]}"
        file = configuration(service, folder)
        if file is None:
            yield f"{name}: its configuration is not mounted where --config says"
            continue
        for host, asked in addresses(file, service):
            if host not in services:
                yield f"{name}: {host} is no service"
            elif host in listens and listens[host] != asked:
                yield f"{name}: asks {host} at {asked}, which listens on {listens[host]}"
        # Commands that only reach the database keep nothing in folders.
        keeps = service.get("restart") != "no" or "pull" in service["command"]
        for folder_of in folders(file) if keeps else []:
            if folder_of != "/tmp" and folder_of not in mounts(service):
                yield f"{name}: {folder_of} of {file.name} is no volume, and lost with the container"
    workers = [service for service in services.values() if program(service) and program(service)[0] == "worker"]
    if sum(service.get("deploy", {}).get("replicas", 1) for service in workers) != 2:
        yield "there are not two workers"
    yield from store_differs(services, folder)


def port(file):
    """The port that a configuration listens on; None where it serves nothing."""
    listen = tomllib.loads(file.read_text()).get("server", {}).get("listen") if file else None
    return int(listen.rsplit(":", 1)[1]) if listen else None


def addresses(file, service):
    """Hosts and ports that a configuration and its variables name."""
    found = []
    text = file.read_text() + "\n".join(service.get("environment", {}).values())
    for host, number in re.findall(r'"(?:[a-z]+://)?([a-z][a-z0-9.-]*):(\d+)"', text):
        found.append((host, int(number)))
    found += [(host, 5432) for host in re.findall(r"postgres://[^@]*@([a-z0-9.-]+)/", text)]
    return found


def folders(file):
    """Folders that a configuration keeps things in."""
    table = tomllib.loads(file.read_text())
    found = [table.get("models", {}).get("home"), table.get("eval", {}).get("home"), table.get("store", {}).get("url")]
    return [folder for folder in [*found, table.get("home")] if folder and folder.startswith("/")]


def bad_probe(name, service, path, folder):
    probe = service.get("healthcheck", {}).get("test")
    if probe is None:
        if service.get("restart") != "no":
            yield f"{name}: has no healthcheck"
        return
    if probe[:2] != ["CMD", path]:
        yield f"{name}: its probe is {probe[1]}, and its image has {path}"
    yield from unknown_words(f"{name} (probe)", path, probe[2:])
    question = next((word.removeprefix("--probe=") for word in probe if word.startswith("--probe=")), None)
    if question not in ("live", "ready"):
        yield f"{name}: asks its probe for {question}"
    given = [word for word in probe if word.startswith("--config=")]
    if given and given[0] not in service.get("command", []):
        yield f"{name}: its probe reads another configuration"
    asked = next((word.rsplit(":", 1)[1] for word in probe if word.startswith("--server=")), None)
    served = next((word.rsplit(":", 1)[1] for word in service.get("command", []) if word.startswith("--metrics-listen=")), None)
    if asked != served:
        yield f"{name}: its probe asks port {asked}, and it serves {served}"


def store_differs(services, folder):
    """Runs and workers meet in one queue and one store."""
    told = {}
    for name, service in services.items():
        ours = program(service)
        if ours and ours[0] in ("eval", "worker"):
            table = tomllib.loads(configuration(service, folder).read_text())
            url = table.get("store", {}).get("url", "")
            told[name] = (table.get("fleet", {}).get("engine"), url, mounts(service).get(url))
    if len(set(told.values())) != 1:
        yield f"queue and store differ: {told}"


def refusals(document, binaries, folder=FOLDER):
    """Errors that the binaries report on their configurations."""
    for name, service in document["services"].items():
        ours, file = program(service), configuration(service, folder)
        if ours is None or file is None:
            continue
        binary = ours[1].rsplit("/", 1)[1]
        if not (binaries / binary).exists():
            if os.environ.get("CI"):
                yield f"{name}: {binary} is not built"
            print(f"skipped: {binary} is not built")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            text = re.sub(r'listen = "0\.0\.0\.0:\d+"', 'listen = "127.0.0.1:1"', file.read_text()).replace("/var/lib/", f"{scratch}/")
            (Path(scratch) / "config.toml").write_text(text)
            environment = {"PATH": os.environ["PATH"], "HOME": scratch}
            environment |= {key: VARIABLE.sub("secret", value) for key, value in service.get("environment", {}).items()}
            question = ["probe"] if binary == "isomer" else ["--probe=live"]
            done = subprocess.run([binaries / binary, f"--config={scratch}/config.toml", *question], capture_output=True, text=True, env=environment)
            if done.returncode == REFUSED or done.returncode > 4:
                yield f"{name}: {binary} ends with {done.returncode}: {done.stderr.strip()}"


def key_is_refused(isomer):
    """Whether the keys that `prepare` makes are none for `isomer keys import`."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([FOLDER / "prepare", scratch], check=True, capture_output=True)
        before = {file: file.read_text() for file in Path(scratch).rglob("*") if file.is_file()}
        subprocess.run([FOLDER / "prepare", scratch], check=True, capture_output=True)
        if before != {file: file.read_text() for file in Path(scratch).rglob("*") if file.is_file()}:
            yield "prepare replaces what is there"
        env = Path(scratch, ".env")
        if set(re.findall(r"^([A-Z_]+)=.+$", env.read_text(), re.M)) != SET_BY_PREPARE or env.stat().st_mode & 0o077:
            yield f"prepare writes {env.read_text()} with mode {env.stat().st_mode:o}"
        if isomer is None:
            return
        for name in ("admin", "services"):
            command = [isomer, "keys", "--database", f"sqlite:{scratch}/keys.sqlite", "import", f"--name={name}", "--scope=encode", f"--key-file={scratch}/keys/{name}"]
            done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": scratch})
            if done.returncode:
                yield f"prepare's key is refused: {done.stderr}"


# A fault, and a word of the problem that must be found.
def broken(document):
    def change(path, value):
        other = copy.deepcopy(document)
        at = other
        for step in path[:-1]:
            at = at[step]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return other

    services = ("services",)
    yield change((*services, "gateway", "image"), "${ISOMER_IMAGES:-localhost/isomer}/eval:${ISOMER_TAG:-0.1.0}"), "its probe is"
    yield change((*services, "gateway", "image"), "${ISOMER_IMAGES:-localhost/isomer}/gateway:${ISOMER_TAG:-0.0.9}"), "is of version"
    yield change((*services, "gateway", "ports"), ["50051:50051:50051"]), "open to other machines"
    yield change((*services, "gateway", "ports"), ["127.0.0.1:80:8080"]), "publishes 8080"
    yield change((*services, "gateway", "environment", "ISOMER_DATABASE__URI"), "x"), "reads no variable"
    yield change((*services, "eval", "environment", "ISOMER_EVAL__LEDGER__URL"), "postgres://isomer:x@database/isomer"), "database is no service"
    yield change((*services, "worker", "command"), ["--config=/etc/isomer/worker.toml", "worker", "--lane=encode=1"]), "no flag --lane"
    yield change((*services, "worker", "deploy"), {"replicas": 3}), "not two workers"
    yield change((*services, "worker", "healthcheck", "test"), ["CMD", "/usr/bin/isomer", "probe", "--server=127.0.0.1:9465", "--probe=live"]), "asks port 9465"
    yield change((*services, "worker", "volumes"), ["./worker.toml:/etc/isomer/worker.toml:ro", "models:/var/lib/isomer"]), "is no volume, and lost"
    yield change((*services, "nats", "healthcheck"), None), "which has no healthcheck"
    yield change((*services, "models", "restart"), "always"), "started again"
    yield change((*services, "embed", "healthcheck", "test"), ["CMD", "/usr/bin/isomer-embed-svc", "--config=/etc/isomer/embed.toml", "--probe=healthy"]), "for healthy"
    yield change((*services, "transform", "environment", "ISOMER_ENCODER__API_KEY"), "${SERVICE_KEY}"), "nothing sets"
    yield change((*services, "transform", "cap_drop"), []), "privileges"
    yield change((*services, "transform", "image_name"), "x"), "schema:"
    yield change(("volumes", "store"), None), "is no volume"


def main():
    schema = json.loads(Path(sys.argv[1]).read_text())
    isomer = Path(os.environ["ISOMER"]).resolve() if os.environ.get("ISOMER") else None
    document = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    found = list(problems(document, schema))
    found += key_is_refused(isomer)
    if isomer:
        found += refusals(document, isomer.parent)
        with tempfile.TemporaryDirectory() as scratch:
            # The twin of "takes it": a wrong key is refused on the same path.
            for file in FOLDER.glob("*.toml"):
                Path(scratch, file.name).write_text(file.read_text() + "\n[fleets]\nengine = 1\n")
            if not list(refusals(document, isomer.parent, Path(scratch))):
                found.append("a configuration with an unknown key is taken: this check finds nothing")
    count = 0
    for other, word in broken(document):
        count += 1
        told = list(problems(other, schema))
        if not any(word in one for one in told):
            found.append(f"a fault is not found ({word}): {told}")
    for one in found:
        print(one)
    if found:
        raise SystemExit(f"{len(found)} problems in examples/compose")
    print(f"{len(document['services'])} services of examples/compose are as the binaries know them; {count} faults on purpose were found")


if __name__ == "__main__":
    main()
