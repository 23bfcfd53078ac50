"""Writes crates of the documentation's Rust, outside of the workspace: `programs.py readme FOLDER` or `programs.py page FOLDER`."""

import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/how-to/clients-rust.md"
# The manifest that the page and the README ask of a user's crate, with the client by its path.
MANIFEST = """[package]
name = "user-{what}"
version = "0.0.0"
edition = "2024"

[dependencies]
isomer-client = {{ path = "{client}" }}
futures = "0.3"
tokio = {{ version = "1", features = ["full"] }}

[workspace]

[profile.dev]
debug = false
"""


def blocks(path):
    return re.findall(r"^```rust\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def page():
    """All blocks of the page in one function."""
    tasks = re.findall(r"^## (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.M)
    assert tasks == [str(number) for number in range(1, 13)], tasks
    imports, *statements = blocks(PAGE)
    assert len(statements) == 12, f"{len(statements)} blocks of 12 tasks"
    ended = 'assert!(ended.state().as_str_name() == "RUN_STATE_SUCCEEDED" && !report.content.is_empty());\n'
    return (
        f"#![deny(warnings)]\n{imports}\nasync fn tasks() -> Result<(), Error> {{\n{''.join(statements)}{ended}Ok(())\n}}\n"
        "\n#[tokio::main]\nasync fn main() -> Result<(), Error> {\ntasks().await?;\n"
        f'println!("clients-rust.md: {len(statements)} blocks ran");\nOk(())\n}}\n'
    )


what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
(folder / "src").mkdir(parents=True, exist_ok=True)
program = blocks(HERE / "README.md")[0] if what == "readme" else page()
(folder / "src/main.rs").write_text(program, encoding="utf-8")
(folder / "Cargo.toml").write_text(MANIFEST.format(what=what, client=HERE), encoding="utf-8")
# The versions that the client is tested with; cargo takes out what is not needed.
shutil.copy(ROOT / "Cargo.lock", folder / "Cargo.lock")
