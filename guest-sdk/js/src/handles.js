// The handles that are open in the host. QuickJS does not close the handle of an unreachable object, and each one counts towards the limit
// `handles`. So this module tracks the handles that a call opens by weak references and closes them at its end; in a long loop it closes
// the unreachable ones on the way.

/** The number of open handles at which unreachable ones are first searched for. */
const FIRST_SWEEP = 256;

let open = [];
let kept = [];
let sweepAt = FIRST_SWEEP;

/** Tracks a handle. `object` is the object that the plugin holds; it has `isKept` and `close()`. */
export function opened(object, raw) {
  open.push({ object: new WeakRef(object), raw });
  if (open.length < sweepAt) return;
  open = open.filter(isReached);
  // The next search happens only when twice as many handles are open, so that the total cost of all searches is linear.
  sweepAt = Math.max(FIRST_SWEEP, 2 * open.length);
}

/**
 * Runs a call, and closes the handles that it opened and did not keep, and unreachable ones that earlier calls kept. Only a fake host nests
 * calls; the inner call tracks its handles separately.
 */
export function inCall(work) {
  const outer = open;
  open = [];
  sweepAt = FIRST_SWEEP;
  try {
    return work();
  } finally {
    kept = kept.filter(isReached);
    for (const entry of open) settle(entry);
    open = outer;
  }
}

function settle(entry) {
  const object = entry.object.deref();
  if (object === undefined) entry.raw[Symbol.dispose]();
  else if (object.isKept) kept.push(entry);
  else object.close();
}

function isReached(entry) {
  const reached = entry.object.deref() !== undefined;
  if (!reached) entry.raw[Symbol.dispose]();
  return reached;
}
