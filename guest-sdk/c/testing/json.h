/* JSON trees, for the fake host. They are valid until ph_json_reset. */
#ifndef PILOTHOUSE_TESTING_JSON_H
#define PILOTHOUSE_TESTING_JSON_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { PH_IS_NULL, PH_IS_FALSE, PH_IS_TRUE, PH_IS_NUMBER, PH_IS_STRING, PH_IS_OBJECT, PH_IS_ARRAY } ph_node_type;

typedef struct ph_node {
  ph_node_type type;
  const char *text;       /* a string without quotes and escapes, or a number as it is written */
  const char **names;     /* of an object's members */
  struct ph_node **items; /* the members or elements */
  size_t count, capacity;
} ph_node;

/* Memory and text that are valid until ph_json_reset. */
void *ph_node_alloc(size_t size);
const char *ph_node_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ph_json_reset(void);

/* Parses a text; NULL when it is not JSON. */
ph_node *ph_node_parse(const char *json);
/* Returns the JSON of a tree. */
const char *ph_node_json(const ph_node *node);
ph_node *ph_node_clone(const ph_node *node);
/* Returns whether two trees are equal, whatever the order of their members. NULL equals only NULL. */
bool ph_node_same(const ph_node *one, const ph_node *other);

ph_node *ph_node_object(void);
ph_node *ph_node_string(const char *text);
ph_node *ph_node_number(long long number);

/* Members of objects. Each function accepts NULL and other types, which have none. */
ph_node *ph_node_get(const ph_node *object, const char *name);
void ph_node_set(ph_node *object, const char *name, ph_node *value);
void ph_node_remove(ph_node *object, const char *name);
/* Returns a member that is an object, which is added if it is missing. */
ph_node *ph_node_ensure(ph_node *object, const char *name);
/* Returns a member's string; "" for none. */
const char *ph_node_member(const ph_node *object, const char *name);
long long ph_node_integer(const ph_node *object, const char *name);

/* Inserts into and removes from an array. */
void ph_node_insert(ph_node *array, size_t position, ph_node *value);
void ph_node_erase(ph_node *array, size_t position);

/* The values at JSON pointers (RFC 6901): NULL for nothing. ph_node_put creates objects as needed; ph_node_drop removes a value with the objects
 * around it that become empty. */
ph_node *ph_node_at(const ph_node *node, const char *pointer);
void ph_node_put(ph_node *object, const char *pointer, ph_node *value);
void ph_node_drop(ph_node *object, const char *pointer);
/* Returns the first segment of a pointer, and moves it to the next one. */
const char *ph_node_segment(const char **pointer);
/* Returns a pointer with a further segment. */
const char *ph_node_below(const char *pointer, const char *name);
/* Returns the index that a segment names; -1 for none. */
long ph_node_position(const char *segment);

/* Applies a JSON Merge Patch (RFC 7386) to a tree, which is changed. */
ph_node *ph_node_merge(ph_node *target, const ph_node *patch);
/* Applies a JSON Patch (RFC 6902) to a copy. On failure returns NULL and sets the problem; malformed means that the patch is not one. */
ph_node *ph_node_patched(const ph_node *document, const ph_node *operations, const char **problem, bool *malformed);

#endif
