"""Sends the requests of a recipe to a search engine, in their order, and keeps what later requests need of the answers.

    python3 apply.py opensearch/plain.json --engine https://localhost:9200 --header "authorization: Basic …" \\
        --set isomer=https://isomer.example --set model=all-MiniLM-L6-v2 --set dimensions=384
    python3 apply.py opensearch/plain.json --print --set …        prints them; nothing is sent

A recipe says in `needs` which values it takes; a number, true, false, null and a JSON list are such, all else is a text.
`{{name}}` stands for one of them: a string that is nothing else becomes the value itself. `{{name:json}}` is the value as JSON,
`{{name:regex}}` with its dots and brackets taken literally. The key of the gateway is read from ISOMER_API_KEY, and stands where
a recipe says `{{key}}`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys
import urllib.error
import urllib.request

# Values that are not texts: numbers, true, false, null and lists.
JSON = re.compile(r"\d+|true|false|null|\[.*\]")
PLACE = re.compile(r"\{\{(\w+)(?::(json|regex))?\}\}")


class Fault(Exception):
    """Error in a recipe, its values or an answer."""


def value(name: str, known: dict) -> object:
    if name not in known:
        raise Fault(f"the recipe needs `{name}`: give --set {name}=…")
    return known[name]


def as_text(match: re.Match, known: dict) -> str:
    found, form = value(match[1], known), match[2]
    if form == "json":
        return json.dumps(found)
    return re.sub(r"[.+*?()\[\]{}|^$\\]", lambda one: "\\" + one[0], str(found)) if form == "regex" else str(found)


def filled(part: object, known: dict) -> object:
    """The part of a request with its placeholders replaced."""
    if isinstance(part, dict):
        return {key: filled(one, known) for key, one in part.items()}
    if isinstance(part, list):
        return [filled(one, known) for one in part]
    if not isinstance(part, str):
        return part
    whole = PLACE.fullmatch(part)
    if whole and not whole[2]:
        return value(whole[1], known)
    return PLACE.sub(lambda match: as_text(match, known), part)


def picked(answer: object, path: str) -> object:
    """The part of an answer at a path such as `data.0.embedding`."""
    for step in path.split("."):
        try:
            answer = answer[int(step)] if isinstance(answer, list) else answer[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise Fault(f"the answer has nothing at `{path}`: {json.dumps(answer)[:300]}") from None
    return answer


def send(base: str, request: dict, headers: dict[str, str]) -> object:
    """The answer of one request, as JSON."""
    body = None if "body" not in request else json.dumps(request["body"]).encode()
    sent = urllib.request.Request(base.rstrip("/") + request["path"], body, {"content-type": "application/json", **headers}, method=request["method"])
    try:
        with urllib.request.urlopen(sent, timeout=120) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        raise Fault(f"{request['method']} {request['path']}: {error.code} {error.read().decode(errors='replace')[:800]}") from None
    return json.loads(text) if text.strip() else {}


def run(recipe: dict, engine: str, known: dict, headers: dict[str, str], tell=print) -> dict:
    """Sends all requests; the values that are known at the end."""
    known = {**recipe.get("defaults", {}), **known}
    for request in recipe["requests"]:
        request = filled(request, known)
        to_isomer = request.get("to") == "isomer"
        base = str(value("isomer", known)) if to_isomer else engine
        if to_isomer:
            own = {"authorization": f"Bearer {known['key']}"} if known.get("key") else {}
        else:
            own = headers
        answer = send(base, request, {**own, **request.get("headers", {})})
        # Weaviate, Elasticsearch and OpenSearch report faults in `errors`, Milvus by a code, with
        # status 200.
        if isinstance(answer, dict) and (answer.get("errors") or answer.get("code") not in (None, 0, 200)):
            raise Fault(f"{request['method']} {request['path']}: {json.dumps(answer)[:800]}")
        for name, path in request.get("keep", {}).items():
            known[name] = picked(answer, path)
        tell(f"{request['method']:4} {request['path']}  {request.get('what', '')}")
        if request.get("show"):
            tell(json.dumps(picked(answer, request["show"]), ensure_ascii=False)[:2000])
    return known


def load(file: str | pathlib.Path) -> dict:
    return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("recipe")
    arguments.add_argument("--engine", default="http://127.0.0.1:9200", help="address of the search engine")
    arguments.add_argument("--header", action="append", default=[], metavar="NAME: VALUE", help="for the engine, e.g. its own key")
    arguments.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments.add_argument("--print", action="store_true", help="print the requests and send nothing")
    given = arguments.parse_args()
    recipe = load(given.recipe)
    known: dict = {"key": os.environ.get("ISOMER_API_KEY", "")}
    for pair in given.set:
        name, is_given, text = pair.partition("=")
        takes = [one for one in recipe["needs"] if one != "key"]
        if not is_given or name not in takes:
            sys.exit(f"--set {pair}: expected NAME=VALUE with one of {', '.join(takes)}")
        known[name] = json.loads(text) if JSON.fullmatch(text) else text
    headers = dict(tuple(part.strip() for part in header.split(":", 1)) for header in given.header)
    try:
        if given.print:
            later = {name: f"<{name}>" for request in recipe["requests"] for name in request.get("keep", {})}
            secret = {"key": "<key>"} if known["key"] else {}
            print(json.dumps(filled(recipe["requests"], {**recipe.get("defaults", {}), **later, **known, **secret}), indent=2, ensure_ascii=False))
        else:
            run(recipe, given.engine, known, headers)
    except Fault as fault:
        sys.exit(str(fault))


if __name__ == "__main__":
    main()
