"""What is measured in this process."""

from . import _native


def metrics_text() -> str:
    """What all clients of this process have measured, as the text that Prometheus reads.

    Serve it as `text/plain; version=0.0.4`:

        from http.server import BaseHTTPRequestHandler, HTTPServer

        class Metrics(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(quorlock.metrics_text().encode())

    What a client has counted stays in it when the client is closed and gone. In a forked child it begins anew: with
    workers in processes of their own, each of them has its text. `docs/operations/metrics.md` explains every name in it.
    """
    return _native.metrics_text()
