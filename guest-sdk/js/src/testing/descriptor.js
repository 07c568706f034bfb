// Checks the members of a descriptor, as the host does when it loads the plugin. `docs/plugin.schema.json` is the schema.

const DESCRIPTOR = ["apiVersion", "crds", "http", "kind", "limits", "name", "stateful", "summary", "version", "watches", "writes"];
const WATCH = [
  "apiVersion",
  "fieldSelector",
  "indexes",
  "kind",
  "labelSelector",
  "name",
  "namespaces",
  "notify",
  "predicate",
  "projection",
  "resource",
  "resync",
  "trigger",
];
const INDEX = ["annotation", "computed", "field", "label", "name", "owner"];
const RULE = ["apiGroups", "namespaces", "resources", "verbs"];
const LIMITS = ["handles", "indexTimeout", "memory", "messageSize", "observeTimeout", "reconcileTimeout", "tableElements"];

/** The members by definition of the schema; "" is the descriptor itself. */
export const MEMBERS = { "": DESCRIPTOR, Watch: WATCH, Index: INDEX, Rule: RULE, Limits: LIMITS };

/** Throws a `TypeError` that names the first member, and the watch that has it, which the host would refuse. */
export function checkDescriptor(descriptor) {
  checkMembers("the descriptor", descriptor, DESCRIPTOR);
  for (const [position, watch] of list("watches", descriptor.watches)) {
    const place = `${named("watches", position, watch)} of the descriptor`;
    checkMembers(place, watch, WATCH);
    for (const required of ["name", "apiVersion", "kind"]) {
      if (typeof watch[required] !== "string") throw new TypeError(`${place}: ${required} must be a string, not ${JSON.stringify(watch[required])}`);
    }
    for (const [at, index] of list(`indexes of ${place}`, watch.indexes)) {
      checkMembers(`${named("indexes", at, index)} of ${place}`, index, INDEX);
    }
  }
  for (const [position, rule] of list("writes", descriptor.writes)) checkMembers(`writes[${position}] of the descriptor`, rule, RULE);
  if (descriptor.limits !== undefined) checkMembers("limits of the descriptor", descriptor.limits, LIMITS);
}

function list(name, value = []) {
  if (!Array.isArray(value)) throw new TypeError(`${name} must be an array, not ${JSON.stringify(value)}`);
  return value.entries();
}

function named(member, position, { name } = {}) {
  return typeof name === "string" ? `${member}[${position}] ${JSON.stringify(name)}` : `${member}[${position}]`;
}

function checkMembers(place, value, known) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError(`${place} must be an object, not ${JSON.stringify(value)}`);
  }
  const unknown = Object.keys(value).find((member) => !known.includes(member));
  if (unknown !== undefined) throw new TypeError(`${place}: unknown field ${unknown}; the fields are ${known.join(", ")}`);
}
