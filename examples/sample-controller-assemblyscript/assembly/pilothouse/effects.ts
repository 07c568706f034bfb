// Queue, Events, log, metrics and configuration.

import { RESULT, Text, textAt } from "./abi";
import { KubeObject } from "./object";
import { Key, Pair, storePairs } from "./types";

@external("pilothouse", "queue_add")
declare function hostAdd(watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize): void;
@external("pilothouse", "queue_add_after")
declare function hostAddAfter(watch: usize, watchLength: usize, namespace: usize, namespaceLength: usize, name: usize, nameLength: usize, milliseconds: u32): void;
@external("pilothouse", "events_publish")
declare function hostPublish(regarding: i32, type: i32, reason: usize, reasonLength: usize, action: usize, actionLength: usize, note: usize, noteLength: usize): void;
@external("pilothouse", "log_log")
declare function hostLog(level: i32, message: usize, messageLength: usize, fields: usize, fieldCount: usize): void;
@external("pilothouse", "metrics_counter")
declare function hostCounter(name: usize, nameLength: usize, labels: usize, labelCount: usize, value: f64): void;
@external("pilothouse", "metrics_gauge")
declare function hostGauge(name: usize, nameLength: usize, labels: usize, labelCount: usize, value: f64): void;
@external("pilothouse", "metrics_histogram")
declare function hostHistogram(name: usize, nameLength: usize, labels: usize, labelCount: usize, value: f64): void;
@external("pilothouse", "config_get")
declare function hostConfig(result: usize): void;

/** Queues an object of a target watch. */
export function add(watch: string, key: Key): void {
  const target = new Text(watch), namespace = new Text(key.namespace), name = new Text(key.name);
  hostAdd(target.pointer, target.length, namespace.pointer, namespace.length, name.pointer, name.length);
}

export function addAfter(watch: string, key: Key, milliseconds: u32): void {
  const target = new Text(watch), namespace = new Text(key.namespace), name = new Text(key.name);
  hostAddAfter(target.pointer, target.length, namespace.pointer, namespace.length, name.pointer, name.length, milliseconds);
}

function publish(type: i32, regarding: KubeObject, reason: string, action: string, note: string): void {
  const why = new Text(reason), what = new Text(action), text = new Text(note);
  hostPublish(regarding.handle, type, why.pointer, why.length, what.pointer, what.length, text.pointer, text.length);
}

/** Records a Kubernetes Event. `reason` and `action` are UpperCamelCase identifiers. */
export function eventNormal(regarding: KubeObject, reason: string, action: string, note: string): void {
  publish(0, regarding, reason, action, note);
}

export function eventWarning(regarding: KubeObject, reason: string, action: string, note: string): void {
  publish(1, regarding, reason, action, note);
}

export enum Level {
  Debug,
  Info,
  Warn,
  Error,
}

/** Writes to the plugin's log. */
export function log(level: Level, message: string, fields: Pair[] = []): void {
  const text = new Text(message);
  hostLog(level, text.pointer, text.length, storePairs(fields), fields.length);
}

export function counter(name: string, labels: Pair[], add: f64): void {
  const text = new Text(name);
  hostCounter(text.pointer, text.length, storePairs(labels), labels.length, add);
}

export function gauge(name: string, labels: Pair[], value: f64): void {
  const text = new Text(name);
  hostGauge(text.pointer, text.length, storePairs(labels), labels.length, value);
}

export function histogram(name: string, labels: Pair[], value: f64): void {
  const text = new Text(name);
  hostHistogram(text.pointer, text.length, storePairs(labels), labels.length, value);
}

/** Returns the sidecar's `config` as JSON. */
export function config(): string {
  hostConfig(RESULT);
  return textAt(RESULT);
}

/** Logs a failed assertion, an exception or an index out of bounds, and traps. The compiler calls it in place of its `abort`. */
export function panic(message: string | null, file: string | null, line: u32, column: u32): void {
  const text = message != null ? message : "abort";
  const place = file != null ? file : "";
  log(Level.Error, `${text} at ${place}:${line}:${column}`);
  unreachable();
}
