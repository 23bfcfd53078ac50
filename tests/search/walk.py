"""The commands of docs/how-to/gase-on-pgvector.md, from a clean clone, and what they leave behind. See tests/search/walk."""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import psycopg
from stores import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/how-to/gase-on-pgvector.md"
ROWS, MODEL = 68, "all-MiniLM-L6-v2"

FAILED: list[str] = []


def row(what: str, holds: bool, numbers: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {what:72} {numbers}", flush=True)
    if not holds:
        FAILED.append(what)


def commands(page: str) -> list[tuple[str, str]]:
    """Each section's commands, in the page's order."""
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    found = [(section.split("\n", 1)[0], block) for section in sections for block in re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)]
    assert len(found) == 8, [name for name, _ in found]
    return found


def vector(server: str, text: str, augment: str | None) -> list[float]:
    body: dict = {"model": MODEL, "input": text}
    if augment:
        body["augment"] = {"transformations": [augment]}
    request = urllib.request.Request(f"http://{server}/v1/embeddings", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["data"][0]["embedding"]


def far(connection: psycopg.Connection, server: str, augment: str) -> list[str]:
    """Rows whose second column is not what the gateway computes of their texts; a tenth of all is looked at."""
    query = "SELECT id, title || E'\\n' || body, embedding_gase::text FROM docs ORDER BY md5(id) LIMIT 7"
    return [key for key, text, stored in connection.execute(query) if math.dist(json.loads(stored), vector(server, text, augment)) > 1e-5]


def left_behind(url: str, server: str, augment: str, old: dict[str, str], lacking: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        rows, empty, same = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE embedding_gase IS NULL), count(*) FILTER (WHERE embedding = embedding_gase) FROM docs"
        ).fetchone()
        row("each row has a vector of its own in the second column", (rows, empty, same) == (ROWS, 0, 0), (rows, empty, same))
        plain = connection.execute("SELECT count(*) FROM docs_plain p JOIN docs_gase g USING (key) WHERE p.embedding = g.embedding").fetchone()[0]
        row("only rows that lack their variant have plain vectors", plain == lacking, f"{plain} of {lacking}")
        now = dict(connection.execute("SELECT id, embedding::text FROM docs"))
        row("the old column is as it was", now == old, len(now))
        row("the gateway computes the same vectors again", not (found := far(connection, server, augment)), found)
        changed = "bread-flat-sourdough"
        text, stored = connection.execute("SELECT title || E'\\n' || body, embedding_gase::text FROM docs WHERE id = %s", (changed,)).fetchone()
        holds = "Rye" in text and math.dist(json.loads(stored), vector(server, text, augment)) < 1e-5
        row("the row that changed has the vector of its new text", holds)
        query = vector(server, "my homemade loaf stays flat", None)
        connection.execute("SET enable_indexscan = off")
        first = [key for (key,) in connection.execute("SELECT id FROM docs ORDER BY embedding_gase <=> %s::vector LIMIT 3", (json.dumps(query),))]
        row("the query of the page finds the document about it", changed in first, first)
        connection.execute("UPDATE docs SET embedding_gase = embedding")
        row("vectors of the old encoder in the second column are seen", len(far(connection, server, augment)) == 7)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--isomer", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--psql", required=True)
    parser.add_argument("--without-a-model", action="store_true", help="variants by `stopword_removal`, in place of `paraphrase`")
    given = parser.parse_args()
    augment = "stopword_removal" if given.without_a_model else "paraphrase"
    with tempfile.TemporaryDirectory(prefix="isomer-walk-") as name:
        folder = pathlib.Path(name)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", folder / "isomer"], check=True)
        (folder / "bin").mkdir()
        for tool, path in (("isomer", given.isomer), ("psql", given.psql)):
            (folder / "bin" / tool).symlink_to(path)
        server = f"127.0.0.1:{free_port()}"
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "DATABASE": given.postgres, "PGOPTIONS": "-c client_min_messages=warning"}
        blocks = commands((folder / "isomer" / PAGE).read_text(encoding="utf-8"))
        shell = subprocess.Popen(["bash", "-euo", "pipefail"], cwd=folder / "isomer", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        old: dict[str, str] = {}
        lacking = 0
        try:
            for section, block in blocks:
                began = time.monotonic()
                block = block.replace("127.0.0.1:50051", server)
                shell.stdin.write(re.sub(r"\bparaphrase\b(?!-)", augment, block))
                shell.stdin.write("\necho 'the section has ended'\n")
                shell.stdin.flush()
                told = []
                while (line := shell.stdout.readline()) and line != "the section has ended\n":
                    told.append(line)
                row(section, bool(line), f"{time.monotonic() - began:.0f} s")
                print("".join(f"        {one}" for one in told if "\r" not in one)[-3000:], end="")
                if not line:
                    return 1
                if section[0] in "48":
                    # The last run's report on its rows: a small generator's answers do not all pass
                    # the checks.
                    lacking = int((re.findall(r"lack variants: +(\d+)", "".join(told)) or ["0"])[-1])
                if section[0] == "2":
                    with psycopg.connect(given.postgres) as connection:
                        old = dict(connection.execute("SELECT id, embedding::text FROM docs"))
            left_behind(given.postgres, server, augment, old, lacking)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    print(f"{len(FAILED)} failed" if FAILED else "all hold")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
