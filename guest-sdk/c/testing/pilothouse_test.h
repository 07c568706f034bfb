/* An in-memory host for unit tests, which are compiled and run natively: compile testing/host.c and pilothouse.c with the test. The test
 * includes the plugin's source, so that it can call static functions.
 *
 * Requests have the results that a Kubernetes API server would give: resource versions and conflicts, generations, finalizers, the status
 * subresource, JSON patches, merge patches and server-side apply, and the host's refusal of undeclared writes. The watches' selectors,
 * projections and indexes are evaluated, the plugin's own writes are visible at once, and ph_test_fail_requests makes requests fail.
 *
 * It has no schemas, defaults, admission or garbage collector, no subresources but status, treats lists as one value in a server-side apply, and
 * changes queue no work. To test what depends on these, use `pilothouse dev`. */
#ifndef PILOTHOUSE_TEST_H
#define PILOTHOUSE_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "../pilothouse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a test: resets the host, and frees the memory of the previous call. */
void ph_test_begin(void);
/* Gives the host the plugin's descriptor. Before this, the host knows no watch and denies every request. */
void ph_test_plugin(ph_describe_function *describe);

/* Creates or replaces an object (JSON) in the cluster, as another client would, and returns it as stored. UID, status and finalizers are stored as
 * given. A resource version is ignored, so this never conflicts. */
const char *ph_test_put(const char *json);
/* Returns an object of the cluster as JSON; NULL for none. */
const char *ph_test_stored(ph_type type, ph_key key);
/* Deletes an object as `kubectl delete` does: an object with finalizers only gets a deletion timestamp. */
void ph_test_remove(ph_type type, ph_key key);

/* Adds the objects of a notification to the batch, at the next index, starting at 0. NULL for no object. */
void ph_test_change(const char *before, const char *after);
/* Returns the batch, for the plugin's observe function. */
const ph_batch *ph_test_batch(void);
/* Returns an open object with this JSON, for functions that take objects. */
ph_object *ph_test_object(const char *json);

/* Makes requests fail. A failed request changes nothing. */
typedef struct {
  const char *verb, *kind; /* of the requests; NULL for all. A server-side apply has the verb patch */
  unsigned times;          /* how many requests fail; 1 by default */
  ph_error error;          /* a code and its details */
} ph_test_failure;
void ph_test_fail_requests(ph_test_failure failure);
/* Makes the next request fail with this code. */
void ph_test_fail(ph_code code);
/* Sets what happens at a programming error for which the host ends the instance, such as the name of an unknown watch. By default the test fails
 * with the message. The handler does not return. */
void ph_test_on_trap(void (*handler)(const char *message));
/* Sets the current time, in seconds since the Unix epoch. */
void ph_test_clock(int64_t seconds_since_epoch);
void ph_test_config(const char *json);

/* Returns what the plugin did, one line each: `create MANIFEST`, `update MANIFEST`, `patch KIND KEY TYPE BODY`, `delete KIND KEY`, `queue WATCH KEY`,
 * `event normal|warning REASON KEY: NOTE`, `log LEVEL MESSAGE`, `gauge NAME{LABELS} VALUE`. A subresource follows the verb: `patch/status …`. Requests
 * that fail are included. */
const char *ph_test_done(void);
/* Returns the writes that succeeded, one line each: `create apps/v1 Deployment ns/web`, `apply apps/v1 Deployment ns/web status`. */
const char *ph_test_writes(void);
/* Sets the plugin's function for the values of computed indexes. */
void ph_test_indexed_by(ph_index_function *function);
/* Returns the values of an object in a computed index, each followed by ";". */
const char *ph_test_values(const char *index, const char *json);
/* Returns the number of open objects. */
size_t ph_test_open(void);

/* The most changes and failures of a test. */
enum { PH_TEST_CHANGES = 256, PH_TEST_FAILURES = 32 };

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

#ifdef __cplusplus
}
#endif
#endif
