"""The expected answers of each encoder, computed here: the stub servers' vectors and scores, and those of the provider in Python."""

import hashlib
import importlib.util
import pathlib

import numpy

HERE = pathlib.Path(__file__).resolve().parent
# Columns of the stub servers' vectors.
DIMENSIONS = 24


def stub_vector(model, side, content, dimensions=None):
    """Unit length, in 32-bit floats. `side` is the kind of input in the request, `content` a text or token ids; another
    model, kind, content or number of columns gives another vector, so no vector can be mistaken for another."""
    dimensions = dimensions or DIMENSIONS
    marked = "\0".join([model, side or "", content if isinstance(content, str) else repr(list(content)), str(dimensions)])
    digest = hashlib.shake_128(marked.encode()).digest(2 * dimensions)
    values = numpy.frombuffer(digest, dtype="<i2").astype(numpy.float64) + 0.5
    return (values / numpy.linalg.norm(values)).astype("<f4")


def stub_rows(model, side, contents, dimensions=None):
    return numpy.stack([stub_vector(model, side, content, dimensions) for content in contents])


def stub_score(model, query, document):
    """A relevance in [0, 1) that 32 bits hold exactly."""
    digest = hashlib.blake2b("\0".join([model, query, document]).encode(), digest_size=3).digest()
    return int.from_bytes(digest, "little") / (1 << 24)


def python_provider():
    """tests/python/provider/provider.py as a module: its vectors without its server."""
    spec = importlib.util.spec_from_file_location("provider", HERE.parent / "python/provider/provider.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def provider_rows(module, texts, prompt="", dimensions=None):
    rows = [module.scaled(module.vector(module.words_of(prompt + text), dimensions or module.DIMENSIONS)) for text in texts]
    return numpy.asarray(rows, dtype="<f4")
