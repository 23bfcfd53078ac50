#!/usr/bin/env python3
"""Asks the binaries themselves whether they take what the chart renders: `binaries.py ISOMER HELM`, ISOMER being the
command with the servers beside it. A server of whose configuration every key is known may still refuse a value."""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cases import all_cases
from check import helm
from knowledge import COMMAND
from release import CONFIG, Release, binary

# Exit code of a configuration that is not valid; another one says that nothing answers to the
# probe.
REFUSED = 2


def configurations(binaries, helm_binary):
    """Different configurations: (binary, text of the configuration, text of the providers) → case."""
    found = {}
    for name, values in all_cases().items():
        code, text, error = helm(helm_binary, "template", values)
        if code:
            raise SystemExit(error)
        release = Release(text)
        for pod in release.pods():
            for container in pod.containers():
                path = next((arg.removeprefix("--config=") for arg in container.get("args", []) if arg.startswith("--config=")), None)
                # In CI every binary is built: one that is missing ends this script.
                if path and (os.environ.get("CI") or binaries.joinpath(binary(container)).exists()):
                    files = release.files(pod, container)
                    found.setdefault((binary(container), files[path], files.get(f"{CONFIG}/providers.toml") or "", files.get(f"{CONFIG}/catalogue.toml") or ""), name)
    return found


def certificate(folder):
    """A certificate, its key and its authority, as the files that configurations name."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())


def refusal(binaries, tls, wanted):
    """Errors that a binary reports on a configuration; None if it accepts it."""
    name, config, providers, catalogue = wanted
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for file, text in (("config.toml", config), ("providers.toml", providers), ("catalogue.toml", catalogue)):
            text = text.replace(f"{CONFIG}/", f"{folder}/").replace("/etc/isomer/tls/", f"{tls}/").replace("/var/lib/isomer", f"{folder}/home")
            # Nobody listens there, whatever else runs on this machine.
            (here / file).write_text(re.sub(r'listen = "0\.0\.0\.0:\d+"', 'listen = "127.0.0.1:1"', text))
        environment = {"PATH": os.environ["PATH"], "HOME": folder}
        arguments = ["probe"] if name == COMMAND else ["--probe=live"]
        done = subprocess.run([binaries / name, f"--config={here / 'config.toml'}", *arguments], capture_output=True, text=True, env=environment)
        refused = done.returncode == REFUSED or done.returncode > 4
        # The device is understood; the build at hand is one for CPUs.
        if refused and "this build has no CUDA" not in done.stderr:
            return f"{name} ends with {done.returncode}: {done.stderr.strip()}"
        if providers and name == "isomer-gateway":
            return does_not_start(binaries / name, here, environment)
    return None


def does_not_start(gateway, folder, environment):
    """Why a gateway with this configuration ends; None where it serves. It reads its providers when it starts."""
    environment = environment | {"ISOMER_DATABASE__URL": f"sqlite:{folder}/gateway.sqlite", "ISOMER_ACCESS__MODE": "open", "OPENAI_API_KEY": "none"}
    command = [gateway, f"--config={folder / 'config.toml'}", "--listen=127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if '"serving"' in line or " serving " in line:
                process.terminate()
                return None
        return f"{gateway.name} does not start: {''.join(said)[-600:]}"


def main():
    isomer, helm_binary = Path(sys.argv[1]).resolve(), sys.argv[2]
    found = configurations(isomer.parent, helm_binary)
    with tempfile.TemporaryDirectory() as tls:
        certificate(Path(tls))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            told = list(threads.map(lambda wanted: (found[wanted], refusal(isomer.parent, tls, wanted)), found))
        # The twin of "takes it": one wrong value is refused on the same path.
        wrong = next(wanted for wanted in found if wanted[0] == COMMAND)
        if refusal(isomer.parent, tls, (wrong[0], wrong[1] + "\n[fleet]\nreplicas = 2\n" if "[fleet]" not in wrong[1] else "[fleet]\nreplicas = 2\n", "", "")) is None:
            raise SystemExit("a wrong value is not refused: this check finds nothing")
    problems = [f"{case}: {refused}" for case, refused in told if refused]
    for problem in problems:
        print(problem)
    if problems:
        raise SystemExit(f"{len(problems)} of {len(found)} configurations are refused")
    names = sorted({wanted[0] for wanted in found})
    print(f"{len(found)} different configurations, each taken by its binary ({', '.join(names)})")


if __name__ == "__main__":
    main()
