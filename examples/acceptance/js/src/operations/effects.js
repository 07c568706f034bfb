import { log, metrics, ObjectKey } from "@pilothouse/sdk";

/** The operations on queue, Events, metrics, log and finalizers. */
export const effects = {
  add({ ctx, result, a, b, c }) {
    ctx.queue(a).add(new ObjectKey(b, c));
    result("added");
  },

  "add-after"({ ctx, result, a, b, c, d }) {
    ctx.queue(a).addAfter(new ObjectKey(b, c), Number(d));
    result("added");
  },

  event({ ctx, script, result, a, b, c, d }) {
    ctx.events[a](script, b, c, d);
    result("published");
  },

  counter: metric("counter"),
  gauge: metric("gauge"),
  histogram: metric("histogram"),

  log({ result, a, b, c, d }) {
    log[a](b, { [c]: d });
    result("logged");
  },
};

function metric(type) {
  return ({ result, a, b, c, d }) => {
    metrics[type](a, { [b]: c }, Number(d));
    result("recorded");
  };
}
