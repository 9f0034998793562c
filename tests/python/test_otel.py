"""`quorlock.otel`, with OpenTelemetry itself: its SDK, in memory."""

import asyncio
import gc
import subprocess
import sys
import unittest

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import quorlock
import quorlock.aio
from quorlock import otel
from quorlock import redlock, testing
from support import eventually


class OpenTelemetry(unittest.TestCase):
    def setUp(self):
        self.spans, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers, meters = TracerProvider(), MeterProvider([self.reader])
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.addCleanup(meters.shutdown)
        self.tracer = tracers.get_tracer("test")
        otel.instrument(tracers, meters)
        self.addCleanup(otel.uninstrument)
        self.nodes = testing.nodes()
        self.client = quorlock.Client(self.nodes)
        self.addCleanup(self.client.close)

    def measured(self, name):
        """Of a metric its points: attributes in one text, and the count or the value."""
        data = self.reader.get_metrics_data()
        found = {}
        for metric in (metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics):
            if metric.name == name:
                for point in metric.data.data_points:
                    key = " ".join(value for _, value in sorted(point.attributes.items()))
                    found[key] = getattr(point, "count", None) or getattr(point, "value", 0)
        return found

    def outcomes(self):
        return [(span.name, span.attributes["quorlock.outcome"]) for span in self.spans.get_finished_spans()]

    def test_a_hold_is_a_span_and_three_metrics(self):
        lock = self.client.lock("orders:42", group="orders")
        with lock as lease:
            self.assertEqual(self.measured("quorlock.locks.held"), {"orders": 1})
        [span] = self.spans.get_finished_spans()
        self.assertEqual((span.name, dict(span.attributes)), ("acquire orders", {
            "quorlock.lock.name": "orders:42", "quorlock.group": "orders", "quorlock.fence": lease.fence, "quorlock.outcome": "won"}))
        self.assertEqual(self.measured("quorlock.acquire.duration"), {"orders won": 1})
        self.assertEqual(self.measured("quorlock.hold.duration"), {"orders released": 1})
        self.assertEqual(self.measured("quorlock.locks.held"), {"orders": 0})

    def test_what_does_not_win(self):
        with testing.held("a", nodes=self.nodes):
            self.assertIsNone(self.client.lock("a").try_acquire())
            self.assertRaises(quorlock.LockContendedError, self.client.lock("a", wait=0).acquire)
            self.assertRaises(quorlock.LockTimeoutError, self.client.lock("a", wait=0.01).acquire)
        # The first is of the one who holds it.
        self.assertEqual([outcome for _, outcome in self.outcomes()][1:], ["contended", "contended", "timeout"])
        errors = [span.attributes.get("error.type") for span in self.spans.get_finished_spans()][1:]
        self.assertEqual(errors, [None, "LockContendedError", "LockTimeoutError"])

    def test_entering_again_is_no_second_hold(self):
        lock = self.client.lock("again")
        with lock:
            with lock:
                pass
            self.assertEqual(self.measured("quorlock.locks.held"), {"": 1})
        self.assertEqual(self.measured("quorlock.hold.duration"), {"released": 1})
        self.assertEqual(self.measured("quorlock.acquire.duration"), {"won": 1})
        self.assertEqual([outcome for _, outcome in self.outcomes()], ["won", "reentered"])

    def test_a_loss_is_an_event_of_the_holders_span(self):
        with self.tracer.start_as_current_span("work"):
            lease = self.client.lock("lost").acquire()
            testing.lose("lost", "refused")
            self.assertTrue(eventually(lambda: self.measured("quorlock.hold.duration") == {"lost": 1}))
        [work] = [span for span in self.spans.get_finished_spans() if span.name == "work"]
        [event] = work.events
        self.assertEqual((event.name, dict(event.attributes)),
                         ("quorlock.lost", {"quorlock.lock.name": "lost", "quorlock.reason": "refused"}))
        lease.release()
        self.assertEqual(self.measured("quorlock.locks.held"), {"": 0})
        self.assertEqual(self.measured("quorlock.hold.duration"), {"lost": 1})

    def test_several_are_one_acquire_and_a_hold_each(self):
        with redlock(["a", "b"], client=self.client):
            self.assertEqual(self.measured("quorlock.locks.held"), {"": 2})
        self.assertEqual(self.measured("quorlock.acquire.duration"), {"won": 1})
        self.assertEqual(self.measured("quorlock.hold.duration"), {"released": 2})
        self.assertEqual(self.spans.get_finished_spans()[0].attributes["quorlock.lock.name"], ("a", "b"))

    def test_one_that_is_forgotten_is_over_when_it_is_collected(self):
        with self.assertWarns(ResourceWarning):
            lease = self.client.lock("forgotten").acquire()
            self.client.lock("forgotten")
            del lease
            gc.collect()
            self.assertTrue(eventually(lambda: gc.collect() is not None and self.measured("quorlock.locks.held") == {"": 0}))

    def test_in_asyncio(self):
        async def body():
            client = quorlock.aio.Client(self.nodes)
            async with client.lock("a"), client.lock_all(["b", "c"]):
                self.assertEqual(self.measured("quorlock.locks.held"), {"": 3})
                waits = asyncio.ensure_future(client.lock("a", reentrant=False).acquire())
                await asyncio.sleep(0)
                waits.cancel()
                await asyncio.wait([waits])
            await client.close()

        asyncio.run(body())
        self.assertEqual(self.measured("quorlock.locks.held"), {"": 0})
        self.assertEqual([outcome for _, outcome in self.outcomes()], ["won", "won", "cancelled"])
        self.assertEqual(self.measured("quorlock.hold.duration"), {"released": 3})

    def test_uninstrumented_it_is_as_it_was(self):
        patched = quorlock.Lock._acquired
        otel.instrument()
        self.assertIs(quorlock.Lock._acquired, patched)
        otel.uninstrument()
        self.assertIsNot(quorlock.Lock._acquired, patched)
        with self.client.lock("quiet"):
            pass
        self.assertEqual(self.outcomes(), [])

    def test_the_package_does_not_need_it(self):
        script = "import sys, quorlock; assert not any(name.startswith('opentelemetry') for name in sys.modules)"
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
