/* Write Kubernetes controllers in C, as WebAssembly plugins for Pilothouse. README.md has an example.
 *
 * Memory: every string, list and object that a function returns is valid until your exported function returns; then all memory is freed
 * and all objects are closed. Do not free anything yourself. Copy with malloc what must outlive the call (in an observer).
 *
 * Strings are UTF-8 and end in NUL. A returned NULL means "none": a missing label, or nothing at a JSON pointer. A NULL argument means the
 * empty string. A string that contains U+0000 is truncated there; `ph_field` returns it completely, as JSON.
 */
#ifndef PILOTHOUSE_H
#define PILOTHOUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PH_PRINTF(text, arguments) __attribute__((format(printf, text, arguments)))
#define PH_NORETURN __attribute__((noreturn))

/* ---- Plain data ---- */

/* Identifies an object within a watch; `ns` is "" for a cluster-scoped object. */
typedef struct { const char *ns, *name; } ph_key;
/* A kind in one API version, spelled as in a manifest: "apps/v1", "Deployment". */
typedef struct { const char *api_version, *kind; } ph_type;
typedef struct { const char *key, *value; } ph_pair;
typedef struct { const ph_pair *items; size_t count; } ph_pairs;
typedef struct { const char *const *items; size_t count; } ph_strings;
typedef struct { const ph_key *items; size_t count; } ph_keys;

/* A list of labels or log fields: PH_PAIRS({"node", node}, {"phase", phase}), or PH_NO_PAIRS.
 * A list of strings that ends in NULL: PH_LIST("get", "list").
 * In C++, both end with the expression that they are in: pass them to functions, and give a static constant a static array instead. */
#ifdef __cplusplus
extern "C++" {
template <size_t count> inline ph_pairs ph_pairs_of_(const ph_pair (&items)[count]) {
  ph_pairs pairs = {items, count};
  return pairs;
}
template <size_t count> inline const char *const *ph_list_of_(const char *const (&items)[count]) { return items; }
}
#define PH_PAIRS(...) ph_pairs_of_({__VA_ARGS__})
#define PH_NO_PAIRS (ph_pairs{NULL, 0})
#define PH_LIST(...) ph_list_of_({__VA_ARGS__, NULL})
#else
#define PH_PAIRS(...) \
  ((ph_pairs){(const ph_pair[]){__VA_ARGS__}, sizeof((const ph_pair[]){__VA_ARGS__}) / sizeof(ph_pair)})
#define PH_NO_PAIRS ((ph_pairs){NULL, 0})
#define PH_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#endif

/* Returns "namespace/name", or "name" for a cluster-scoped object. */
const char *ph_key_text(ph_key key);
/* Returns whether two strings are equal; NULL counts as the empty string. */
bool ph_equal(const char *a, const char *b);

/* ---- Memory and text ---- */

/* Returns zeroed memory that is freed when the call ends. Traps when the plugin's memory limit is reached. */
void *ph_alloc(size_t size);
/* Copies `length` bytes into a new string. */
const char *ph_copy(const char *text, size_t length);
/* Formats like printf into a new string. */
const char *ph_format(const char *format, ...) PH_PRINTF(1, 2);

/* A growing text. Initialize with {0}. */
typedef struct { char *text; size_t length, capacity; } ph_buffer;
void ph_append(ph_buffer *buffer, const char *format, ...) PH_PRINTF(2, 3);
void ph_append_text(ph_buffer *buffer, const char *text);
const char *ph_buffer_text(const ph_buffer *buffer);

/* ph_release frees the memory that was allocated, and closes the objects that were opened, since ph_mark_here. For loops over many objects. */
typedef struct { void *chunk; size_t used; void *objects; } ph_mark;
ph_mark ph_mark_here(void);
void ph_release(ph_mark mark);

/* Logs the text as an error and traps; for violated invariants. The instance ends, and a new instance retries the work. */
void ph_panic(const char *format, ...) PH_PRINTF(1, 2) PH_NORETURN;

/* ---- JSON ---- */

/* Returns a string as JSON, with quotes and escapes: ph_format("{\"name\":%s}", ph_quote(name)). */
const char *ph_quote(const char *text);

