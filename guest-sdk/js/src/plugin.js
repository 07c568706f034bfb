// The definition of a plugin: an object with `describe`, and one or more of `reconcile`, `observe` and `indexes`.

const MARK = Symbol.for("pilothouse.plugin");

const MEMBERS = ["describe", "reconcile", "observe", "indexes"];

/**
 * Defines a plugin; export the result as the module's default. `describe` is the descriptor, or a function from the sidecar's config to it.
 * The other members determine what the component exports: `reconcile(ctx, request)`, `observe(ctx, notifications)` and
 * `indexes: { name: (object) => values }`.
 */
export function definePlugin(plugin) {
  for (const member of Object.keys(plugin)) {
    if (!MEMBERS.includes(member)) {
      throw new TypeError(`definePlugin: unknown member ${member}; the members are ${MEMBERS.join(", ")}`);
    }
  }
  const { describe, reconcile, observe, indexes } = plugin;
  if (typeof describe !== "function" && (typeof describe !== "object" || describe === null)) {
    throw new TypeError("definePlugin: describe must be the descriptor, or a function that returns it");
  }
  if (reconcile === undefined && observe === undefined && indexes === undefined) {
    throw new TypeError("definePlugin: at least one of reconcile, observe and indexes is required");
  }
  for (const [name, value] of Object.entries({ reconcile, observe, ...indexes })) {
    if (value !== undefined && typeof value !== "function") throw new TypeError(`definePlugin: ${name} must be a function`);
  }
  for (const [name, value] of Object.entries({ describe, reconcile, observe, ...indexes })) refuseAsync(name, value);
  return Object.freeze({ [MARK]: true, describe, reconcile, observe, indexes });
}

/** Returns whether a value was returned by `definePlugin`. */
export function isPlugin(value) {
  return value?.[MARK] === true;
}

/** Rejects async functions. An `await` would never continue, because nothing runs after a call; calls into the host are synchronous. */
export function refuseAsync(name, value) {
  const isAsync = Object.prototype.toString.call(value) === "[object AsyncFunction]" || typeof value?.then === "function";
  if (isAsync) {
    throw new TypeError(`${name} is async; calls into the host are synchronous, so remove async and await`);
  }
}
