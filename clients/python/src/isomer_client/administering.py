"""Keys and providers as requests: pure, the same for both clients."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Optional, Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from .errors import InvalidArgument
from .proto.gateway.v1 import access_pb2, provider_pb2
from .transforming import chosen

SCOPES = {
    "encode": access_pb2.ACCESS_SCOPE_ENCODE,
    "transform": access_pb2.ACCESS_SCOPE_TRANSFORM,
    "evaluate": access_pb2.ACCESS_SCOPE_EVALUATE,
    "admin": access_pb2.ACCESS_SCOPE_ADMIN,
}


def key(name: str, scopes: Sequence[str], limits: Optional[access_pb2.KeyLimits], expires: Optional[datetime]) -> access_pb2.ApiKey:
    if isinstance(scopes, str):
        raise InvalidArgument("scopes is one word", field="key.scopes", reason="INVALID_ARGUMENT", hint="give a list: ['encode']")
    made = access_pb2.ApiKey(name=name, scopes=[chosen("key.scopes", scope, SCOPES) for scope in scopes], limits=limits)
    if expires is not None:
        if expires.tzinfo is None:
            raise InvalidArgument("expires has no time zone", field="key.expire_time", hint="give e.g. datetime.now(timezone.utc) + …")
        made.expire_time.FromDatetime(expires.astimezone(timezone.utc))
    return made


def moment(time: Timestamp) -> datetime:
    return time.ToDatetime(tzinfo=timezone.utc)


def check_request(id: Optional[str], candidate: Optional[provider_pb2.Provider]) -> Any:
    if (id is None) == (candidate is None):
        raise InvalidArgument("id and candidate are both given, or neither", field="target", hint="give one of the two")
    return provider_pb2.CheckProviderRequest(id=id) if id is not None else provider_pb2.CheckProviderRequest(candidate=candidate)
