/* The exported functions and their results. The records have the layout of the canonical ABI, which must not change within 0.1. */
#include "internal.h"

typedef struct {
  const char *text;
  size_t length;
} wit_text;

static wit_text answer(const char *text) { return (wit_text){text ? text : "", text ? strlen(text) : 0}; }

/* result<outcome, failure>, and also result<_, failure>, whose success has nothing after the first byte. */
static struct {
  uint8_t failed;
  struct {
    uint8_t tag;
    union {
      uint32_t milliseconds;
      wit_text text;
    } value;
  } inner;
} outcome_result;

static void *outcome_answer(ph_outcome outcome) {
  ph_close_objects_();
  memset(&outcome_result, 0, sizeof outcome_result);
  switch (outcome.kind) {
    case PH_OUTCOME_DONE: break;
    case PH_OUTCOME_REQUEUE:
      outcome_result.inner.tag = PILOTHOUSE_CONTROLLER_TYPES_OUTCOME_REQUEUE_AFTER;
      outcome_result.inner.value.milliseconds = outcome.milliseconds;
      break;
    default:
      outcome_result.failed = 1;
      outcome_result.inner.tag = outcome.kind == PH_OUTCOME_RETRY ? PILOTHOUSE_CONTROLLER_TYPES_FAILURE_RETRY
                                                                  : PILOTHOUSE_CONTROLLER_TYPES_FAILURE_TERMINAL;
      outcome_result.inner.value.text = answer(outcome.text);
  }
  return &outcome_result;
}

/* A string argument from the host: `length` bytes at `text`. */
static const char *argument(char *text, size_t length) { return ph_in((ph_wit_string){(uint8_t *)text, length}); }

void *ph_run_describe(ph_describe_function *function, char *config, size_t length) {
  static struct {
    uint8_t failed;
    wit_text text;
  } result;
  ph_description description = function(argument(config, length));
  ph_close_objects_();
  result.failed = description.refused;
  result.text = answer(description.text);
  return &result;
}

void *ph_run_reconcile(ph_reconcile_function *function, char *watch, size_t watch_length, char *ns, size_t ns_length, char *name,
                       size_t name_length, uint8_t *reasons, size_t reason_count, uint32_t attempt, void *extra, size_t extra_count) {
  ph_request request = {argument(watch, watch_length),
                        {argument(ns, ns_length), argument(name, name_length)},
                        reasons,
                        reason_count,
                        attempt,
                        ph_in_pairs(extra, extra_count)};
  return outcome_answer(function(&request));
}

void *ph_run_observe(ph_observe_function *function, void *notifications, size_t count, int32_t batch) {
  const struct {
    ph_wit_string watch;
    uint8_t change;
    ph_wit_key key;
    bool initial, final_state_unknown;
  } *received = notifications;
  ph_notification *list = ph_alloc(count * sizeof *list);
  for (size_t i = 0; i < count; i++) {
    list[i] = (ph_notification){ph_in(received[i].watch), (ph_change)received[i].change, ph_in_key(received[i].key), received[i].initial,
                                received[i].final_state_unknown};
  }
  ph_batch objects = {batch};
  void *result = outcome_answer(function(list, count, &objects));
  pilothouse_controller_changes_batch_drop_own((pilothouse_controller_changes_own_batch_t){batch});
  return result;
}

void *ph_run_index(ph_index_function *function, char *index, size_t length, int32_t object) {
  static struct {
    ph_wit_string *items;
    size_t count;
  } result;
  ph_values values = {0};
  function(argument(index, length), ph_opened((ph_own){object}), &values);
  ph_close_objects_();
  result.items = values.items;
  result.count = values.count;
  return &result;
}

void ph_value(ph_values *values, const char *value) {
  if (values->count == values->capacity) {
    size_t capacity = values->capacity ? values->capacity * 2 : 8;
    values->items = ph_grow(values->items, values->capacity * sizeof *values->items, capacity * sizeof *values->items);
    values->capacity = capacity;
  }
  values->items[values->count++] = ph_out(value);
}

ph_outcome ph_done(void) { return (ph_outcome){PH_OUTCOME_DONE, 0, NULL}; }

ph_outcome ph_requeue_after(uint32_t milliseconds) { return (ph_outcome){PH_OUTCOME_REQUEUE, milliseconds, NULL}; }

ph_outcome ph_retry(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ph_outcome outcome = {PH_OUTCOME_RETRY, 0, ph_vformat(format, arguments)};
  va_end(arguments);
  return outcome;
}

ph_outcome ph_terminal(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ph_outcome outcome = {PH_OUTCOME_TERMINAL, 0, ph_vformat(format, arguments)};
  va_end(arguments);
  return outcome;
}

const char *ph_reason_text(ph_reason reason) {
  static const char *const names[] = {"created", "updated", "deleted", "resync", "requeue", "retry", "startup"};
  return reason < PH_REASON_OTHER ? names[reason] : "other";
}

bool ph_has_reason(const ph_request *request, ph_reason reason) {
  return request->reason_count && memchr(request->reasons, reason, request->reason_count);
}
