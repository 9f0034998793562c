"""Charges an order once, however many workers serve and however often a client asks: POST /orders/7/charge"""

import logging
import os
import time

import django
import quorlock
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import Http404, JsonResponse
from quorlock import redlock

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1", "localhost"], MIDDLEWARE=[f"{__name__}.LockErrors"],
                   DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", "orders.db")}})
django.setup()

from django.db import connection, models  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.http import require_POST  # noqa: E402

log = logging.getLogger("django.server")


class Order(models.Model):
    charged = models.BooleanField(default=False)
    fence = models.BigIntegerField(default=0)

    class Meta:
        app_label = "shop"


# The workers of all hosts start at once, and one of them makes the table. With `--preload` this is before the workers are forked:
# `redlock` then makes another client in each of them.
with redlock("orders:migrate"):
    if Order._meta.db_table not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Order)
        Order.objects.bulk_create(Order(id=number) for number in range(1, 10))
connection.close()


class LockErrors:
    """Turns errors into answers. Their text names servers, so it is for the log, and clients are told their part of it."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_exception(self, request, error):
        if isinstance(error, quorlock.LockBusyError):
            return JsonResponse({"detail": "another request has the order"}, status=409)
        # A charge that has lost its lock may be asked for again, too: the payment provider knows the order.
        if isinstance(error, (quorlock.QuorumUnavailableError, quorlock.LockLostError)):
            log.error("%s", error)
            return JsonResponse({"detail": "try again later"}, status=503)
        return None


@require_POST
def charge(request, order):
    # The wait is shorter than clients wait for an answer, and takes a worker for so long. A client that hangs up ends neither the wait
    # nor the charge, and its next request finds what this one has written.
    with redlock(f"order:{order}", wait=1) as lease:
        found = Order.objects.filter(pk=order).first()
        if found is None:
            raise Http404
        if not found.charged:
            pay(order, lease.fence)
            # A statement of its own, committed while the lock is held.
            if not Order.objects.filter(pk=order, fence__lte=lease.fence).update(charged=True, fence=lease.fence):
                return JsonResponse({"detail": "another request has the order"}, status=409)
            found.fence = lease.fence
        return JsonResponse({"order": order, "fence": found.fence})


def pay(order, fence):
    """In place of the payment provider, which gets the order as its idempotency key."""
    log.info("charging order %s, fence %s", order, fence)
    time.sleep(0.3)


urlpatterns = [path("orders/<int:order>/charge", charge)]
application = get_wsgi_application()
