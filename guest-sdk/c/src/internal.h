/* What the parts of the SDK share: the way between C's strings and the bindings' ones, and handles. */
#ifndef PILOTHOUSE_INTERNAL_H
#define PILOTHOUSE_INTERNAL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bindings/bindings.h"
#include "../pilothouse.h"

/* An open handle; all of a call are in one list, the newest first. */
struct ph_object {
  int32_t handle; /* 0 once closed */
  ph_object *older;
};

struct ph_batch {
  int32_t handle;
};

struct ph_values {
  bindings_string_t *items;
  size_t count, capacity;
};

typedef bindings_string_t ph_wit_string;
typedef pilothouse_controller_types_object_key_t ph_wit_key;
typedef pilothouse_controller_objects_own_object_t ph_own;

/* The bindings take no const, and change nothing. */
static inline ph_wit_string ph_out(const char *text) {
  ph_wit_string string = {(uint8_t *)(text ? text : ""), text ? strlen(text) : 0};
  return string;
}

/* What the host put into memory ends in NUL: cabi_realloc sees to it. An empty string may have no memory at all. */
static inline const char *ph_in(ph_wit_string string) { return string.len ? (const char *)string.ptr : ""; }

static inline ph_wit_key ph_out_key(ph_key key) {
  ph_wit_key out = {ph_out(key.ns), ph_out(key.name)};
  return out;
}

static inline ph_key ph_in_key(ph_wit_key key) {
  ph_key in = {ph_in(key.namespace_), ph_in(key.name)};
  return in;
}

static inline pilothouse_controller_objects_borrow_object_t ph_borrow(const ph_object *object) {
  pilothouse_controller_objects_borrow_object_t borrowed = {object->handle};
  return borrowed;
}

/* Memory of the call, as ph_alloc gives it but not zeroed. */
void *ph_take(size_t size);
/* Grows what was allocated; `size` is what it was. */
void *ph_grow(void *memory, size_t size, size_t larger);
const char *ph_vformat(const char *format, va_list arguments);

/* Takes the handle into the list of those that the call closes. */
ph_object *ph_opened(ph_own own);
/* Closes what is still open; before ph_end_call_, which frees the list. */
void ph_close_objects_(void);
ph_objects ph_opened_all(const ph_own *items, size_t count);
ph_pairs ph_in_pairs(const pilothouse_controller_types_pair_t *items, size_t count);
/* The bindings' pairs, for `count` of ours. */
pilothouse_controller_types_pair_t *ph_out_pairs(ph_pairs pairs);
const char *const *ph_in_list(const bindings_string_t *items, size_t count);
/* The bindings' list of texts, for ours that end in NULL; and values that may not be there, as texts or NULL. */
bindings_list_string_t ph_out_list(const char *const *texts);
const char *const *ph_in_values(const bindings_list_option_string_t *found);
ph_code ph_failed(const pilothouse_controller_types_api_error_t *error);

/* JSON text: past blanks, past one value (NULL where there is none), and a string literal without quotes and escapes. */
const char *ph_json_blank(const char *json);
const char *ph_json_skip(const char *json);
const char *ph_json_unquote(const char *literal, const char *end);

#endif
