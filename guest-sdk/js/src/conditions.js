// Conditions in a status, as `k8s.io/apimachinery/pkg/api/meta` treats them.

/**
 * Adds a condition to the list or brings it up to date, and says whether that changed anything (if not, there is nothing to write).
 * `lastTransitionTime` becomes `now` only when the status flips. A status of true or false is written as Kubernetes does.
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

/** The condition of this type; undefined when there is none. */
export function find(conditions, type) {
  return conditions.find((condition) => condition.type === type);
}

/** Whether the condition is there and `True`. */
export function isTrue(conditions, type) {
  return find(conditions, type)?.status === "True";
}

/** Removes a condition, and says whether it was there. */
export function remove(conditions, type) {
  const position = conditions.findIndex((condition) => condition.type === type);
  if (position >= 0) conditions.splice(position, 1);
  return position >= 0;
}