/* A string constant with unquoted JSON: PH_JSON({"kind": "Foo"}), or a format: ph_format(PH_JSON({"name": %s}), ph_quote(name)). Do not use it
 * in an argument of another macro: the preprocessor would expand `true` as stdbool.h defines it. */
#define PH_JSON(...) #__VA_ARGS__

/* A JSON writer. Initialize with {0}. `key` is NULL inside arrays and at the top level. A string or raw text that is NULL is omitted. */
typedef struct { ph_buffer out; char closing[64]; size_t depth; bool follows; } ph_json;
void ph_json_object(ph_json *json, const char *key);
void ph_json_array(ph_json *json, const char *key);
void ph_json_close(ph_json *json);
void ph_json_string(ph_json *json, const char *key, const char *value);
void ph_json_integer(ph_json *json, const char *key, long long value);
void ph_json_number(ph_json *json, const char *key, double value);
void ph_json_bool(ph_json *json, const char *key, bool value);
/* Writes text that is already JSON. */
void ph_json_raw(ph_json *json, const char *key, const char *value);
/* Closes open objects and arrays, and returns the JSON. */
const char *ph_json_text(ph_json *json);

/* Returns the JSON at a JSON pointer (RFC 6901) of a JSON text; NULL when nothing is there. For objects use ph_field. */
const char *ph_json_at(const char *json, const char *pointer);
/* Like ph_json_at, but returns a string without quotes and escapes. */
const char *ph_json_text_at(const char *json, const char *pointer);

/* ---- Objects ---- */

/* A handle to one immutable state of an object. It is closed when the call ends. */
typedef struct ph_object ph_object;
typedef struct { ph_object *const *items; size_t count; } ph_objects;
typedef struct { const char *api_version, *kind, *name, *uid; } ph_owner;

/* Closes the handle before the call ends. */
void ph_object_close(ph_object *object);
ph_key ph_object_key(const ph_object *object);
const char *ph_object_api_version(const ph_object *object);
const char *ph_object_kind(const ph_object *object);
const char *ph_object_uid(const ph_object *object);
const char *ph_object_resource_version(const ph_object *object);
uint32_t ph_object_generation(const ph_object *object);
ph_pairs ph_object_labels(const ph_object *object);
const char *ph_object_label(const ph_object *object, const char *key);
const char *ph_object_annotation(const ph_object *object, const char *key);
const char *ph_object_deletion_timestamp(const ph_object *object);
/* Gets the owner reference with `controller: true`. Returns false when there is no such reference. */
bool ph_object_controller(const ph_object *object, ph_owner *owner);
/* Returns the whole object as JSON. To read a few values, prefer ph_field and ph_text. */
const char *ph_object_json(const ph_object *object);
/* Returns the JSON at a JSON pointer (RFC 6901), such as `3`, `"web"` or `{"a":1}`; NULL when nothing is there. */
const char *ph_field(const ph_object *object, const char *pointer);
/* Like ph_field, but returns a string without quotes and escapes. */
const char *ph_text(const ph_object *object, const char *pointer);
/* Like ph_field for several pointers (at most 64) in one call; NULL where nothing is: ph_fields(pod, PH_LIST("/spec", "/status"))[1]. */
const char *const *ph_fields(const ph_object *object, const char *const *pointers);
/* Like ph_fields, with the values in the form that ph_text returns. */
const char *const *ph_texts(const ph_object *object, const char *const *pointers);
/* Returns the number at a JSON pointer, truncated to an integer; `absent` when there is none. */
long long ph_integer(const ph_object *object, const char *pointer, long long absent);

/* ---- Reading the cache, which sends no request ---- */

/* Selects objects of a watch; {0} selects all of them. `cursor` is the `next` of the previous page. */
typedef struct { const char *ns, *label_selector; uint32_t limit; const char *cursor; } ph_filter;
typedef struct { ph_object *const *items; size_t count; const char *next; } ph_page;
typedef struct { ph_key key; const char *const *values; } ph_row;
typedef struct { const ph_row *items; size_t count; } ph_rows;

