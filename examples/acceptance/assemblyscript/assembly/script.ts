// A script: a ConfigMap with an operation and its arguments.

import { ApiError, ErrorCode, Key, KubeObject, Level, log, Outcome, Pair, Request } from "../../../sample-controller-assemblyscript/assembly/pilothouse";

export class Script {
  readonly op: string;
  /** `data.a` … `data.g` and `data.body`, "" when missing. */
  readonly a: string;
  readonly b: string;
  readonly c: string;
  readonly d: string;
  readonly e: string;
  readonly f: string;
  readonly g: string;
  readonly body: string;

  constructor(
    readonly request: Request,
    readonly object: KubeObject,
  ) {
    this.op = argument(object, "op");
    this.a = argument(object, "a");
    this.b = argument(object, "b");
    this.c = argument(object, "c");
    this.d = argument(object, "d");
    this.e = argument(object, "e");
    this.f = argument(object, "f");
    this.g = argument(object, "g");
    this.body = argument(object, "body");
  }
}

function argument(object: KubeObject, name: string): string {
  return orNone(object.text("/data/" + name), "");
}

export function orNone(text: string | null, none: string): string {
  return text == null ? none : text;
}

/** The result of an operation: a value that is logged, or an outcome without a value. */
export class Answer {
  constructor(
    readonly value: string | null,
    readonly outcome: Outcome,
  ) {}
}

export type Operation = (script: Script) => Answer;

export function value(text: string): Answer {
  return new Answer(text, Outcome.done());
}

export function silent(outcome: Outcome): Answer {
  return new Answer(null, outcome);
}

export function logResult(op: string, text: string): void {
  log(Level.Info, "result", [new Pair("op", op), new Pair("value", text)]);
}

/** Returns the error in the form that the suite expects. */
export function errorValue(error: ApiError): Answer {
  const names = ["not-found", "already-exists", "conflict", "invalid:", "forbidden", "denied:", "too-many-requests:", "unavailable", "other:"];
  let detail = "";
  if (error.code == ErrorCode.Invalid) detail = error.field;
  else if (error.code == ErrorCode.Denied) detail = error.verb + " " + error.resource;
  else if (error.code == ErrorCode.TooManyRequests) detail = error.retryAfter.toString();
  else if (error.code == ErrorCode.Other) detail = error.status.toString();
  return value(names[error.code] + detail);
}

export function joinKeys(keys: Key[]): string {
  return keys.map<string>((key) => key.toString()).join(" ");
}

export function keysOf(objects: KubeObject[]): string {
  return joinKeys(objects.map<Key>((object) => object.key));
}
