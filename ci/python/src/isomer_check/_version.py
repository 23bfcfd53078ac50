"""The version of the package, which pyproject.toml reads."""

VERSION = "0.1.0"
