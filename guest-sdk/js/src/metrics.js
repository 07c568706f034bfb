// The plugin's own metrics, which the host serves with the label `plugin`.
//
// Use labels with few values: a label per object makes a series per object.

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

/** Records one observation in a histogram; use seconds for durations. */
export function histogram(name, labels, value) {
  wit.histogram(name, pairs(labels), witNumber(value));
}

function pairs(labels) {
  return Object.entries(labels).map(([key, value]) => ({ key, value: String(value) }));
}
