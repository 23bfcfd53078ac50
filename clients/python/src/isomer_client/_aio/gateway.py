"""The gateway's providers and keys. All of it needs the scope `admin`."""

from __future__ import annotations

from datetime import datetime
from typing import AsyncIterator, Optional, Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from .. import administering, methods, results
from ..proto.gateway.v1 import access_pb2, provider_pb2
from .base import AsyncPart


class AsyncProviders(AsyncPart):
    """ProviderService: encoders that live elsewhere."""

    async def create(self, provider: provider_pb2.Provider, *, timeout: Optional[float] = None) -> provider_pb2.Provider:
        request = provider_pb2.CreateProviderRequest(provider=provider)
        return (await self._call(methods.CREATE_PROVIDER, request, timeout)).provider

    async def get(self, id: str, *, timeout: Optional[float] = None) -> provider_pb2.Provider:
        return (await self._call(methods.GET_PROVIDER, provider_pb2.GetProviderRequest(id=id), timeout)).provider

    def list(self, *, timeout: Optional[float] = None) -> AsyncIterator[provider_pb2.Provider]:
        """All providers, in order of id."""
        return self._pages(methods.LIST_PROVIDERS, provider_pb2.ListProvidersRequest(), timeout, "providers")

    async def update(
        self,
        provider: provider_pb2.Provider,
        fields: Optional[Sequence[str]] = None,
        *,
        allow_missing: bool = False,
        timeout: Optional[float] = None,
    ) -> provider_pb2.Provider:
        """Changes fields of a provider, by default all that are set; with `allow_missing` it is registered if it is not there."""
        request = provider_pb2.UpdateProviderRequest(
            provider=provider, update_mask=None if fields is None else FieldMask(paths=fields), allow_missing=allow_missing
        )
        return (await self._call(methods.UPDATE_PROVIDER, request, timeout)).provider

    async def renew_lease(self, id: str, *, timeout: Optional[float] = None) -> datetime:
        """Begins a provider's lease anew; when it runs out now."""
        answer = await self._call(methods.RENEW_LEASE, provider_pb2.RenewLeaseRequest(id=id), timeout)
        return administering.moment(answer.expire_time)

    async def delete(self, id: str, *, etag: str = "", timeout: Optional[float] = None) -> None:
        await self._call(methods.DELETE_PROVIDER, provider_pb2.DeleteProviderRequest(id=id, etag=etag), timeout)

    async def check(
        self, id: Optional[str] = None, *, candidate: Optional[provider_pb2.Provider] = None, timeout: Optional[float] = None
    ) -> provider_pb2.CheckProviderResponse:
        """Probes a provider for real: one that is registered, or a candidate."""
        request = administering.check_request(id, candidate)
        return await self._call(methods.CHECK_PROVIDER, request, timeout)


class AsyncKeys(AsyncPart):
    """AccessService: API keys and their permissions."""

    async def create(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        limits: Optional[access_pb2.KeyLimits] = None,
        expires: Optional[datetime] = None,
        timeout: Optional[float] = None,
    ) -> results.NewKey:
        """Makes a key: `encode`, `transform`, `evaluate`, `admin`. Its text is in the answer and nowhere else."""
        request = access_pb2.CreateKeyRequest(key=administering.key(name, scopes, limits, expires))
        answer = await self._call(methods.CREATE_KEY, request, timeout)
        return results.NewKey(answer.key.id, answer.secret, answer.key)

    async def get(self, id: str, *, timeout: Optional[float] = None) -> access_pb2.ApiKey:
        """A key with what it has used, without its text."""
        return (await self._call(methods.GET_KEY, access_pb2.GetKeyRequest(id=id), timeout)).key

    def list(self, *, timeout: Optional[float] = None) -> AsyncIterator[access_pb2.ApiKey]:
        """Keys, revoked ones too, oldest first."""
        return self._pages(methods.LIST_KEYS, access_pb2.ListKeysRequest(), timeout, "keys")

    async def update(self, key: access_pb2.ApiKey, fields: Sequence[str], *, timeout: Optional[float] = None) -> access_pb2.ApiKey:
        """Changes `name`, `scopes`, `limits` or `expire_time` of the key with this id."""
        request = access_pb2.UpdateKeyRequest(key=key, update_mask=FieldMask(paths=fields))
        return (await self._call(methods.UPDATE_KEY, request, timeout)).key

    async def revoke(self, id: str, *, timeout: Optional[float] = None) -> access_pb2.ApiKey:
        """Ends a key for good."""
        return (await self._call(methods.REVOKE_KEY, access_pb2.RevokeKeyRequest(id=id), timeout)).key

    async def audit(self, *, after: int = 0, timeout: Optional[float] = None) -> AsyncIterator[access_pb2.AuditEvent]:
        """Lists the actions of administrators, oldest first."""
        while True:
            request = access_pb2.ListAuditEventsRequest(after=after)
            answer = await self._call(methods.LIST_AUDIT_EVENTS, request, timeout)
            for event in answer.events:
                yield event
                after = event.seq
            if not answer.events or after >= answer.head_seq:
                return
