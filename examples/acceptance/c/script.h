/* A script: a ConfigMap with an operation and its arguments. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <pilothouse.h>

typedef struct {
  const ph_request *request;
  ph_object *object;
  const char *op;
  /* `data.a` … `data.g` and `data.body`, "" when missing. */
  const char *a, *b, *c, *d, *e, *f, *g, *body;
} script;

/* The result of an operation: a value that is logged, or an outcome without a value. */
typedef struct {
  const char *value; /* NULL for silent operations */
  ph_outcome outcome;
} answer;

typedef struct {
  const char *op;
  answer (*run)(const script *script);
} operation;

/* The operations; each list ends with an entry without a name. */
extern const operation cache_operations[], client_operations[], effect_operations[], outcome_operations[];

answer value(const char *value);
const char *or_none(const char *text, const char *none);
/* Returns the last error of the client in the form that the suite expects. */
answer api_error(void);
/* Returns the keys, separated by spaces. */
const char *keys_of(ph_object *const *items, size_t count);

#endif
