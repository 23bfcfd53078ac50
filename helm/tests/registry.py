"""The assertions over a rendered release, as `assertions.py` and `network.py` register them."""

CHECKS = []


def check(function):
    """An assertion: yields a sentence for each thing that is wrong with a release."""
    CHECKS.append(function)
    return function


def problems(release):
    import assertions  # noqa: F401
    import network  # noqa: F401

    return [f"{function.__name__}: {sentence}" for function in CHECKS for sentence in function(release)]
