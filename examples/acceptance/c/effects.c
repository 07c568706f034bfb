/* Operations on queue, Events, metrics and log. */
#include <stdlib.h>

#include "script.h"

static answer add(const script *script) {
  ph_queue_add(script->a, (ph_key){script->b, script->c});
  return value("added");
}

static answer add_after(const script *script) {
  ph_queue_add_after(script->a, (ph_key){script->b, script->c}, (uint32_t)strtoul(script->d, NULL, 10));
  return value("added");
}

static answer event(const script *script) {
  if (ph_equal(script->a, "warning")) {
    ph_event_warning(script->object, script->b, script->c, "%s", script->d);
  } else {
    ph_event_normal(script->object, script->b, script->c, "%s", script->d);
  }
  return value("published");
}

static answer counter(const script *script) {
  ph_counter(script->a, PH_PAIRS({script->b, script->c}), strtod(script->d, NULL));
  return value("recorded");
}

static answer gauge(const script *script) {
  ph_gauge(script->a, PH_PAIRS({script->b, script->c}), strtod(script->d, NULL));
  return value("recorded");
}

static answer histogram(const script *script) {
  ph_histogram(script->a, PH_PAIRS({script->b, script->c}), strtod(script->d, NULL));
  return value("recorded");
}

static answer write_log(const script *script) {
  static const char *const levels[] = {"debug", "info", "warn", "error"};
  int level = PH_DEBUG;
  while (level < PH_ERROR && !ph_equal(levels[level], script->a)) level++;
  ph_log((ph_level)level, script->b, PH_PAIRS({script->c, script->d}));
  return value("logged");
}

const operation effect_operations[] = {
  {"add", add}, {"add-after", add_after}, {"event", event}, {"counter", counter}, {"gauge", gauge}, {"histogram", histogram},
  {"log", write_log}, {NULL, NULL},
};
