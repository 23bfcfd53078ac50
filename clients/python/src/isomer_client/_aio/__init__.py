"""The client's methods, written for asyncio; clients/python/generate makes the blocking ones of them."""
