/* Operations on the request, outcomes, faults and finalizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static answer info(const script *script) {
  const ph_request *request = script->request;
  const char **reasons = ph_alloc((request->reason_count + 1) * sizeof *reasons);
  for (size_t i = 0; i < request->reason_count; i++) reasons[i] = ph_reason_text(request->reasons[i]);
  qsort(reasons, request->reason_count, sizeof *reasons, by_text);
  ph_buffer text = {0};
  ph_append(&text, "%s %s attempt=%u reasons=", request->watch, ph_key_text(request->key), (unsigned)request->attempt);
  for (size_t i = 0; i < request->reason_count; i++) ph_append(&text, "%s%s", i ? "," : "", reasons[i]);
  return value(ph_buffer_text(&text));
}

static answer requeue(const script *script) {
  if (ph_has_reason(script->request, PH_REASON_REQUEUE)) return value("requeued");
  return (answer){NULL, ph_requeue_after((uint32_t)strtoul(script->a, NULL, 10))};
}

static answer retry(const script *script) {
  unsigned attempt = script->request->attempt;
  if (attempt >= strtoul(script->a, NULL, 10)) return value(ph_format("attempt=%u", attempt));
  return (answer){NULL, ph_retry("attempt %u of %s", attempt, script->a)};
}

static answer terminal(const script *script) { return (answer){NULL, ph_terminal("%s", script->a)}; }

static answer trap(const script *script) {
  if (!script->request->attempt) ph_panic("%s", script->a);
  return value("recovered");
}

static answer loop(const script *script) {
  static volatile unsigned turns;
  while (!script->request->attempt) turns++;
  return value("recovered");
}

static answer allocate(const script *script) {
  while (!script->request->attempt) ph_alloc(1 << 20);
  return value("recovered");
}

static answer unknown_watch(const script *script) {
  if (!script->request->attempt) ph_cache_get("nonesuch", script->request->key);
  return value("recovered");
}

/* Not in the suite: checks that the WASI adapter's memory survives when much of a call's memory is used and freed. */
static answer scribble(const script *script) {
  fprintf(stderr, "before %s\n", script->a);
  for (int i = 0; i < 6; i++) memset(ph_alloc(70000), 0xa5, 70000);
  fprintf(stderr, "after %s\n", script->a);
  return value("scribbled");
}

static ph_outcome hold(ph_phase phase, ph_object *object, void *context) {
  (void)object;
  const script *script = context;
  const char *text = phase == PH_PHASE_APPLY ? "held" : "cleaned";
  ph_log(PH_INFO, "result", PH_PAIRS({"op", script->op}, {"value", text}));
  return ph_done();
}

static answer finalizer(const script *script) {
  return (answer){NULL, ph_with_finalizer(script->object, "acceptance.pilothouse.dev/cleanup", hold, (void *)script)};
}

const operation outcome_operations[] = {
  {"info", info}, {"requeue", requeue}, {"retry", retry}, {"terminal", terminal}, {"trap", trap}, {"loop", loop},
  {"allocate", allocate}, {"unknown-watch", unknown_watch}, {"finalizer", finalizer},
  {"scribble", scribble}, {NULL, NULL},
};