/* Returns the object with this key, or NULL when the watch does not contain it. */
ph_object *ph_cache_get(const char *watch, ph_key key);
/* Returns one page of at most 500 objects; `next` is "" after the last page: ph_cache_list("pods", (ph_filter){.ns = "web"}). */
ph_page ph_cache_list(const char *watch, ph_filter filter);
/* Returns the values at JSON pointers of many objects in one call, in the form that ph_field returns, without opening objects:
 * ph_cache_fields("pods", filter, PH_LIST("/spec/nodeName")). */
ph_rows ph_cache_fields(const char *watch, ph_filter filter, const char *const *pointers);
ph_objects ph_cache_by_index(const char *watch, const char *index, const char *value);
ph_keys ph_cache_index_keys(const char *watch, const char *index, const char *value);
ph_strings ph_cache_index_values(const char *watch, const char *index);
bool ph_cache_has_synced(const char *watch);

/* ---- Requests to the API server ---- */

typedef enum {
  PH_OK,
  PH_NOT_FOUND,
  PH_ALREADY_EXISTS,
  PH_CONFLICT,          /* `resource_version`: the current version, if known */
  PH_INVALID,           /* `causes`: the rejected fields */
  PH_FORBIDDEN,
  PH_DENIED,            /* `rule`: the rule that the descriptor's writes and the grant lack */
  PH_TOO_MANY_REQUESTS, /* `retry_after`: the time to wait, in milliseconds */
  PH_UNAVAILABLE,       /* a write may have been applied nevertheless */
  PH_OTHER              /* `status` and `reason` */
} ph_code;

typedef struct { const char *field, *reason, *message; } ph_cause;
/* A rule with the fields of an RBAC PolicyRule, plus namespaces. The lists end in NULL; NULL is an empty list, which for namespaces means all. */
typedef struct { const char *const *api_groups, *const *resources, *const *verbs, *const *namespaces; } ph_rule;

typedef struct {
  ph_code code;
  const char *message; /* for people; set for every code */
  const char *resource_version;
  const ph_cause *causes;
  size_t cause_count;
  ph_rule rule;
  uint32_t retry_after;
  uint16_t status;
  const char *reason;
} ph_error;

/* Returns why the last request failed; valid until the next request. */
const ph_error *ph_last_error(void);

typedef struct { const char *ns, *label_selector, *field_selector; uint32_t limit; const char *cursor; } ph_list_options;
typedef enum { PH_JSON_PATCH, PH_MERGE_PATCH, PH_STRATEGIC_PATCH, PH_APPLY, PH_APPLY_FORCED } ph_patch_type;
typedef enum { PH_BACKGROUND, PH_FOREGROUND, PH_ORPHAN } ph_propagation;
typedef struct { ph_propagation propagation; const char *uid, *resource_version; } ph_delete_options;

/* Each function sends one request and waits for the answer. The request must be covered by the descriptor's writes and the operator's grant.
 * No function retries: return the failure (ph_checked), and the host retries with backoff. `subresource` is NULL or a name such as "status".
 * `result`, if not NULL, receives the object as stored. */
ph_code ph_client_get(ph_type type, ph_key key, const char *subresource, ph_object **result);
ph_code ph_client_list(ph_type type, ph_list_options options, ph_page *page);
ph_code ph_client_create(const char *manifest, const char *subresource, ph_object **result);
/* The manifest must have the `metadata.resourceVersion` that was read, which protects concurrent changes. */
ph_code ph_client_update(const char *manifest, const char *subresource, ph_object **result);
ph_code ph_client_patch(ph_type type, ph_key key, ph_patch_type kind, const char *body, const char *subresource, ph_object **result);
ph_code ph_client_delete(ph_type type, ph_key key, ph_delete_options options);
/* Applies a partial manifest (including apiVersion, kind and metadata.name) server-side, and takes over fields that other managers own. */
ph_code ph_apply(const char *manifest, const char *subresource, ph_object **result);

typedef enum { PH_UNCHANGED, PH_CREATED, PH_UPDATED } ph_change_made;
/* Creates or updates an object. `present` is the object that the cache holds, or NULL. Nothing is sent when `present` has every value of the
 * manifest; otherwise the object is created, or patched by a merge patch. Fields that the manifest omits are kept. `change` receives what
 * was done. */
