"""A name for an augmented encoder, for engines whose requests carry a model and texts alone.

    pip install isomer-client
    ISOMER_SERVER=127.0.0.1:50051 python3 augmented_provider.py --model all-MiniLM-L6-v2 --augment paraphrase

It registers itself with the gateway for as long as it runs, as `MODEL-gase`, and asks the gateway for augmented vectors (GASE):
for documents, since every text waits for all of its variants. A text has one vector here, as with any encoder: the gateway
keeps answers, and compares them. So there is no `cached` mode: ask `/v1/embeddings` with `augment` for the vectors of queries.

The gateway's key is read from ISOMER_API_KEY; it needs the scopes encode, transform and admin. The gateway must be able to reach
the address that `--listen` names (`addresses.allow`).

What it costs is charged to that key, and to the caller's as plain encoding. A request may take as long as
`routing.attempt_timeout_ms` of the gateway: give it few texts at a time where a language model makes the variants.
"""

from __future__ import annotations

import argparse
from typing import Any, List

import numpy.typing as npt
from isomer_client import Client, Source
from isomer_client.provider import Description, Provider, serve


class Augmented(Provider):
    """Augmented vectors of another encoder. It has no prompts: a generator must not see them, so one is named here."""

    def __init__(self, client: Client, given: argparse.Namespace):
        self.client, self.id = client, given.name or f"{given.model}-gase"
        self.options: Any = {
            "sources": [Source(name, given.generator) for name in given.augment.split(",")],
            "encoder": given.model,
            "pooling": given.pooling,
            "prompt_name": given.prompt_name,
            "mode": "always",
            "all_variants": True,
        }
        self.encoder = client.encoder(given.model)
        # The vector space covers transformations, generators and pooling: another one is another
        # version.
        self.space = client.encode_augmented(["a text"], **self.options).space

    def describe(self) -> Description:
        return Description(
            id=self.id,
            version=f"gase/{self.space.digest}",
            dimensions=self.encoder.dimensions,
            max_batch_items=64,
            normalises=self.encoder.normalises,
        )

    def encode(self, texts: List[str]) -> npt.ArrayLike:
        found = self.client.encode_augmented(texts, **self.options)
        if found.space.digest != self.space.digest:
            raise ValueError("the encoder or the generator of the gateway is another one: start this again")
        return found.vectors

    def count_tokens(self, texts: List[str]) -> List[int]:
        return self.client.count_tokens(texts, encoder=self.options["encoder"], prompt_name=self.options["prompt_name"])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", required=True, help="the encoder")
    arguments.add_argument("--augment", required=True, metavar="NAME,…", help="transformations that make the variants")
    arguments.add_argument("--generator", default="", help="by default the gateway's")
    arguments.add_argument("--pooling", choices=["mean", "max"], default="mean")
    arguments.add_argument("--prompt-name", help="the encoder's prompt for these texts")
    arguments.add_argument("--name", help="the name of the augmented encoder")
    arguments.add_argument("--listen", default="127.0.0.1:0")
    given = arguments.parse_args()
    with Client.from_environment() as client:
        serve(Augmented(client, given), given.listen, register=client)


if __name__ == "__main__":
    main()
