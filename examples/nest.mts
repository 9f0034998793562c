// Charges an order once, however many processes serve and however often a client asks: POST /orders/7/charge

import "reflect-metadata";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { type ArgumentsHost, type BeforeApplicationShutdown, Catch, ConflictException, Controller, type ExceptionFilter, HttpCode, Injectable,
  Module, Param, ParseIntPipe, Post, Res } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { type Lease, LockBusyError, LockLostError, QuorumUnavailableError, redlock } from "quorlock";

@Injectable()
class Orders implements BeforeApplicationShutdown {
  private readonly charged = new Map<number, number>(); // in place of a database: the fence of the hold that charged an order
  private readonly atWork = new Set<Promise<unknown>>();

  charge(order: number, signal: AbortSignal): Promise<number> {
    // The wait is shorter than clients wait for an answer, and ends by the signal. What has begun goes on: a payment that stops half way
    // would be made, and not written down.
    const work = redlock(`order:${order}`, { wait: 1_000, signal }, (lease) => this.pay(order, lease));
    this.atWork.add(work);
    return work.finally(() => this.atWork.delete(work));
  }

  private async pay(order: number, lease: Lease): Promise<number> {
    const before = this.charged.get(order);
    if (before !== undefined) return before;
    const fence = lease.fence!;
    console.log(`charging order ${order}, fence ${fence}`);
    // The payment provider, with the order as its idempotency key. It is given up when the lock is lost.
    await sleep(300, undefined, { signal: lease.signal });
    // UPDATE orders SET fence = $2 WHERE id = $1 AND fence <= $2
    if ((this.charged.get(order) ?? 0) > fence) throw new ConflictException("another request has the order");
    this.charged.set(order, fence);
    return fence;
  }

  // Nest ends the process by the signal: first the charges have to be over, also of clients that have hung up.
  async beforeApplicationShutdown(): Promise<void> {
    await Promise.allSettled(this.atWork);
  }
}

@Controller("orders")
class Charges {
  constructor(private readonly orders: Orders) {}

  @Post(":order/charge")
  @HttpCode(200)
  async charge(@Param("order", ParseIntPipe) order: number, @Res({ passthrough: true }) response: ServerResponse) {
    const gone = new AbortController();
    response.on("close", () => response.writableFinished || gone.abort());
    return { order, fence: await this.orders.charge(order, gone.signal) };
  }
}

// The text of an error names servers, so it is for the log, and clients are told their part of it.
@Catch(LockBusyError, LockLostError, QuorumUnavailableError)
class LockErrors implements ExceptionFilter {
  catch(error: Error, host: ArgumentsHost) {
    const busy = error instanceof LockBusyError;
    // A charge that has lost its lock may be asked for again, too: the payment provider knows the order.
    if (!busy) console.error(error.message);
    host.switchToHttp().getResponse().status(busy ? 409 : 503).json({ detail: busy ? "another request has the order" : "try again later" });
  }
}

@Module({ controllers: [Charges], providers: [Orders] })
class Shop {}

const app = await NestFactory.create(Shop, { logger: ["error"] });
app.useGlobalFilters(new LockErrors());
app.enableShutdownHooks();
await app.listen(process.env.PORT ?? 3000, "127.0.0.1");
console.log(await app.getUrl());