ph_code ph_create_or_update(ph_object *present, const char *manifest, ph_change_made *change, ph_object **result);
/* Repeats `attempt` while it returns PH_CONFLICT, up to five attempts in total. Each attempt must read the object again with ph_client_get. */
ph_code ph_retry_on_conflict(ph_code (*attempt)(void *context), void *context);

/* ---- Queue, Events, log, metrics, time and configuration ---- */

/* Queue an object of a target watch, now or after a delay; see queue.wit. */
void ph_queue_add(const char *watch, ph_key key);
void ph_queue_add_after(const char *watch, ph_key key, uint32_t milliseconds);

/* Record a Kubernetes Event. `reason` and `action` are UpperCamelCase identifiers; the format is a sentence for people. */
void ph_event_normal(const ph_object *regarding, const char *reason, const char *action, const char *format, ...) PH_PRINTF(4, 5);
void ph_event_warning(const ph_object *regarding, const char *reason, const char *action, const char *format, ...) PH_PRINTF(4, 5);

/* Write to the plugin's log; the host adds the plugin, and in a reconcile the watch and the key. */
typedef enum { PH_DEBUG, PH_INFO, PH_WARN, PH_ERROR } ph_level;
void ph_log(ph_level level, const char *message, ph_pairs fields);
void ph_info(const char *format, ...) PH_PRINTF(1, 2);
void ph_warn(const char *format, ...) PH_PRINTF(1, 2);

/* Record Prometheus metrics, which the host serves with the label `plugin`. Use seconds for durations in histograms. */
void ph_counter(const char *name, ph_pairs labels, double add);
void ph_gauge(const char *name, ph_pairs labels, double value);
void ph_histogram(const char *name, ph_pairs labels, double value);

/* The current time: in seconds since the Unix epoch, and as Kubernetes formats it ("2026-01-31T12:00:00Z"). */
int64_t ph_clock(void);
const char *ph_now(void);

/* Returns the sidecar's `config` as JSON, or "{}" when it has none: ph_json_text_at(ph_config(), "/image"). */
const char *ph_config(void);

/* ---- Owners, finalizers, conditions ---- */

/* Returns a controlling owner reference as JSON, for `metadata.ownerReferences` of an object that `owner` creates. */
const char *ph_owner_reference(const ph_object *owner);
/* Returns whether `owner` controls `object`, comparing UIDs: an owner that was deleted and recreated does not own the objects of its
 * predecessor. */
bool ph_is_controlled_by(const ph_object *object, const ph_object *owner);

typedef struct { const char *type; bool status; const char *reason, *message; } ph_condition;
/* Adds or updates a condition in a list (JSON; NULL for an empty one), and returns whether the list changed. `lastTransitionTime` becomes the
 * current time only when the condition's status changes. `observed_generation` is omitted when it is 0. */
bool ph_conditions_set(const char **conditions, const ph_condition *condition, uint32_t observed_generation);

/* ---- What a plugin exports ---- */

typedef enum { PH_REASON_CREATED, PH_REASON_UPDATED, PH_REASON_DELETED, PH_REASON_RESYNC, PH_REASON_REQUEUE, PH_REASON_RETRY,
               PH_REASON_STARTUP, PH_REASON_OTHER } ph_reason;
const char *ph_reason_text(ph_reason reason);

typedef struct {
  const char *watch;
  ph_key key;
  const uint8_t *reasons; /* values of ph_reason; informational */
  size_t reason_count;
  uint32_t attempt;
  ph_pairs extra;
} ph_request;
bool ph_has_reason(const ph_request *request, ph_reason reason);

typedef struct { enum { PH_OUTCOME_DONE, PH_OUTCOME_REQUEUE, PH_OUTCOME_RETRY, PH_OUTCOME_TERMINAL } kind; uint32_t milliseconds;
                 const char *text; } ph_outcome;
ph_outcome ph_done(void);
ph_outcome ph_requeue_after(uint32_t milliseconds);
/* Retry with backoff. */
ph_outcome ph_retry(const char *format, ...) PH_PRINTF(1, 2);
/* Do not retry until the object changes, because a retry cannot succeed before. */
ph_outcome ph_terminal(const char *format, ...) PH_PRINTF(1, 2);
/* Converts the result of a request: done for PH_OK, otherwise retry with the message "WHAT: why". */
ph_outcome ph_checked(ph_code code, const char *what);

