"""Charges an order once, however often its task is sent: charge.delay(7)"""

import os
import sqlite3
import time

import quorlock
from celery import Celery
from celery.utils.log import get_task_logger
from quorlock import redlock

log = get_task_logger(__name__)
broker = os.environ.get("BROKER", "redis://127.0.0.1:6379")
app = Celery("celery_tasks", broker=broker, backend=broker)
# The task of a worker that dies is given to another.
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1)


def database():
    return sqlite3.connect(os.environ.get("DATABASE", "orders.db"))


with database() as made:
    made.executescript("""
        CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, charged BOOLEAN NOT NULL DEFAULT FALSE, fence BIGINT NOT NULL DEFAULT 0);
        INSERT OR IGNORE INTO orders (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9);
    """)


# A task whose order is busy gives its worker back, and comes again a second later.
@app.task(autoretry_for=(quorlock.LockBusyError, quorlock.LockLostError, quorlock.QuorumUnavailableError), default_retry_delay=1, max_retries=600)
def charge(order):
    # Each process of the pool makes a client of its own, when it uses `redlock` first.
    with redlock(f"order:{order}", wait=0) as lease, database() as orders:
        charged, fence = orders.execute("SELECT charged, fence FROM orders WHERE id = ?", (order,)).fetchone()
        if not charged:
            fence = lease.fence
            pay(order, fence)
            written = orders.execute(
                "UPDATE orders SET charged = TRUE, fence = :fence WHERE id = :order AND fence <= :fence", {"order": order, "fence": fence})
            if not written.rowcount:
                raise RuntimeError(f"order {order} was charged by a later task")
    return fence


def pay(order, fence):
    """In place of the payment provider, which gets the order as its idempotency key."""
    log.warning("charging order %s, fence %s", order, fence)
    time.sleep(0.3)
