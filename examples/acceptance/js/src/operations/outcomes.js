import { finalizer, Retry, Terminal } from "@pilothouse/sdk";

const FINALIZER = "acceptance.pilothouse.dev/cleanup";

/** The operations with different outcomes of a reconcile. */
export const outcomes = {
  info({ request: { watch, key, attempt, reasons }, result }) {
    result(`${watch} ${key} attempt=${attempt} reasons=${reasons.toSorted()}`);
  },

  requeue({ request, result, a }) {
    if (!request.reasons.includes("requeue")) return { requeueAfter: Number(a) };
    result("requeued");
  },

  retry({ request: { attempt }, result, a }) {
    if (attempt < Number(a)) throw new Retry(`attempt ${attempt} of ${a}`);
    result(`attempt=${attempt}`);
  },

  terminal({ a }) {
    throw new Terminal(a);
  },

  trap: atFirst(({ a }) => {
    throw new Error(a);
  }),

  loop: atFirst(() => {
    for (;;);
  }),

  allocate: atFirst(() => {
    const all = [];
    for (;;) all.push(new Uint8Array(1 << 20).fill(1));
  }),

  "unknown-watch": atFirst(({ ctx, request }) => {
    ctx.cache("nonesuch").get(request.key);
  }),

  finalizer({ script, result }) {
    finalizer.run(script.json(), FINALIZER, { apply: () => result("held"), cleanup: () => result("cleaned") });
  },
};

/** An operation that faults on the first attempt. */
function atFirst(fail) {
  return (call) => {
    if (call.request.attempt === 0) fail(call);
    call.result("recovered");
  };
}
