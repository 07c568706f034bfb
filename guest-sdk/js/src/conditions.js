// Status conditions, with the semantics of `k8s.io/apimachinery/pkg/api/meta`.

/**
 * Adds or updates a condition, and returns whether the list changed; if not, the status need not be written. `lastTransitionTime` becomes
 * `now` only when the condition's status changes. A boolean status is converted to `True` or `False`.
 */
export function set(conditions, condition, now = new Date()) {
  const status = typeof condition.status === "boolean" ? (condition.status ? "True" : "False") : condition.status;
  const present = conditions.find(({ type }) => type === condition.type);
  const time = now.toISOString().replace(/\.\d+Z$/, "Z");
  const lastTransitionTime = present?.status === status ? present.lastTransitionTime : time;
  const wanted = { message: "", ...condition, status, lastTransitionTime };
  if (present === undefined) {
    conditions.push(wanted);
    return true;
  }
  const members = new Set([...Object.keys(present), ...Object.keys(wanted)]);
  const changed = [...members].some((member) => present[member] !== wanted[member]);
  conditions[conditions.indexOf(present)] = wanted;
  return changed;
}

/** Returns the condition of this type, or undefined. */
export function find(conditions, type) {
  return conditions.find((condition) => condition.type === type);
}

/** Returns whether the condition exists and is `True`. */
export function isTrue(conditions, type) {
  return find(conditions, type)?.status === "True";
}

/** Removes a condition, and returns whether it existed. */
export function remove(conditions, type) {
  const position = conditions.findIndex((condition) => condition.type === type);
  if (position >= 0) conditions.splice(position, 1);
  return position >= 0;
}
