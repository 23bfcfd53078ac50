"""Qdrant's REST API over the engine that qdrant-client has for Python: no package registry has a
server of Qdrant. Bodies are read by the client's own models, so one that Qdrant would refuse is
refused here too."""

from __future__ import annotations

import http.server
import json
import sys

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

CLIENT = QdrantClient(":memory:")
METADATA: dict[str, dict] = {}
ALIASES = TypeAdapter(models.ChangeAliasesOperation)
VECTORS = TypeAdapter(models.VectorParams)
POINT = TypeAdapter(models.PointStruct)
FILTER = TypeAdapter(models.Filter)


def point(found) -> dict:
    return json.loads(found.model_dump_json(exclude_none=True))


def answer(method: str, path: list[str], body: dict | None):
    """The result, or None where there is no such collection."""
    if path == ["aliases"]:
        return json.loads(CLIENT.get_aliases().model_dump_json())
    if path == ["collections", "aliases"]:
        return CLIENT.update_collection_aliases(ALIASES.validate_python(body).actions)
    name, rest = path[1], path[2:]
    name = {alias.alias_name: alias.collection_name for alias in CLIENT.get_aliases().aliases}.get(name, name)
    if method == "PUT" and not rest:
        models.CreateCollection.model_validate(body)
        METADATA[name] = body["metadata"]
        return CLIENT.create_collection(name, vectors_config=VECTORS.validate_python(body["vectors"]))
    if name not in METADATA:
        return None
    match method, rest:
        case "PATCH", []:
            METADATA[name] |= models.UpdateCollection.model_validate(body).metadata
            return True
        case "DELETE", []:
            del METADATA[name]
            return CLIENT.delete_collection(name)
        case "GET", []:
            return {"config": {"metadata": METADATA[name]}}
        case "PUT", ["index"]:
            models.CreateFieldIndex.model_validate(body)
            return {}
        case "PUT", ["points"]:
            CLIENT.upsert(name, [POINT.validate_python(one) for one in body["points"]])
            return {}
        case "POST", ["points", "delete"]:
            CLIENT.delete(name, models.PointIdsList(points=body["points"]))
            return {}
        case "POST", ["points"]:
            found = CLIENT.retrieve(name, body["ids"], with_payload=body["with_payload"], with_vectors=body["with_vector"])
            return [point(one) for one in found]
        case "POST", ["points", "scroll"]:
            wanted = FILTER.validate_python(body["filter"]) if "filter" in body else None
            found, following = CLIENT.scroll(name, wanted, limit=body["limit"], offset=body.get("offset"),
                                             with_payload=body["with_payload"], with_vectors=body["with_vector"])
            return {"points": [point(one) for one in found], "next_page_offset": following}
        case "POST", ["points", "query"]:
            found = CLIENT.query_points(name, body["query"], limit=body["limit"], with_payload=body["with_payload"])
            return {"points": [point(one) for one in found.points]}
    raise ValueError(f"{method} {path}")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            result = answer(self.command, self.path.split("?")[0].strip("/").split("/"), body)
            status, said = (404, {"status": {"error": "Not found"}}) if result is None else (200, {"result": result})
        except Exception as error:  # noqa: BLE001: the client is told what it did wrong
            status, said = 400, {"status": {"error": f"{type(error).__name__}: {error}"}}
        sent = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = reply

    def log_message(self, *_) -> None:
        pass


# One request after the other: the engine is not made for several threads.
if __name__ == "__main__":
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
