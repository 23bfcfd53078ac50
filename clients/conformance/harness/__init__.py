"""Parts of `clients/conformance/run`."""
