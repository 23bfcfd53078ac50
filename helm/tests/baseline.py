"""Properties that an upgrade may not change: fields that Kubernetes refuses to change in an
existing object, and names of objects that hold data.
`baseline/NAME.yaml` are values of a released chart, `baseline/NAME.json` is what they rendered."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "baseline"


def fixed(release):
    """Selectors of Deployments and Services, and claims and Secrets that are kept."""
    found = {}
    for one in release.all("Deployment"):
        found[f"Deployment {one['metadata']['name']} selector"] = one["spec"]["selector"]
    for one in release.all("Service"):
        found[f"Service {one['metadata']['name']} selector"] = one["spec"]["selector"]
    for one in release.all("PersistentVolumeClaim"):
        found[f"PersistentVolumeClaim {one['metadata']['name']}"] = one["spec"]
    for one in release.all("Secret"):
        found[f"Secret {one['metadata']['name']}"] = sorted(one["data"])
    return found


def changed_for_ever(name, release):
    recorded, now = json.loads((FOLDER / f"{name}.json").read_text()), fixed(release)
    for key, value in recorded.items():
        if now.get(key) != value:
            yield f"an upgrade would change {key}: {value} became {now.get(key)}"


if __name__ == "__main__":
    # Writes what the baselines render now: at a release, never to make a test pass.
    import sys

    import yaml

    from check import helm
    from release import Release

    for path in FOLDER.glob("*.yaml"):
        code, text, error = helm(sys.argv[1], "template", yaml.safe_load(path.read_text()))
        if code:
            raise SystemExit(error)
        path.with_suffix(".json").write_text(json.dumps(fixed(Release(text)), indent=1, sort_keys=True) + "\n")
