// Handles that are open in the host. QuickJS does not close the handle behind an object that nobody reaches any more, and each one counts
// towards the limit `handles`. So all that a call opens are noted here, weakly, and closed at its end; in a long loop those that
// nobody reaches any more are closed on the way.

/** How many handles a call has open before it is worth looking for those that are not needed. */
const FIRST_SWEEP = 256;

let open = [];
let kept = [];
let sweepAt = FIRST_SWEEP;

/** Notes a handle. `object` is what the author holds; it has `isKept` and `close()`. */
export function opened(object, raw) {
  open.push({ object: new WeakRef(object), raw });
  if (open.length < sweepAt) return;
  open = open.filter(isReached);
  // With nothing to find it is not looked for again before twice as many are there: the sum of all looks stays linear.
  sweepAt = Math.max(FIRST_SWEEP, 2 * open.length);
}

/**
 * Runs a call, and closes what it opened and did not keep; and what earlier calls kept and nobody reaches any more. Only a fake host calls
 * again from inside: that call's handles are its own.
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
