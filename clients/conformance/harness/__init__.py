"""What `clients/conformance/run` is made of."""
