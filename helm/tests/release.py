"""A rendered release: its objects, and what each container of it is started with."""

import re
import tomllib
from dataclasses import dataclass, field

import yaml

WORKLOADS = ("Deployment", "Job", "CronJob", "Pod", "StatefulSet", "DaemonSet")
CONFIG = "/etc/isomer/config"


@dataclass
class Pod:
    owner: dict
    spec: dict
    labels: dict
    annotations: dict = field(default_factory=dict)

    @property
    def name(self):
        return f"{self.owner['kind']} {self.owner['metadata']['name']}"

    @property
    def component(self):
        return self.labels.get("app.kubernetes.io/component", "")

    def containers(self):
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


class Release:
    def __init__(self, text):
        self.text = text
        self.objects = [document for document in yaml.safe_load_all(text) if document]

    def all(self, *kinds):
        return [one for one in self.objects if one["kind"] in kinds]

    def named(self, kind, name):
        return next((one for one in self.all(kind) if one["metadata"]["name"] == name), None)

    def pods(self):
        found = []
        for one in self.all(*WORKLOADS):
            if one["kind"] == "Pod":
                template = one
            elif one["kind"] == "CronJob":
                template = one["spec"]["jobTemplate"]["spec"]["template"]
            else:
                template = one["spec"]["template"]
            metadata = template.get("metadata", {})
            found.append(Pod(one, template["spec"], metadata.get("labels", {}), metadata.get("annotations", {})))
        return found

    def files(self, pod, container):
        """Paths in a container → content, or None where only a cluster's Secret has it."""
        volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
        found = {}
        for mount in container.get("volumeMounts", []):
            volume, path = volumes.get(mount["name"], {}), mount["mountPath"]
            if "configMap" in volume:
                config = self.named("ConfigMap", volume["configMap"]["name"]) or {"data": {}}
                found.update({f"{path}/{file}": content for file, content in config["data"].items()})
            elif "secret" in volume:
                items = [item["path"] for item in volume["secret"].get("items", [])] or ["tls.crt", "tls.key", "ca.crt"]
                found.update({f"{path}/{file}": None for file in items})
            elif "projected" in volume:
                for one in volume["projected"]["sources"]:
                    found.update({f"{path}/{item['path']}": None for item in one["secret"]["items"]})
        return found

    def configuration(self, pod, container):
        """The configuration file that a container is started with, read."""
        path = next((arg.removeprefix("--config=") for arg in container.get("args", []) if arg.startswith("--config=")), None)
        if path is None:
            return None
        content = self.files(pod, container).get(path)
        return None if content is None else tomllib.loads(content)


def matches(selector, labels):
    """Whether a label selector takes these labels; an empty one takes all."""
    selector = selector or {}
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for rule in selector.get("matchExpressions", []):
        has = labels.get(rule["key"])
        taken = {
            "In": has in rule.get("values", []),
            "NotIn": has not in rule.get("values", []),
            "Exists": rule["key"] in labels,
            "DoesNotExist": rule["key"] not in labels,
        }[rule["operator"]]
        if not taken:
            return False
    return True


def binary(container):
    return container["command"][0].rsplit("/", 1)[-1]


def subcommand(container, known):
    """The command of `isomer` that a container runs: the longest that its words begin with."""
    words, args, best = [], [*container["command"][1:], *container.get("args", [])], "isomer"
    for arg in args:
        if not arg.startswith("-"):
            words.append(arg)
            if " ".join(["isomer", *words]) in known:
                best = " ".join(["isomer", *words])
    return best


def masked(text):
    """A render without what differs each time: generated keys."""
    return re.sub(r"(?m)^(  [a-z0-9-]+: )[A-Za-z0-9+/]{80,}=*$", r"\1KEY", text)
