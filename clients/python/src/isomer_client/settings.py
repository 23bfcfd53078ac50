"""Where a server is and how it is spoken to, checked before anything is sent."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import pathlib
from typing import Any, List, Mapping, Optional, Tuple, Union
from urllib.parse import urlsplit

import grpc

from ._version import VERSION
from .errors import InvalidArgument
from .retry import RetryPolicy

PemSource = Union[bytes, str, "os.PathLike[str]"]
DEFAULT_ADDRESS = "127.0.0.1:50051"
SCHEMES = {"": False, "http": False, "grpc": False, "https": True, "grpcs": True}


@dataclasses.dataclass(frozen=True)
class Tls:
    """TLS towards the server. Each part is PEM text as bytes, or the path of a file."""

    ca: Optional[PemSource] = None
    """Authorities to trust; none: the system's."""
    certificate: Optional[PemSource] = None
    """The client's certificate chain (mTLS), with `private_key`."""
    private_key: Optional[PemSource] = dataclasses.field(default=None, repr=False)
    server_name: Optional[str] = None
    """Name expected in the server's certificate; none: the address's host."""

    def credentials(self) -> grpc.ChannelCredentials:
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidArgument(
                "tls has a certificate or a private key alone",
                field="tls.private_key" if self.private_key is None else "tls.certificate",
                hint="give both, or neither",
            )
        return grpc.ssl_channel_credentials(
            root_certificates=_pem(self.ca, "tls.ca"),
            private_key=_pem(self.private_key, "tls.private_key"),
            certificate_chain=_pem(self.certificate, "tls.certificate"),
        )


def _pem(source: Optional[PemSource], field: str) -> Optional[bytes]:
    if source is None or isinstance(source, bytes):
        return source
    try:
        return pathlib.Path(source).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{field} cannot be read: {error}", field=field, hint="give PEM bytes, or a file that is there") from error


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a client behaves; see the arguments of `Client`."""

    address: str = DEFAULT_ADDRESS
    tls: Optional[Tls] = None
    # Never in what is printed of these settings.
    key: Optional[str] = dataclasses.field(default=None, repr=False)
    token: Any = dataclasses.field(default=None, repr=False)
    metadata: Tuple[Tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    timeout: Optional[float] = 120.0
    retries: RetryPolicy = RetryPolicy()
    in_flight: int = 4
    batch_items: int = 256
    batch_bytes: int = 1 << 20
    secret_over_plain_text: bool = False
    telemetry: bool = True
    check_spaces: bool = True
    options: Tuple[Tuple[str, Any], ...] = ()

    def target(self) -> Tuple[str, bool]:
        """Target that gRPC connects to, and whether with TLS."""
        text = self.address.strip()
        if text.startswith(("unix:", "dns:", "ipv4:", "ipv6:")):
            return text, self.tls is not None
        if "://" not in text:
            text = f"//{text}"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise _bad_address(self.address, str(error)) from None
        if parts.scheme not in SCHEMES:
            raise _bad_address(self.address, f"there is no scheme `{parts.scheme}`")
        if not parts.hostname or parts.username or parts.path not in ("", "/") or parts.query or parts.fragment:
            raise _bad_address(self.address, "it has more or less than a host and a port")
        secure = SCHEMES[parts.scheme] or self.tls is not None
        if self.tls is not None and parts.scheme in ("http", "grpc"):
            raise _bad_address(self.address, "it says plain text, and `tls` is given")
        if port is None:
            if not secure:
                raise _bad_address(self.address, "it has no port")
            port = 443
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return f"{host}:{port}", secure

    def checked(self) -> Settings:
        """These, or InvalidArgument for the first that cannot be meant."""
        target, secure = self.target()
        if self.key is not None and self.token is not None:
            raise InvalidArgument("key and token are both given", field="token", hint="give one of the two")
        if self.key is not None and (not self.key.isascii() or not self.key.isprintable() or not self.key.strip()):
            raise InvalidArgument("key holds characters that no key has", field="key", hint="give it as `isomer keys create` printed it")
        has_secret = self.key is not None or self.token is not None
        if has_secret and not secure and not self.secret_over_plain_text and not _on_this_machine(target):
            raise InvalidArgument(
                f"the key would travel to `{self.address}` in plain text",
                field="address",
                reason="SECRET_IN_PLAIN_TEXT",
                hint="write https:// in the address; or set secret_over_plain_text=True where nobody else can read the traffic",
            )
        for name, least in (("in_flight", 1), ("batch_items", 1), ("batch_bytes", 1)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name} is {getattr(self, name)}", field=name, hint=f"give {least} or more")
        if self.timeout is not None and self.timeout <= 0:
            raise InvalidArgument(f"timeout is {self.timeout}", field="timeout", hint="give seconds above 0, or None for no limit")
        for key, _ in self.metadata:
            if key != key.lower() or key in ("authorization", "x-api-key", "api-key") and has_secret:
                raise InvalidArgument(
                    f"metadata names `{key}`", field="metadata", hint="names are in lower case; a key is given as `key`, not as metadata"
                )
        return self

    def channel_options(self) -> List[Tuple[str, Any]]:
        options: List[Tuple[str, Any]] = [
            # Vectors take 4 bytes x rows x dimensions; gRPC's default is 4 MiB.
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.primary_user_agent", f"isomer-client-python/{VERSION}"),
            # A server that restarts is found again in moments, not in gRPC's second and more.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 1000),
            ("grpc.max_reconnect_backoff_ms", 5000),
            # A connection that died without a word is noticed while an answer is awaited.
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # Retries are made here, where RetryInfo is read.
            ("grpc.enable_retries", 0),
        ]
        if self.tls is not None and self.tls.server_name:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return [*options, *self.options]

    def credentials(self) -> Optional[grpc.ChannelCredentials]:
        return (self.tls or Tls()).credentials() if self.target()[1] else None


def _bad_address(address: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"address `{address}` cannot be used: {why}",
        field="address",
        hint="write host:port, http://host:port, or https://host (with TLS, port 443 unless given)",
    )


def _on_this_machine(target: str) -> bool:
    if target.startswith("unix:"):
        return True
    host = target.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def from_environment(environment: Mapping[str, str]) -> Tuple[str, Optional[str]]:
    """Address and key as the command line reads them: `ISOMER_SERVER`, `ISOMER_API_KEY`."""
    return environment.get("ISOMER_SERVER") or DEFAULT_ADDRESS, environment.get("ISOMER_API_KEY") or None
