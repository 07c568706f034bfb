// Selectors, indexes and pages of the fake host.

import { ObjectKey } from "../key.js";
import { at } from "./patches.js";

/** A label selector does not parse. */
export class InvalidSelector extends Error {}

const KEY = "([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)";
const VALUE = "((?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?)";
const PRESENCE = new RegExp(`^(!?)\\s*${KEY}$`);
const EQUALITY = new RegExp(`^${KEY}\\s*(==|=|!=|>|<)\\s*${VALUE}$`);
const SET = new RegExp(`^${KEY}\\s+(in|notin)\\s*\\(([^()]*)\\)$`);

/** Compiles a label selector in kubectl's syntax to a function of an object. */
export function labelSelector(text) {
  const terms = text.trim() === "" ? [] : text.split(/,(?![^(]*\))/).map((term) => requirement(term.trim(), text));
  return (object) => terms.every((test) => test(object.metadata.labels ?? {}));
}

function requirement(term, selector) {
  let [found, key, operator, value] = PRESENCE.exec(term) ?? [];
  if (found !== undefined) return (labels) => Object.hasOwn(labels, operator) !== (key === "!");
  [found, key, operator, value] = SET.exec(term) ?? [];
  if (found !== undefined) {
    const values = value.split(",").map((one) => one.trim());
    return (labels) => values.includes(labels[key]) === (operator === "in");
  }
  [found, key, operator, value] = EQUALITY.exec(term) ?? [];
  if (found === undefined) throw new InvalidSelector(`label selector ${JSON.stringify(selector)} doesn't parse: ${term} is not a requirement`);
  switch (operator) {
    case ">":
      return (labels) => Number.parseInt(labels[key], 10) > Number.parseInt(value, 10);
    case "<":
      return (labels) => Number.parseInt(labels[key], 10) < Number.parseInt(value, 10);
    default:
      return (labels) => (labels[key] === value) === (operator !== "!=");
  }
}

/** Compiles a field selector to a function of an object. Unlike a server, it accepts every field. */
export function fieldSelector(text) {
  const terms = text.split(",").filter((term) => term.trim() !== "");
  const tests = terms.map((term) => {
    const [, path, operator, value] = /^\s*([^=!]+?)\s*(!=|==|=)\s*(.*?)\s*$/.exec(term);
    const pointer = `/${path.replaceAll(".", "/")}`;
    return (object) => (textOf(at(object, pointer)) === value) === (operator !== "!=");
  });
  return (object) => tests.every((test) => test(object));
}

function textOf(value) {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Orders keys by namespace, then name. */
export function compareKeys(one, other) {
  return compare(one.namespace, other.namespace) || compare(one.name, other.name);
}

function compare(one, other) {
  return one < other ? -1 : Number(one > other);
}

/** Returns a page of sorted objects after the cursor, and the next cursor. */
export function pageOf(objects, { limit, cursor }) {
  const slash = cursor.lastIndexOf("/");
  const last = new ObjectKey(cursor.slice(0, Math.max(slash, 0)), cursor.slice(slash + 1));
  const rest = cursor === "" ? objects : objects.filter((object) => compareKeys(ObjectKey.of(object), last) > 0);
  const items = rest.slice(0, limit);
  return { items, next: items.length < rest.length ? `${ObjectKey.of(items.at(-1))}` : "" };
}

/** Returns the values of a declared index that the host computes. */
export function indexValues({ label, annotation, owner, field }, object) {
  const { labels, annotations, ownerReferences } = object.metadata;
  if (owner) return (ownerReferences ?? []).map(({ uid }) => uid);
  if (field === undefined) return [label === undefined ? annotations?.[annotation] : labels?.[label]].filter((value) => value !== undefined);
  return jsonPath(object, field).filter((value) => value !== null && typeof value !== "object").map(textOf);
}

const STEP = /\.?\[(?:(\*)|(\d+)|'([^']*)'|"([^"]*)")\]|\.((?:\\.|[^.[\]{}'" \\])+)/y;

/** Returns the values at a JSONPath of members, positions and `[*]`, which are all that the host supports. */
function jsonPath(object, path) {
  const text = path.replace(/^\{|\}$/g, "").replace(/^\$/, "");
  let values = [object];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < text.length) {
    const from = STEP.lastIndex;
    const step = STEP.exec(text);
    if (step === null) throw new Error(`${path} is not a JSONPath that the host evaluates, at ${text.slice(from)}`);
    const [, every, position, single, double, name] = step;
    const member = single ?? double ?? name?.replace(/\\(.)/g, "$1");
    if (every !== undefined || name === "*") {
      values = values.flatMap((value) => (typeof value === "object" && value !== null ? Object.values(value) : []));
    } else if (position !== undefined) {
      values = values.filter((value) => Array.isArray(value) && Number(position) < value.length).map((value) => value[position]);
    } else {
      const isMember = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, member);
      values = values.filter(isMember).map((value) => value[member]);
    }
  }
  return values;
}
