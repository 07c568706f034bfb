// The plugin's own metrics, served by the host with the plugin's name as a label.
//
// Labels must have few values: a label per object makes a series per object.

import { metrics as wit } from "#host";
import { witNumber } from "./number.js";

/** Adds to a counter. */
export function counter(name, labels = {}, add = 1) {
  wit.counter(name, pairs(labels), witNumber(add));
}

/** Sets a gauge. */
export function gauge(name, labels, value) {
  wit.gauge(name, pairs(labels), witNumber(value));
}

/** Observes a value in a histogram; durations in seconds. */
export function histogram(name, labels, value) {
  wit.histogram(name, pairs(labels), witNumber(value));
}

function pairs(labels) {
  return Object.entries(labels).map(([key, value]) => ({ key, value: String(value) }));
}
