/* Shared by the parts of the SDK: conversion between C strings and those of the bindings, and handles. */
#ifndef PILOTHOUSE_INTERNAL_H
#define PILOTHOUSE_INTERNAL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bindings/bindings.h"
#include "../pilothouse.h"

/* An open handle. The handles of a call form a list, newest first. */
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

/* Casts const away: the bindings take non-const strings but do not change them. */
static inline ph_wit_string ph_out(const char *text) {
  ph_wit_string string = {(uint8_t *)(text ? text : ""), text ? strlen(text) : 0};
  return string;
}

/* Strings that the host writes end in NUL, because cabi_realloc adds one. An empty string may have a null pointer. */
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

/* Like ph_alloc, but the memory is not zeroed. */
void *ph_take(size_t size);
/* Grows an allocation of `size` bytes. */
void *ph_grow(void *memory, size_t size, size_t larger);
const char *ph_vformat(const char *format, va_list arguments);

/* Adds a handle to the list of those that are closed at the end of the call. */
ph_object *ph_opened(ph_own own);
/* Closes all open handles. Must be called before ph_end_call_, which frees the list. */
void ph_close_objects_(void);
ph_objects ph_opened_all(const ph_own *items, size_t count);
ph_pairs ph_in_pairs(const pilothouse_controller_types_pair_t *items, size_t count);
/* Converts `count` pairs to those of the bindings. */
pilothouse_controller_types_pair_t *ph_out_pairs(ph_pairs pairs);
const char *const *ph_in_list(const bindings_string_t *items, size_t count);
/* Converts a list that ends in NULL to that of the bindings, and optional values of the bindings to strings or NULL. */
bindings_list_string_t ph_out_list(const char *const *texts);
const char *const *ph_in_values(const bindings_list_option_string_t *found);
ph_code ph_failed(const pilothouse_controller_types_api_error_t *error);

/* Scanning JSON: skips blanks, skips one value (NULL when there is none), and decodes a string literal. */
const char *ph_json_blank(const char *json);
const char *ph_json_skip(const char *json);
const char *ph_json_unquote(const char *literal, const char *end);

#endif
