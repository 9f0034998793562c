/**
 * The channels of `node:diagnostics_channel`, where tracers and monitors that a program loads listen. A message is made only where
 * they do.
 */

import { channel, tracingChannel } from "node:diagnostics_channel";

export const acquire = tracingChannel<object, object>("quorlock:acquire");
export const lost = channel("quorlock:lost");
export const released = channel("quorlock:released");
export const logged = channel("quorlock:log");
