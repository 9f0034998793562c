"""An application of Django, asked by its ASGI handler as a server asks it: a view that blocks runs in a thread of the
request's own. (That of `django.test.AsyncClient` runs all such views in one.)"""

import asyncio

import django
import django.conf
import django.core.handlers.asgi
import httpx
from support import LONG

django.conf.settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=(), SECRET_KEY="of no use", DEBUG_PROPAGATE_EXCEPTIONS=True)
django.setup()


async def get(*paths):
    """The replies to requests that are all made at once."""
    transport = httpx.ASGITransport(django.core.handlers.asgi.ASGIHandler())
    async with httpx.AsyncClient(transport=transport, base_url="http://app", timeout=LONG) as http:
        return await asyncio.gather(*map(http.get, paths))
