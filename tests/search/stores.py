"""The stores of tests/search as processes, each read and changed by its own client, never by Isomer."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Process:
    """A process of a group of its own, which answers at an address when it is ready."""

    def __init__(self, command: list[str], ready: str, log: pathlib.Path, environment: dict[str, str] | None = None):
        self.command, self.ready, self.log, self.environment = command, ready, log, environment or {}
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True,
                                            env={**os.environ, **self.environment})
        begun = time.monotonic()
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() - begun > 120:
                raise RuntimeError(f"{self.command[0]} is not there; see its log:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(self.ready, timeout=2).close()
            return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def again(self) -> None:
        """Kills it, and starts it again."""
        self.kill()
        self.start()


class Listening(Process):
    """A process that is ready when its port accepts connections; `ready` is the port."""

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", int(self.ready)), timeout=2).close()
            return True
        except OSError:
            return False


def milvus_lite(folder: pathlib.Path) -> tuple[Process, int]:
    """Milvus Lite's server over a folder. It takes one request at a time: its engine has one writer (see its server.py)."""
    port = free_port()
    command = [str(pathlib.Path(sys.executable).with_name("milvus-lite")), "server", "--data-dir", str(folder / "milvus"),
               "--host", "127.0.0.1", "--port", str(port), "--max-workers", "1"]
    server = Listening(command, str(port), folder / "milvus.log")
    server.start()
    return server, port


class Pgvector:
    """A table of a real PostgreSQL."""

    name, lengths = "pgvector", True

    def __init__(self, url: str, _folder: pathlib.Path):
        import psycopg

        self.url, self.sink = url, f"{url}#accepted"
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("DROP TABLE IF EXISTS accepted")

    def rows(self):
        found = self.connection.execute("SELECT key, payload, embedding::text FROM accepted").fetchall()
        return [(key, payload["n"], json.loads(vector)) for key, payload, vector in found]

    def remove(self, key: str) -> None:
        self.connection.execute("DELETE FROM accepted WHERE key = %s", (key,))

    def set_vector(self, key: str, vector: list[float]) -> None:
        self.connection.execute("UPDATE accepted SET embedding = %s::vector WHERE key = %s", (json.dumps(vector), key))

    def fail(self) -> None:
        """All connections of the run end, as in a restart or a switch to another server."""
        self.connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'isomer index'")

    def stop(self) -> None:
        self.connection.close()


class Chroma:
    """Chroma's server over a folder."""

    name, lengths = "Chroma", True

    def __init__(self, _url: str, folder: pathlib.Path):
        import chromadb

        port = free_port()
        chroma = str(pathlib.Path(sys.executable).with_name("chroma"))
        self.server = Process([chroma, "run", "--host", "127.0.0.1", "--port", str(port), "--path", str(folder / "chroma")],
                              f"http://127.0.0.1:{port}/api/v2/heartbeat", folder / "chroma.log",
                              {"ANONYMIZED_TELEMETRY": "False"})
        self.server.start()
        self.client = chromadb.HttpClient("127.0.0.1", port)
        self.sink = f"chroma+http://127.0.0.1:{port}#accepted"

    def collection(self):
        return self.client.get_collection("accepted", embedding_function=None)

    def rows(self):
        collection, found = self.collection(), []
        while page := collection.get(limit=500, offset=len(found), include=["metadatas", "embeddings"]):
            found += zip(page["ids"], (row["n"] for row in page["metadatas"] or []),
                         (list(map(float, row)) for row in page["embeddings"]), strict=True)
            if len(page["ids"]) < 500:
                return found

    def remove(self, key: str) -> None:
        self.collection().delete(ids=[key])

    def set_vector(self, key: str, vector: list[float]) -> None:
        self.collection().update(ids=[key], embeddings=[vector])

    def fail(self) -> None:
        self.server.kill()
        self.server.start()

    def stop(self) -> None:
        self.server.kill()


class Qdrant:
    """Qdrant's engine for Python behind its REST API. It is in memory, so it is not killed."""

    name, lengths = "Qdrant (engine in Python)", False

    def __init__(self, _url: str, folder: pathlib.Path):
        self.port = free_port()
        self.server = Process([sys.executable, str(HERE / "qdrant_local.py"), str(self.port)],
                              f"http://127.0.0.1:{self.port}/collections/none", folder / "qdrant.log")
        self.server.start()
        self.sink = f"qdrant+http://127.0.0.1:{self.port}#accepted"

    def call(self, method: str, path: str, body: dict, collection: str = "accepted") -> dict:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/collections/{collection}/{path}", json.dumps(body).encode(),
                                         {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["result"]

    def points(self):
        body = {"limit": 100_000, "with_payload": True, "with_vector": True}
        return self.call("POST", "points/scroll", body)["points"]

    def rows(self):
        return [(point["payload"]["isomer_key"], point["payload"]["n"], point["vector"]) for point in self.points()]

    def vectors_of(self, collection: str) -> dict[str, list[float]]:
        points = self.call("POST", "points/scroll", {"limit": 100_000, "with_payload": True, "with_vector": True}, collection)["points"]
        return {point["payload"]["isomer_key"]: point["vector"] for point in points}

    def of(self, key: str):
        return next(point for point in self.points() if point["payload"]["isomer_key"] == key)

    def remove(self, key: str) -> None:
        self.call("POST", "points/delete", {"points": [self.of(key)["id"]]})

    def set_vector(self, key: str, vector: list[float]) -> None:
        self.call("PUT", "points", {"points": [{**self.of(key), "vector": vector}]})

    fail = None

    def stop(self) -> None:
        self.server.kill()


class Milvus:
    """Milvus Lite's server, which speaks Milvus' gRPC."""

    name, lengths = "Milvus Lite", True

    def __init__(self, _url: str, folder: pathlib.Path):
        from pymilvus import MilvusClient

        self.server, port = milvus_lite(folder)
        self.client = MilvusClient(f"http://127.0.0.1:{port}")
        self.sink = f"milvus+http://127.0.0.1:{port}#accepted"

    def found(self, condition: str, collection: str = "accepted") -> list[dict]:
        self.client.load_collection(collection)
        return self.client.query(collection, filter=condition, output_fields=["*"])

    def rows(self):
        return [(row["key"], row["payload"]["n"], list(map(float, row["embedding"]))) for row in self.found('key != ""')]

    def vectors_of(self, collection: str) -> dict[str, list[float]]:
        return {row["key"]: list(map(float, row["embedding"])) for row in self.found('key != ""', collection)}

    def remove(self, key: str) -> None:
        self.client.delete("accepted", ids=[key])

    def set_vector(self, key: str, vector: list[float]) -> None:
        (row,) = self.found(f'key == "{key}"')
        self.client.upsert("accepted", [{**row, "embedding": vector}])

    def fail(self) -> None:
        self.server.kill()
        self.server.start()

    def stop(self) -> None:
        self.client.close()
        self.server.kill()