typedef enum { PH_PHASE_APPLY, PH_PHASE_CLEANUP } ph_phase;
/* Calls `work` in the phase that the object is in, and maintains a finalizer ("example.com/cleanup"): it is added before the first
 * PH_PHASE_APPLY and removed after a PH_PHASE_CLEANUP that returned ph_done(). The plugin must be allowed to patch the object.
 *
 * `work` receives the object with the finalizer. Use this one from then on: adding the finalizer changes the resource version, so an update of
 * the argument itself would conflict. */
ph_outcome ph_with_finalizer(ph_object *object, const char *name, ph_outcome (*work)(ph_phase phase, ph_object *object, void *context),
                             void *context);

typedef enum { PH_ADDED, PH_CHANGED, PH_DELETED, PH_RESYNC } ph_change;
typedef struct { const char *watch; ph_change change; ph_key key; bool initial, final_state_unknown; } ph_notification;
/* The objects behind the notifications, by the index of the notification: before the change (NULL for an addition) and after it (NULL for a
 * deletion). */
typedef struct ph_batch ph_batch;
ph_object *ph_before(const ph_batch *batch, size_t position);
ph_object *ph_after(const ph_batch *batch, size_t position);
/* Returns ph_field of ph_after, without opening the object. */
const char *ph_after_field(const ph_batch *batch, size_t position, const char *pointer);

/* The values that an index function computes; ph_value adds one. */
typedef struct ph_values ph_values;
void ph_value(ph_values *values, const char *value);

/* The descriptor, a constant at file scope. Arrays end in {0}. */
typedef enum { PH_CACHE_ONLY, PH_SELF, PH_OWNER, PH_OWNER_ANY, PH_LABEL, PH_FIELD, PH_INDEXED, PH_NAMESPACE } ph_trigger_kind;
typedef struct { ph_trigger_kind kind; const char *watch, *at, *ns_path; } ph_trigger;
#define PH_TRIGGERS_ITSELF {PH_SELF, NULL, NULL, NULL}
#define PH_TRIGGERS_OWNER(watch) {PH_OWNER, watch, NULL, NULL}
#define PH_TRIGGERS_ANY_OWNER(watch) {PH_OWNER_ANY, watch, NULL, NULL}
#define PH_TRIGGERS_BY_LABEL(key, watch) {PH_LABEL, watch, key, NULL}
#define PH_TRIGGERS_BY_FIELD(path, ns_path, watch) {PH_FIELD, watch, path, ns_path}
#define PH_TRIGGERS_BY_INDEX(watch, index) {PH_INDEXED, watch, index, NULL}
#define PH_TRIGGERS_NAMESPACE(watch) {PH_NAMESPACE, watch, NULL, NULL}
/* An index over the objects of a watch. Set the name and one of label, annotation, field, owner and computed. */
typedef struct { const char *name, *label, *annotation, *field; bool owner, computed; } ph_index;
typedef struct {
  const char *name, *api_version, *kind, *resource;
  const char *const *namespaces;
  const char *label_selector, *field_selector;
  bool metadata_only, notify;
  ph_trigger trigger;
  const char *predicate;
  uint32_t resync; /* milliseconds; 0 disables resync */
  const ph_index *indexes;
} ph_watch;
typedef struct {
  const char *name, *version, *summary;
  const ph_watch *watches;
  const ph_rule *writes;
  const char *const *crds; /* manifests as JSON */
  bool stateful;
  struct { const char *memory, *reconcile_timeout, *observe_timeout; uint32_t handles; } limits;
} ph_plugin;

typedef struct { const char *text; bool refused; } ph_description;
ph_description ph_describe_as(const ph_plugin *plugin);
/* Refuses the load; the text is shown to the operator. */
ph_description ph_refuse(const char *format, ...) PH_PRINTF(1, 2);

typedef ph_description ph_describe_function(const char *config);
typedef ph_outcome ph_reconcile_function(const ph_request *request);
typedef ph_outcome ph_observe_function(const ph_notification *notifications, size_t count, const ph_batch *batch);
typedef void ph_index_function(const char *index, ph_object *object, ph_values *values);

#include "src/export.h"

#ifdef __cplusplus
}
#endif
#endif
