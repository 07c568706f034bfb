// Operations that send requests to the API server.

import { Key, Kind, PatchType, Propagation, quote, Response } from "../../../sample-controller-assemblyscript/assembly/pilothouse";
import * as client from "../../../sample-controller-assemblyscript/assembly/pilothouse/client";
import { Answer, errorValue, keysOf, Operation, orNone, Script, value } from "./script";

export function register(operations: Map<string, Operation>): void {
  operations.set("client-get", get);
  operations.set("client-list", list);
  operations.set("create", (script) => nameOrError(client.create(script.body, script.a)));
  operations.set("update", (script) => nameOrError(client.update(script.body, script.a)));
  operations.set("patch", patch);
  operations.set("delete", remove);
  operations.set("denied", denied);
}

function kindOf(script: Script): Kind {
  return new Kind(script.a, script.b);
}

function keyOf(script: Script): Key {
  return new Key(script.c, script.d);
}

function nameOrError(response: Response): Answer {
  const error = response.error;
  return error != null ? errorValue(error) : value(response.object!.key.name);
}

function get(script: Script): Answer {
  const response = client.get(kindOf(script), keyOf(script), script.e);
  const error = response.error;
  return error != null ? errorValue(error) : value(orNone(response.object!.text(script.f), "absent"));
}

function list(script: Script): Answer {
  const pages: string[] = [];
  let cursor = "";
  do {
    const response = client.list(kindOf(script), script.c, script.d, script.e, U32.parseInt(script.f), cursor);
    const error = response.error;
    if (error != null) return errorValue(error);
    const page = response.page!;
    pages.push(keysOf(page.items));
    cursor = page.next;
  } while (cursor.length);
  return value(pages.join(" | "));
}

function patch(script: Script): Answer {
  const types = ["json", "merge", "strategic", "apply", "apply-force"];
  const type = <PatchType>types.indexOf(script.e);
  return nameOrError(client.patch(kindOf(script), keyOf(script), type, script.body, script.f));
}

function remove(script: Script): Answer {
  const propagation = script.e == "foreground" ? Propagation.Foreground : script.e == "orphan" ? Propagation.Orphan : Propagation.Background;
  const error = client.remove(kindOf(script), keyOf(script), propagation, script.f, script.g).error;
  return error != null ? errorValue(error) : value("deleted");
}

function denied(script: Script): Answer {
  const namespace = quote(script.request.key.namespace);
  return nameOrError(client.create(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"denied","namespace":${namespace}}}`));
}
