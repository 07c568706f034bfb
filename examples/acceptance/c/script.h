/* A script: a ConfigMap that says what to do. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <pilothouse.h>

typedef struct {
  const ph_request *request;
  ph_object *object;
  const char *op;
  /* `data.a` … `data.g` and `data.body`, "" where absent. */
  const char *a, *b, *c, *d, *e, *f, *g, *body;
} script;

/* What an operation answers: a value that is logged, or an outcome without one. */
typedef struct {
  const char *value; /* NULL: silent */
  ph_outcome outcome;
} answer;

typedef struct {
  const char *op;
  answer (*run)(const script *script);
} operation;

/* Ends with an entry without a name. */
extern const operation cache_operations[], client_operations[], effect_operations[], outcome_operations[];

answer value(const char *value);
const char *or_none(const char *text, const char *none);
/* The last error of the client, as the suite writes it. */
answer api_error(void);
/* Keys, separated by one space. */
const char *keys_of(ph_object *const *items, size_t count);

#endif
