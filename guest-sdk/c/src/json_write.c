/* Writing JSON. */
#include "internal.h"

const char *ph_quote(const char *text) {
  ph_buffer out = {0};
  ph_append_text(&out, "\"");
  for (const char *at = text ? text : ""; *at;) {
    size_t plain = 0;
    while ((unsigned char)at[plain] >= 0x20 && at[plain] != '"' && at[plain] != '\\') plain++;
    if (plain) {
      ph_append(&out, "%.*s", (int)plain, at);
      at += plain;
    } else {
      switch (*at) {
        case '"': ph_append_text(&out, "\\\""); break;
        case '\\': ph_append_text(&out, "\\\\"); break;
        case '\n': ph_append_text(&out, "\\n"); break;
        case '\r': ph_append_text(&out, "\\r"); break;
        case '\t': ph_append_text(&out, "\\t"); break;
        default: ph_append(&out, "\\u%04x", (unsigned char)*at);
      }
      at++;
    }
  }
  ph_append_text(&out, "\"");
  return ph_buffer_text(&out);
}

static void begin(ph_json *json, const char *key) {
  if (json->follows) ph_append_text(&json->out, ",");
  if (key) ph_append(&json->out, "%s:", ph_quote(key));
  json->follows = true;
}

static void open(ph_json *json, const char *key, const char *bracket, char closing) {
  if (json->depth == sizeof json->closing) ph_panic("JSON deeper than %zu levels cannot be written", sizeof json->closing);
  begin(json, key);
  ph_append_text(&json->out, bracket);
  json->closing[json->depth++] = closing;
  json->follows = false;
}

void ph_json_object(ph_json *json, const char *key) { open(json, key, "{", '}'); }

void ph_json_array(ph_json *json, const char *key) { open(json, key, "[", ']'); }

void ph_json_close(ph_json *json) {
  if (!json->depth) ph_panic("ph_json_close without something open in %s", ph_buffer_text(&json->out));
  char closing[2] = {json->closing[--json->depth], 0};
  ph_append_text(&json->out, closing);
  json->follows = true;
}

void ph_json_raw(ph_json *json, const char *key, const char *value) {
  if (!value) return;
  begin(json, key);
  ph_append_text(&json->out, value);
}

void ph_json_string(ph_json *json, const char *key, const char *value) { ph_json_raw(json, key, value ? ph_quote(value) : NULL); }

void ph_json_integer(ph_json *json, const char *key, long long value) { ph_json_raw(json, key, ph_format("%lld", value)); }

/* JSON cannot represent infinity and NaN. */
void ph_json_number(ph_json *json, const char *key, double value) {
  ph_json_raw(json, key, value - value == 0 ? ph_format("%.17g", value) : "null");
}

void ph_json_bool(ph_json *json, const char *key, bool value) { ph_json_raw(json, key, value ? "true" : "false"); }

const char *ph_json_text(ph_json *json) {
  while (json->depth) ph_json_close(json);
  return ph_buffer_text(&json->out);
}
