"""LanceDB has no server: a folder of Parquet files is imported with its own client, as
docs/how-to/search.md says. Called by accept.py."""

from __future__ import annotations

import glob
import pathlib
import subprocess

import lancedb
import pyarrow
import pyarrow.dataset

DIMENSIONS = 384


def imported(database, folder: pathlib.Path):
    """The lines of the documentation."""
    rows = pyarrow.dataset.dataset(glob.glob(f"{folder}/*.parquet"), format="parquet").to_table()
    rows = rows.append_column("vector", rows["embedding"].cast(pyarrow.list_(pyarrow.float32(), DIMENSIONS))).drop(["embedding"])
    table = database.create_table("docs", schema=rows.schema, exist_ok=True)
    table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete().execute(rows)
    return table


class LanceImport:
    name = "LanceDB"

    def __init__(self, isomer: str, gateway, source, folder: pathlib.Path, row):
        self.gateway, self.source, self.vectors = gateway, source, folder / "vectors"
        self.row = lambda what, holds, numbers: row(self, what, holds, numbers)
        self.database = lancedb.connect(folder / "lance")
        self.command = [isomer, "index", "run", "--source", str(source.path), "--sink", str(self.vectors), "--payload", "n", "--model",
                        "paraphrase-MiniLM-L3-v2", "--server", f"127.0.0.1:{gateway.port}", "--delete", "--quiet"]

    def check(self, what: str, difference) -> None:
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=1800)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        table = imported(self.database, self.vectors)
        stored = {row["key"]: row["vector"] for row in table.to_arrow().to_pylist()}
        texts = {key: text for key, (text, _) in self.source.rows.items()}
        keys = list(texts)[:60]
        computed = self.gateway.vectors([texts[key] for key in keys])
        far = sum(not difference(stored[key], again, True) < 1e-3 for key, again in zip(keys, computed, strict=True) if key in stored)
        nearest = sum(table.search(again).metric("cosine").limit(1).to_list()[0]["key"] == key for key, again in zip(keys, computed, strict=True))
        found = {"lost": len(texts.keys() - stored.keys()), "not of the source": len(stored.keys() - texts.keys()),
                 "twice": table.count_rows() - len(stored), "of another vector": far, "not found by their own vector": len(keys) - nearest}
        self.row(what, not any(found.values()), found)

    def run(self, difference) -> None:
        self.check("a folder of Parquet is imported", difference)
        keys = list(self.source.rows)
        self.source.rows[keys[0]] = ("another text altogether", 0)
        del self.source.rows[keys[1]]
        self.source.rows["new"] = ("a new document", -1)
        self.source.write()
        self.check("and follows it: changed, new and deleted rows", difference)
