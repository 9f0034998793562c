"""Charges an order once, however many workers serve and however often a client asks: POST /orders/7/charge"""

import asyncio
import logging
import os
import sqlite3

import quorlock
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse
from quorlock import redlock

log = logging.getLogger("uvicorn.error")
database = sqlite3.connect(os.environ.get("DATABASE", "orders.db"))
database.executescript("""
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, charged BOOLEAN NOT NULL DEFAULT FALSE, fence BIGINT NOT NULL DEFAULT 0);
    INSERT OR IGNORE INTO orders (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9);
""")
app = FastAPI()


# The text of an error names servers, so it is for the log, and clients are told their part of it.
@app.exception_handler(quorlock.LockBusyError)
async def busy(request, error):
    return JSONResponse({"detail": "another request has the order"}, status_code=409)


# A charge that has lost its lock may be asked for again, too: the payment provider knows the order.
@app.exception_handler(quorlock.QuorumUnavailableError)
@app.exception_handler(quorlock.LockLostError)
async def unavailable(request, error):
    log.error("%s", error)
    return JSONResponse({"detail": "try again later"}, status_code=503)


@app.post("/orders/{order}/charge")
async def charge(order: int):
    # The wait is shorter than clients wait for an answer. A client that hangs up ends neither the wait nor the charge, and its next
    # request finds what this one has written. `redlock` makes one client for each worker, when it is first used there.
    async with redlock(f"order:{order}", wait=1) as lease:
        found = database.execute("SELECT charged, fence FROM orders WHERE id = ?", (order,)).fetchone()
        if found is None:
            raise HTTPException(404)
        charged, fence = found
        if not charged:
            fence = lease.fence
            await pay(order, fence)
            with database:
                written = database.execute(
                    "UPDATE orders SET charged = TRUE, fence = :fence WHERE id = :order AND fence <= :fence", {"order": order, "fence": fence})
            if not written.rowcount:
                raise HTTPException(409, "another request has the order")
        return {"order": order, "fence": fence}


async def pay(order, fence):
    """In place of the payment provider, which gets the order as its idempotency key."""
    log.info("charging order %s, fence %s", order, fence)
    await asyncio.sleep(0.3)
