"""Comments on a pull request of GitHub or a merge request of GitLab."""

from __future__ import annotations

import json
import pathlib
import urllib.request
from typing import Any, Dict, Iterator, List, Mapping, Protocol, Tuple, cast

PAGE = 100
MOST_PAGES = 50
SECONDS = 30


class Unposted(Exception):
    """Why there is no comment."""


class Forge(Protocol):
    def post(self, mark: str, body: str) -> str:
        """Writes the comment, in place of the one that begins with `mark` where there is one; returns what was done."""
        ...


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another server."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _called(method: str, url: str, headers: Mapping[str, str], body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode("utf-8")
    sent = {"user-agent": "isomer-check", "accept": "application/json", **({"content-type": "application/json"} if data else {}), **headers}
    try:
        with _OPENER.open(urllib.request.Request(url, data=data, method=method, headers=sent), timeout=SECONDS) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError) as error:
        raise Unposted(f"{method} {url}: {error}") from error


class GitHub:
    """Needs `pull-requests: write`, which the token of a pull request from a fork does not have."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def _issue(self) -> Tuple[str, Dict[str, str]]:
        found = self._environment
        path, token = found.get("GITHUB_EVENT_PATH", ""), found.get("CHECK_TOKEN", "")
        try:
            event: Any = json.loads(pathlib.Path(path).read_text(encoding="utf-8")) if path else {}
        except (OSError, ValueError) as error:
            raise Unposted(f"the event cannot be read: {error}") from error
        number: Any = None
        if isinstance(event, dict):
            number = cast(Dict[str, Any], cast(Dict[str, Any], event).get("pull_request") or {}).get("number")
        if not isinstance(number, int):
            raise Unposted("this is no job of a pull request")
        if not token:
            raise Unposted("there is no token: give the input `token`")
        api = f"{found.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{found.get('GITHUB_REPOSITORY', '')}/issues"
        return f"{api}/{number}/comments", {"authorization": f"Bearer {token}", "x-github-api-version": "2022-11-28"}

    def post(self, mark: str, body: str) -> str:
        url, headers = self._issue()
        for one in _pages(url, headers):
            if str(one.get("body", "")).startswith(mark):
                # `…/issues/comments/ID`: a comment's address has no number of its issue.
                _called("PATCH", f"{url.rpartition('/')[0].rpartition('/')[0]}/comments/{int(one['id'])}", headers, {"body": body})
                return "the comment of the check before was written anew"
        _called("POST", url, headers, {"body": body})
        return "a comment was made"


class GitLab:
    """Needs a project access token with the scope `api`: the token of a job may not write notes."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def post(self, mark: str, body: str) -> str:
        found = self._environment
        merge_request, token = found.get("CI_MERGE_REQUEST_IID", ""), found.get("CHECK_TOKEN", "")
        if not merge_request:
            raise Unposted("this is no pipeline of a merge request")
        if not token:
            raise Unposted("there is no token: set CHECK_TOKEN to a project access token with the scope `api`")
        url = f"{found.get('CI_API_V4_URL', '')}/projects/{found.get('CI_PROJECT_ID', '')}/merge_requests/{merge_request}/notes"
        headers = {"private-token": token}
        for one in _pages(url, headers):
            if str(one.get("body", "")).startswith(mark):
                _called("PUT", f"{url}/{int(one['id'])}", headers, {"body": body})
                return "the note of the check before was written anew"
        _called("POST", url, headers, {"body": body})
        return "a note was made"


def _pages(url: str, headers: Mapping[str, str]) -> Iterator[Dict[str, Any]]:
    for page in range(1, MOST_PAGES + 1):
        found = _called("GET", f"{url}?per_page={PAGE}&page={page}", headers)
        if not isinstance(found, list):
            raise Unposted(f"GET {url}: the answer is no list of comments")
        listed = cast(List[Dict[str, Any]], found)
        yield from listed
        if len(listed) < PAGE:
            return
