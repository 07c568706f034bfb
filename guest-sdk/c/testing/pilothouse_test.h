/* An in-memory host for unit tests, which are compiled and run natively: compile testing/host.c and pilothouse.c with the test. The test
 * includes the plugin's source, so that it can call static functions. */
#ifndef PILOTHOUSE_TEST_H
#define PILOTHOUSE_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "../pilothouse.h"

/* Starts a test: resets the host, and frees the memory of the previous call. */
void ph_test_begin(void);
/* Adds an object to the cache of a watch, or replaces the one with the same key. */
void ph_test_cache(const char *watch, const char *json);
/* Adds the objects of a notification to the batch, at the next index, starting at 0. NULL for no object. */
void ph_test_change(const char *before, const char *after);
/* Returns the batch, for the plugin's observe function. */
const ph_batch *ph_test_batch(void);
/* Returns an open object with this JSON, for functions that take objects. */
ph_object *ph_test_object(const char *json);
/* Makes the next request to the API server fail with this code. Other requests succeed and return the object that was sent. */
void ph_test_fail(ph_code code);
void ph_test_clock(int64_t seconds);
void ph_test_config(const char *json);

/* Returns what the plugin did, one line each: `create MANIFEST`, `update MANIFEST`, `patch KIND KEY TYPE BODY`, `delete KIND KEY`, `queue WATCH KEY`,
 * `event REASON NOTE`, `log LEVEL MESSAGE`, `gauge NAME{LABELS} VALUE`. A subresource follows the verb: `patch/status …`. */
const char *ph_test_done(void);
/* Sets the plugin's function for the values of computed indexes. */
void ph_test_indexed_by(ph_index_function *function);
/* Returns the values of an object in a computed index, each followed by ";". */
const char *ph_test_values(const char *index, const char *json);
/* Returns the number of open objects. */
size_t ph_test_open(void);

/* Fails the test with both texts if they differ, or with the expression if it is false. */
#define PH_CHECK_TEXT(found, wanted) ph_test_text(__FILE__, __LINE__, #found, found, wanted)
#define PH_CHECK(expression)                                                    \
  do {                                                                          \
    if (!(expression)) {                                                        \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #expression); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)
void ph_test_text(const char *file, int line, const char *expression, const char *found, const char *wanted);

#endif
