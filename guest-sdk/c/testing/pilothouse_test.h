/* A host in memory, for tests that are compiled and run natively: compile testing/host.c and pilothouse.c beside the test, which includes
 * the plugin's own source, so that it can call what is static there. */
#ifndef PILOTHOUSE_TEST_H
#define PILOTHOUSE_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "../pilothouse.h"

/* Forgets everything, and frees the memory of the call before. */
void ph_test_begin(void);
/* Puts an object into the cache of a watch; a present one of the same key is replaced. It has what the JSON has. */
void ph_test_cache(const char *watch, const char *json);
/* The object of a batch of notifications. Positions count up from 0 with each call; NULL: there is none. */
void ph_test_change(const char *before, const char *after);
/* The batch made of these, for the plugin's observe function. */
const ph_batch *ph_test_batch(void);
/* An open handle on JSON, for functions that take objects. */
ph_object *ph_test_object(const char *json);
/* The next request to the API server fails so. Else each succeeds, and answers the object that it was sent. */
void ph_test_fail(ph_code code);
void ph_test_clock(int64_t seconds);
void ph_test_config(const char *json);

/* What the plugin did, a line each: `create MANIFEST`, `update MANIFEST`, `patch KIND KEY TYPE BODY`, `delete KIND KEY`, `queue WATCH KEY`,
 * `event REASON NOTE`, `log LEVEL MESSAGE`, `gauge NAME{LABELS} VALUE`. A subresource follows the verb: `patch/status …`. */
const char *ph_test_done(void);
/* The values of computed indexes come from this function of the plugin. */
void ph_test_indexed_by(ph_index_function *function);
/* The values of an object in a computed index, each followed by ";". */
const char *ph_test_values(const char *index, const char *json);
/* How many objects are open. */
size_t ph_test_open(void);

/* Fails the test with the two texts, or with the expression. */
#define PH_CHECK_TEXT(found, wanted) ph_test_text(__FILE__, __LINE__, #found, found, wanted)
#define PH_CHECK(expression)                                                    \
  do {                                                                          \
    if (!(expression)) {                                                        \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #expression); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)
void ph_test_text(const char *file, int line, const char *expression, const char *found, const char *wanted);

#endif
