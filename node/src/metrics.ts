/** What is measured in this process. */

import { native } from "./binding.js";
import { checked } from "./errors.js";

/**
 * What all clients of this process have measured, as the text that Prometheus reads.
 *
 *     createServer((_request, response) => {
 *       response.setHeader("Content-Type", "text/plain; version=0.0.4").end(metricsText());
 *     }).listen(9464);
 *
 * What a client has counted stays in it when the client is closed and gone. Workers of one process are measured together.
 * `docs/operations/metrics.md` explains every name in it.
 */
export function metricsText(): string {
  return checked(native.metricsText(), metricsText);
}
