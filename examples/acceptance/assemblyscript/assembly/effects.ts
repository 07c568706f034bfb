// Operations on queue, Events, metrics and log.

import {
  add, addAfter, counter, eventNormal, eventWarning, gauge, histogram, Key, Level, log, Pair,
} from "../../../sample-controller-assemblyscript/assembly/pilothouse";
import { Answer, Operation, Script, value } from "./script";

export function register(operations: Map<string, Operation>): void {
  operations.set("add", (script) => {
    add(script.a, new Key(script.b, script.c));
    return value("added");
  });
  operations.set("add-after", (script) => {
    addAfter(script.a, new Key(script.b, script.c), U32.parseInt(script.d));
    return value("added");
  });
  operations.set("event", event);
  operations.set("counter", (script) => {
    counter(script.a, labels(script), parseFloat(script.d));
    return value("recorded");
  });
  operations.set("gauge", (script) => {
    gauge(script.a, labels(script), parseFloat(script.d));
    return value("recorded");
  });
  operations.set("histogram", (script) => {
    histogram(script.a, labels(script), parseFloat(script.d));
    return value("recorded");
  });
  operations.set("log", (script) => {
    const level = <Level>["debug", "info", "warn", "error"].indexOf(script.a);
    log(level, script.b, [new Pair(script.c, script.d)]);
    return value("logged");
  });
}

function labels(script: Script): Pair[] {
  return [new Pair(script.b, script.c)];
}

function event(script: Script): Answer {
  if (script.a == "warning") eventWarning(script.object, script.b, script.c, script.d);
  else eventNormal(script.object, script.b, script.c, script.d);
  return value("published");
}
