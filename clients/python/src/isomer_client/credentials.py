"""Where tokens of an identity provider come from."""

from __future__ import annotations

import dataclasses
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Awaitable, Callable, Optional, Union

from .errors import InvalidArgument, Unauthenticated, Unavailable

# Seconds before its end in which a token is not sent any more.
MARGIN = 30.0
MOST_ANSWER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Token:
    """A token and when it ends (`time.time()`); none: it is asked for again only when a server refuses it."""

    value: str
    expires_at: Optional[float] = None

    def __repr__(self) -> str:
        return f"Token(expires_at={self.expires_at})"

    def usable(self) -> bool:
        return self.expires_at is None or time.time() < self.expires_at - MARGIN


TokenSource = Callable[[], Union[str, Token]]
AsyncTokenSource = Callable[[], Union[str, Token, Awaitable[Union[str, Token]]]]


def as_token(answer: Any) -> Token:
    token = Token(answer) if isinstance(answer, str) else answer
    if not isinstance(token, Token) or not token.value:
        raise InvalidArgument("token gave no token", field="token", hint="return a str or an isomer_client.Token")
    return token


class OidcClientCredentials:
    """Tokens by OAuth 2.0's client-credentials grant (RFC 6749, 4.4) from an identity provider.

    The address of its token endpoint is `token_url`, or is found at the issuer (OpenID Connect
    Discovery). It is called whenever a token is needed; clients keep tokens until they end.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        *,
        issuer: Optional[str] = None,
        token_url: Optional[str] = None,
        scope: Optional[str] = None,
        audience: Optional[str] = None,
        ca_file: Optional[str] = None,
        timeout: float = 10.0,
    ) -> None:
        if (issuer is None) == (token_url is None):
            raise InvalidArgument("issuer and token_url are both given, or neither", field="issuer", hint="give one of the two")
        for name, url in (("issuer", issuer), ("token_url", token_url)):
            if url is not None and not _confidential(url):
                raise InvalidArgument(f"{name} is not an https address", field=name, hint="a secret is sent there: write https://")
        self._id, self._secret = client_id, client_secret
        self._issuer, self._token_url = issuer, token_url
        self._extra = {name: value for name, value in (("scope", scope), ("audience", audience)) if value}
        self._context = ssl.create_default_context(cafile=ca_file)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"OidcClientCredentials(client_id={self._id!r})"

    def __call__(self) -> Token:
        if self._token_url is None:
            found = self._json(f"{str(self._issuer).rstrip('/')}/.well-known/openid-configuration", None)
            url = found.get("token_endpoint")
            if not isinstance(url, str) or not _confidential(url):
                raise Unauthenticated("the issuer names no token endpoint with https", field="issuer", hint="give token_url")
            self._token_url = url
        form = {"grant_type": "client_credentials", "client_id": self._id, "client_secret": self._secret, **self._extra}
        answer = self._json(self._token_url, urllib.parse.urlencode(form).encode())
        value, seconds = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(value, str) or not value:
            raise Unauthenticated(f"the identity provider gave no token: {answer.get('error', 'no access_token')}", field="token")
        expires = time.time() + float(seconds) if isinstance(seconds, (int, float)) else None
        return Token(value, expires)

    def _json(self, url: str, body: Optional[bytes]) -> Any:
        request = urllib.request.Request(url, body, {"accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=self._timeout, context=self._context) as answer:
                return json.loads(answer.read(MOST_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            raise Unauthenticated(f"the identity provider answered {error.code}", field="token", hint="check client id and secret") from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"the identity provider cannot be asked: {error}", field="token") from error


def _confidential(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"))
