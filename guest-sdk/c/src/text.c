/* Formatting, growing texts and panics. */
#include "internal.h"

const char *ph_copy(const char *text, size_t length) {
  char *copy = ph_take(length + 1);
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

bool ph_equal(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

const char *ph_vformat(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return "";
  char *text = ph_take((size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, arguments);
  return text;
}

const char *ph_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const char *text = ph_vformat(format, arguments);
  va_end(arguments);
  return text;
}

static void append(ph_buffer *buffer, const char *text, size_t length) {
  size_t needed = buffer->length + length + 1;
  if (needed > buffer->capacity) {
    size_t capacity = buffer->capacity * 2 > needed ? buffer->capacity * 2 : needed + 64;
    buffer->text = ph_grow(buffer->text, buffer->capacity, capacity);
    buffer->capacity = capacity;
  }
  memcpy(buffer->text + buffer->length, text, length);
  buffer->length += length;
  buffer->text[buffer->length] = 0;
}

void ph_append_text(ph_buffer *buffer, const char *text) { append(buffer, text ? text : "", text ? strlen(text) : 0); }

void ph_append(ph_buffer *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ph_append_text(buffer, ph_vformat(format, arguments));
  va_end(arguments);
}

const char *ph_buffer_text(const ph_buffer *buffer) { return buffer->text ? buffer->text : ""; }

const char *ph_key_text(ph_key key) {
  return key.ns && *key.ns ? ph_format("%s/%s", key.ns, key.name) : key.name ? key.name : "";
}

void ph_panic(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ph_log(PH_ERROR, ph_vformat(format, arguments), PH_NO_PAIRS);
  va_end(arguments);
  __builtin_trap();
}
