"""Draws texts to be judged by a reader."""

import argparse
import hashlib


def read_options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    return parser.parse_args()


def show(found, options):
    """Prints texts of `(file, line, words)`. A change elsewhere does not move the drawn ones."""
    rank = lambda drawn: hashlib.sha256(f"{options.seed} {drawn[0]} {drawn[2]}".encode()).digest()
    for name, line, words in sorted(sorted(found, key=rank)[: options.count]):
        print(f"{name}:{line}: {' '.join(words.split())}")
