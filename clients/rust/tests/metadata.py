"""Metadata that a registry requires of a package, from `cargo metadata` on standard input."""

import json
import pathlib
import sys

package = next(one for one in json.load(sys.stdin)["packages"] if one["name"] == "isomer-client")
folder = pathlib.Path(package["manifest_path"]).parent
missing = [name for name in ("description", "license", "readme", "rust_version", "keywords", "categories") if not package[name]]
assert not missing, f"clients/rust/Cargo.toml does not say: {missing}"
assert (folder / package["readme"]).is_file() and (folder / "LICENSE").is_file(), "a file that the package names is missing"
assert len(package["keywords"]) <= 5 and len(package["categories"]) <= 5, "a registry takes five keywords and categories at most"
print(f"ok: {package['name']} {package['version']}, {package['license']}")
