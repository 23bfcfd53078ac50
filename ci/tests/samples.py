"""Encoders and rules of the tests, and where things are.

The encoders are those of embed-svc's tests: tiny, with weights drawn by chance, so that a check takes seconds and ends the same everywhere.
"""

from __future__ import annotations

import os
import pathlib

CI = pathlib.Path(__file__).resolve().parents[1]
ROOT = CI.parent
SUITE = str(CI / "tests/suite.toml")
FIXTURES = ROOT / "embed-svc/tests/fixtures"
# Under RULE: the drop's bounds are below the limit, above it, and on both sides of it.
ROBUST, WORSE, UNCERTAIN = (str(FIXTURES / name) for name in ("mpnet", "word_embeddings", "xlm_roberta"))
MISSING = str(FIXTURES / "not_there")
# WORSE gives some texts the same vector, which `max_shared=1` allows; STRICT does not, and is
# invalid.
STRICT = "max_drop=5,of=stopword_removal,unit=item,max_zero=1"
RULE = f"{STRICT},max_shared=1,max_at_chance=1"


def binary() -> str:
    return os.environ["ISOMER"]
