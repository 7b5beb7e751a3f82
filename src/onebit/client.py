"""The client of the service: `Client`, and `AsyncClient` for asyncio."""

from onebit.service.client import AsyncClient, Client
from onebit.service.faults import ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
