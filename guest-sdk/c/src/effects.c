/* Queue, Events, log, metrics, the clock and the configuration. */
#include "internal.h"

#include <time.h>

void ph_queue_add(const char *watch, ph_key key) {
  ph_wit_string name = ph_out(watch);
  ph_wit_key out = ph_out_key(key);
  pilothouse_controller_queue_add(&name, &out);
}

void ph_queue_add_after(const char *watch, ph_key key, uint32_t milliseconds) {
  ph_wit_string name = ph_out(watch);
  ph_wit_key out = ph_out_key(key);
  pilothouse_controller_queue_add_after(&name, &out, milliseconds);
}

static void publish(const ph_object *regarding, uint8_t type, const char *reason, const char *action, const char *note) {
  ph_wit_string out_reason = ph_out(reason), out_action = ph_out(action), out_note = ph_out(note);
  pilothouse_controller_events_publish(ph_borrow(regarding), type, &out_reason, &out_action, &out_note);
}

void ph_event_normal(const ph_object *regarding, const char *reason, const char *action, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  publish(regarding, PILOTHOUSE_CONTROLLER_EVENTS_EVENT_TYPE_NORMAL, reason, action, ph_vformat(format, arguments));
  va_end(arguments);
}

void ph_event_warning(const ph_object *regarding, const char *reason, const char *action, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  publish(regarding, PILOTHOUSE_CONTROLLER_EVENTS_EVENT_TYPE_WARNING, reason, action, ph_vformat(format, arguments));
  va_end(arguments);
}

void ph_log(ph_level level, const char *message, ph_pairs fields) {
  ph_wit_string out = ph_out(message);
  pilothouse_controller_log_list_pair_t list = {ph_out_pairs(fields), fields.count};
  pilothouse_controller_log_log((uint8_t)level, &out, &list);
}

void ph_info(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ph_log(PH_INFO, ph_vformat(format, arguments), PH_NO_PAIRS);
  va_end(arguments);
}

void ph_warn(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ph_log(PH_WARN, ph_vformat(format, arguments), PH_NO_PAIRS);
  va_end(arguments);
}

void ph_counter(const char *name, ph_pairs labels, double add) {
  ph_wit_string out = ph_out(name);
  pilothouse_controller_metrics_list_pair_t list = {ph_out_pairs(labels), labels.count};
  pilothouse_controller_metrics_counter(&out, &list, add);
}

void ph_gauge(const char *name, ph_pairs labels, double value) {
  ph_wit_string out = ph_out(name);
  pilothouse_controller_metrics_list_pair_t list = {ph_out_pairs(labels), labels.count};
  pilothouse_controller_metrics_gauge(&out, &list, value);
}

void ph_histogram(const char *name, ph_pairs labels, double value) {
  ph_wit_string out = ph_out(name);
  pilothouse_controller_metrics_list_pair_t list = {ph_out_pairs(labels), labels.count};
  pilothouse_controller_metrics_histogram(&out, &list, value);
}

int64_t ph_clock(void) {
  wasi_clocks_wall_clock_datetime_t now;
  wasi_clocks_wall_clock_now(&now);
  return (int64_t)now.seconds;
}

const char *ph_now(void) {
  time_t seconds = (time_t)ph_clock();
  const struct tm *parts = gmtime(&seconds);
  if (!parts) return "1970-01-01T00:00:00Z";
  return ph_format("%04d-%02d-%02dT%02d:%02d:%02dZ", parts->tm_year + 1900, parts->tm_mon + 1, parts->tm_mday, parts->tm_hour, parts->tm_min,
                   parts->tm_sec);
}

const char *ph_config(void) {
  ph_wit_string config;
  pilothouse_controller_config_get(&config);
  return ph_in(config);
}
