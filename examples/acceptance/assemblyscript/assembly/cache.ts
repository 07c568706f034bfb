// Operations that read the cache.

import { Filter, Key, Kind, KubeObject, PatchType, quote, Watch } from "../../../sample-controller-assemblyscript/assembly/pilothouse";
import { patch } from "../../../sample-controller-assemblyscript/assembly/pilothouse/client";
import { Answer, errorValue, joinKeys, keysOf, Operation, orNone, Script, value } from "./script";

export function register(operations: Map<string, Operation>): void {
  operations.set("get", get);
  operations.set("json-length", jsonLength);
  operations.set("object", object);
  operations.set("list", list);
  operations.set("list-fields", listFields);
  operations.set("by-index", byIndex);
  operations.set("index-keys", indexKeys);
  operations.set("index-values", indexValues);
  operations.set("has-synced", hasSynced);
  operations.set("own-write", ownWrite);
}

function find(script: Script): KubeObject | null {
  return new Watch(script.a).get(new Key(script.b, script.c));
}

function get(script: Script): Answer {
  const found = find(script);
  return value(found == null ? "none" : orNone(found.text(script.d), "absent"));
}

function jsonLength(script: Script): Answer {
  const found = find(script);
  return value(found == null ? "none" : String.UTF8.byteLength(found.json()).toString());
}

function set(text: string | null, unset: string): string {
  return text == null || text.length == 0 ? unset : "set";
}

function join(values: Array<string | null>): string {
  return values.map<string>((text) => orNone(text, "-")).join(",");
}

function object(script: Script): Answer {
  const found = find(script);
  if (found == null) return value("none");
  const controller = found.controller;
  const several = ["/data/value", "/data/nothing", "/kind"];
  return value([
    `key=${found.key.toString()}`,
    `api-version=${found.apiVersion}`,
    `kind=${found.kind}`,
    `uid=${set(found.uid, "")}`,
    `resource-version=${set(found.resourceVersion, "")}`,
    `generation=${found.generation.toString()}`,
    `labels=${found.labels.map<string>((label) => label.key + "=" + label.value).join(",")}`,
    `label=${orNone(found.label("tier"), "-")}`,
    `annotation=${orNone(found.annotation("note"), "-")}`,
    `deletion-timestamp=${set(found.deletionTimestamp, "-")}`,
    `controller=${controller == null ? "-" : controller.kind + "/" + controller.name}`,
    `field=${orNone(found.field("/data/value"), "-")}`,
    `text=${orNone(found.text("/data/value"), "-")}`,
    `fields=${join(found.fields(several))}`,
    `texts=${join(found.texts(several))}`,
  ].join("\n"));
}

function list(script: Script): Answer {
  const filter = new Filter();
  filter.namespace = script.b;
  filter.labelSelector = script.c;
  filter.limit = U32.parseInt(script.d);
  const pages: string[] = [];
  do {
    const page = new Watch(script.a).list(filter);
    pages.push(keysOf(page.items));
    filter.cursor = page.next;
  } while (filter.cursor.length);
  return value(pages.join(" | "));
}

function listFields(script: Script): Answer {
  const filter = new Filter();
  filter.namespace = script.b;
  filter.labelSelector = script.c;
  const rows = new Watch(script.a).listFields(filter, [script.d]);
  return value(rows.map<string>((row) => row.key.toString() + "=" + orNone(row.values[0], "-")).join(" "));
}

function byIndex(script: Script): Answer {
  return value(keysOf(new Watch(script.a).byIndex(script.b, script.c)));
}

function indexKeys(script: Script): Answer {
  return value(joinKeys(new Watch(script.a).indexKeys(script.b, script.c)));
}

function indexValues(script: Script): Answer {
  return value(new Watch(script.a).indexValues(script.b).join(" "));
}

function hasSynced(script: Script): Answer {
  return value(new Watch(script.a).hasSynced() ? "true" : "false");
}

function ownWrite(script: Script): Answer {
  const key = new Key(script.request.key.namespace, script.a);
  const written = patch(new Kind("v1", "ConfigMap"), key, PatchType.Merge, `{"data":{"value":${quote(script.b)}}}`);
  const error = written.error;
  if (error != null) return errorValue(error);
  const item = new Watch("items").get(key);
  return value(item == null ? "none" : orNone(item.text("/data/value"), "absent"));
}
