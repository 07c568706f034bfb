/* Write Kubernetes controllers in C, as WebAssembly plugins for Pilothouse. README.md has an example.
 *
 * Memory: every string, list and object that a function here returns is valid until your exported function returns; then all of it is
 * freed and all objects are closed. So nothing is ever freed by hand. What must last longer (in an observer) is copied with malloc.
 *
 * Strings are UTF-8 and end in NUL. NULL means "none": an absent label, a pointer that leads nowhere. A NULL passed to a function here is
 * the empty string. A text that itself contains U+0000 ends there; `ph_field` gives it whole, as JSON.
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

/* ---- Plain data ---- */

/* The name of an object inside one watch; `ns` is "" for a cluster-scoped object. */
typedef struct { const char *ns, *name; } ph_key;
/* As in a manifest: "apps/v1", "Deployment". */
typedef struct { const char *api_version, *kind; } ph_type;
typedef struct { const char *key, *value; } ph_pair;
typedef struct { const ph_pair *items; size_t count; } ph_pairs;
typedef struct { const char *const *items; size_t count; } ph_strings;
typedef struct { const ph_key *items; size_t count; } ph_keys;

/* Labels and fields: PH_PAIRS({"node", node}, {"phase", phase}), or PH_NO_PAIRS. */
#define PH_PAIRS(...) \
  ((ph_pairs){(const ph_pair[]){__VA_ARGS__}, sizeof((const ph_pair[]){__VA_ARGS__}) / sizeof(ph_pair)})
#define PH_NO_PAIRS ((ph_pairs){NULL, 0})
/* A list of strings that ends in NULL: PH_LIST("get", "list"). */
#define PH_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* "namespace/name", or "name" without a namespace. */
const char *ph_key_text(ph_key key);
bool ph_equal(const char *a, const char *b);

/* ---- Memory and text ---- */

/* Zeroed, until the call ends. Traps when the plugin's memory limit is reached. */
void *ph_alloc(size_t size);
const char *ph_copy(const char *text, size_t length);
/* As printf. */
const char *ph_format(const char *format, ...) PH_PRINTF(1, 2);

/* Text that grows; begin with {0}. */
typedef struct { char *text; size_t length, capacity; } ph_buffer;
void ph_append(ph_buffer *buffer, const char *format, ...) PH_PRINTF(2, 3);
void ph_append_text(ph_buffer *buffer, const char *text);
const char *ph_buffer_text(const ph_buffer *buffer);

/* What was allocated and which objects were opened after a mark goes at once: for loops over many objects. */
typedef struct { void *chunk; size_t used; void *objects; } ph_mark;
ph_mark ph_mark_here(void);
void ph_release(ph_mark mark);

/* Logs the text as an error and traps: for what cannot be. The instance ends, and the work is tried again by a new one. */
_Noreturn void ph_panic(const char *format, ...) PH_PRINTF(1, 2);

/* ---- JSON ---- */

/* A string as JSON, with quotes and escapes: ph_format("{\"name\":%s}", ph_quote(name)). */
const char *ph_quote(const char *text);

/* JSON as one writes it, as a string constant: PH_JSON({"kind": "Foo"}). Formats too: ph_format(PH_JSON({"name": %s}), ph_quote(name)). Not
 * among the arguments of another macro, which would replace `true` by what stdbool.h says. */
#define PH_JSON(...) #__VA_ARGS__

/* Writes JSON; begin with {0}. `key` is NULL inside arrays and at the top. A string or raw text that is NULL is left out. */
typedef struct { ph_buffer out; char closing[64]; size_t depth; bool follows; } ph_json;
void ph_json_object(ph_json *json, const char *key);
void ph_json_array(ph_json *json, const char *key);
void ph_json_close(ph_json *json);
void ph_json_string(ph_json *json, const char *key, const char *value);
void ph_json_integer(ph_json *json, const char *key, long long value);
void ph_json_number(ph_json *json, const char *key, double value);
void ph_json_bool(ph_json *json, const char *key, bool value);
/* Text that is JSON already. */
void ph_json_raw(ph_json *json, const char *key, const char *value);
/* Closes what is open. */
const char *ph_json_text(ph_json *json);

/* The JSON at an RFC 6901 pointer of a text; NULL when nothing is there. Objects of the cluster have ph_field for this. */
const char *ph_json_at(const char *json, const char *pointer);
/* As ph_json_at; a string comes without quotes and escapes. */
const char *ph_json_text_at(const char *json, const char *pointer);

/* ---- Objects ---- */

/* One state of one object of the cluster; immutable, closed when the call ends. */
typedef struct ph_object ph_object;
typedef struct { ph_object *const *items; size_t count; } ph_objects;
typedef struct { const char *api_version, *kind, *name, *uid; } ph_owner;

/* Closes it before the call ends. */
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
/* The owner reference with `controller: true`, if there is one. */
bool ph_object_controller(const ph_object *object, ph_owner *owner);
/* The whole object; prefer ph_field and ph_text for a few values. */
const char *ph_object_json(const ph_object *object);
/* The JSON at an RFC 6901 pointer: `3`, `"web"`, `{"a":1}`. */
const char *ph_field(const ph_object *object, const char *pointer);
/* As ph_field; a string comes without quotes and escapes. */
const char *ph_text(const ph_object *object, const char *pointer);
/* ph_field at several pointers (at most 64), in one call in place of many; NULL where nothing is: ph_fields(pod, PH_LIST("/spec", "/status"))[1]. */
const char *const *ph_fields(const ph_object *object, const char *const *pointers);
/* As ph_fields, but what ph_text gives. */
const char *const *ph_texts(const ph_object *object, const char *const *pointers);
/* The number at a pointer, cut to an integer; `absent` when there is none. */
long long ph_integer(const ph_object *object, const char *pointer, long long absent);

/* ---- Reading the cache: costs no request ---- */

typedef struct { const char *ns, *label_selector; uint32_t limit; const char *cursor; } ph_filter;
typedef struct { ph_object *const *items; size_t count; const char *next; } ph_page;
typedef struct { ph_key key; const char *const *values; } ph_row;
typedef struct { const ph_row *items; size_t count; } ph_rows;

/* NULL when the watch doesn't have it. */
ph_object *ph_cache_get(const char *watch, ph_key key);
/* At most 500 objects a page; `next` is "" after the last one: ph_cache_list("pods", (ph_filter){.ns = "web"}). */
ph_page ph_cache_list(const char *watch, ph_filter filter);
/* Values at pointers of many objects in one call, as ph_field gives them: ph_cache_fields("pods", filter, PH_LIST("/spec/nodeName")). */
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
  PH_CONFLICT,          /* `resource_version`: the present one, if known */
  PH_INVALID,           /* `causes` */
  PH_FORBIDDEN,
  PH_DENIED,            /* `rule`: what the descriptor's writes and the grant lack */
  PH_TOO_MANY_REQUESTS, /* `retry_after` milliseconds */
  PH_UNAVAILABLE,       /* a write may nevertheless have happened */
  PH_OTHER              /* `status` and `reason` */
} ph_code;

typedef struct { const char *field, *reason, *message; } ph_cause;
/* Lists end in NULL; a list that is NULL is empty. */
typedef struct { const char *const *api_groups, *const *resources, *const *verbs, *const *namespaces; } ph_rule;

typedef struct {
  ph_code code;
  const char *message; /* for people, whatever the code */
  const char *resource_version;
  const ph_cause *causes;
  size_t cause_count;
  ph_rule rule;
  uint32_t retry_after;
  uint16_t status;
  const char *reason;
} ph_error;

/* Why the last request failed; valid until the next one. */
const ph_error *ph_last_error(void);

typedef struct { const char *ns, *label_selector, *field_selector; uint32_t limit; const char *cursor; } ph_list_options;
typedef enum { PH_JSON_PATCH, PH_MERGE_PATCH, PH_STRATEGIC_PATCH, PH_APPLY, PH_APPLY_FORCED } ph_patch_type;
typedef enum { PH_BACKGROUND, PH_FOREGROUND, PH_ORPHAN } ph_propagation;
typedef struct { ph_propagation propagation; const char *uid, *resource_version; } ph_delete_options;

/* `subresource` is NULL, or, say, "status". Where `result` is not NULL it gets the object as the server has it now. */
ph_code ph_client_get(ph_type type, ph_key key, const char *subresource, ph_object **result);
ph_code ph_client_list(ph_type type, ph_list_options options, ph_page *page);
ph_code ph_client_create(const char *manifest, const char *subresource, ph_object **result);
/* The manifest must have the `metadata.resourceVersion` that was read. */
ph_code ph_client_update(const char *manifest, const char *subresource, ph_object **result);
ph_code ph_client_patch(ph_type type, ph_key key, ph_patch_type how, const char *body, const char *subresource, ph_object **result);
ph_code ph_client_delete(ph_type type, ph_key key, ph_delete_options options);
/* Server-side apply of a partial manifest (apiVersion, kind and metadata.name included), taking fields over from other managers. */
ph_code ph_apply(const char *manifest, const char *subresource, ph_object **result);

typedef enum { PH_UNCHANGED, PH_CREATED, PH_UPDATED } ph_change_made;
/* Makes an object as the manifest wants it. `present` is what the cache has, or NULL. Nothing is sent when every value of the manifest is
 * there already; otherwise the object is created, or patched (merge). What the manifest leaves out stays. */
ph_code ph_create_or_update(ph_object *present, const char *manifest, ph_change_made *made, ph_object **result);
/* Repeats while `attempt` answers PH_CONFLICT, five times in all. It must read the object anew each time, with ph_client_get. */
ph_code ph_retry_on_conflict(ph_code (*attempt)(void *context), void *context);

/* ---- Beside objects ---- */

void ph_queue_add(const char *watch, ph_key key);
void ph_queue_add_after(const char *watch, ph_key key, uint32_t milliseconds);

/* Kubernetes Events. `reason` and `action` are UpperCamelCase words, the rest a sentence for people. */
void ph_event_normal(const ph_object *regarding, const char *reason, const char *action, const char *format, ...) PH_PRINTF(4, 5);
void ph_event_warning(const ph_object *regarding, const char *reason, const char *action, const char *format, ...) PH_PRINTF(4, 5);

typedef enum { PH_DEBUG, PH_INFO, PH_WARN, PH_ERROR } ph_level;
void ph_log(ph_level level, const char *message, ph_pairs fields);
void ph_info(const char *format, ...) PH_PRINTF(1, 2);
void ph_warn(const char *format, ...) PH_PRINTF(1, 2);

/* Prometheus metrics; seconds in histograms. */
void ph_counter(const char *name, ph_pairs labels, double add);
void ph_gauge(const char *name, ph_pairs labels, double value);
void ph_histogram(const char *name, ph_pairs labels, double value);

/* Seconds since 1970, and now as Kubernetes writes it: "2026-01-31T12:00:00Z". */
int64_t ph_clock(void);
const char *ph_now(void);

/* The sidecar's `config` as JSON, "{}" without one: ph_json_text_at(ph_config(), "/image"). */
const char *ph_config(void);

/* ---- Owners, finalizers, conditions ---- */

/* A controlling owner reference as JSON, for `metadata.ownerReferences` of what `owner` creates. */
const char *ph_owner_reference(const ph_object *owner);
/* By UID: an owner that was deleted and made again owns nothing yet. */
bool ph_is_controlled_by(const ph_object *object, const ph_object *owner);

typedef struct { const char *type; bool status; const char *reason, *message; } ph_condition;
/* Sets a condition in a list of them (JSON; NULL for none) and says whether that changed anything. `lastTransitionTime` becomes now only
 * when the status flips; `observedGeneration` is the generation, left out for 0. */
bool ph_conditions_set(const char **conditions, const ph_condition *condition, uint32_t observed_generation);

/* ---- What a plugin exports ---- */

typedef enum { PH_REASON_CREATED, PH_REASON_UPDATED, PH_REASON_DELETED, PH_REASON_RESYNC, PH_REASON_REQUEUE, PH_REASON_RETRY,
               PH_REASON_STARTUP, PH_REASON_OTHER } ph_reason;
const char *ph_reason_text(ph_reason reason);

typedef struct {
  const char *watch;
  ph_key key;
  const uint8_t *reasons; /* of ph_reason; they inform, no more */
  size_t reason_count;
  uint32_t attempt;
  ph_pairs extra;
} ph_request;
bool ph_has_reason(const ph_request *request, ph_reason reason);

typedef struct { enum { PH_OUTCOME_DONE, PH_OUTCOME_REQUEUE, PH_OUTCOME_RETRY, PH_OUTCOME_TERMINAL } kind; uint32_t milliseconds;
                 const char *text; } ph_outcome;
ph_outcome ph_done(void);
ph_outcome ph_requeue_after(uint32_t milliseconds);
/* Try again, with backoff. */
ph_outcome ph_retry(const char *format, ...) PH_PRINTF(1, 2);
/* Trying again cannot help: not before the object changes. */
ph_outcome ph_terminal(const char *format, ...) PH_PRINTF(1, 2);
/* For a request that failed: retry with "WHAT: why", or done when there was no error. */
ph_outcome ph_checked(ph_code code, const char *what);

typedef enum { PH_PHASE_APPLY, PH_PHASE_CLEANUP } ph_phase;
/* Keeps a finalizer ("example.com/cleanup") on the object: it is there before the first PH_PHASE_APPLY, and goes after a PH_PHASE_CLEANUP
 * that ended in ph_done(). The plugin must be allowed to patch the object. */
ph_outcome ph_with_finalizer(ph_object *object, const char *name, ph_outcome (*work)(ph_phase phase, ph_object *object, void *context),
                             void *context);

typedef enum { PH_ADDED, PH_CHANGED, PH_DELETED, PH_RESYNC } ph_change;
typedef struct { const char *watch; ph_change change; ph_key key; bool initial, final_state_unknown; } ph_notification;
/* The objects behind notifications, by their position in the list. */
typedef struct ph_batch ph_batch;
ph_object *ph_before(const ph_batch *batch, size_t position);
ph_object *ph_after(const ph_batch *batch, size_t position);
/* ph_field of ph_after, without opening the object. */
const char *ph_after_field(const ph_batch *batch, size_t position, const char *pointer);

typedef struct ph_values ph_values;
void ph_value(ph_values *values, const char *value);

/* The descriptor: a constant outside of any function. Arrays end in {0}. */
typedef struct { enum { PH_CACHE_ONLY, PH_SELF, PH_OWNER, PH_OWNER_ANY, PH_LABEL, PH_FIELD, PH_INDEXED } kind; const char *watch, *at, *ns_path; }
  ph_trigger;
#define PH_TRIGGERS_ITSELF {PH_SELF, NULL, NULL, NULL}
#define PH_TRIGGERS_OWNER(watch) {PH_OWNER, watch, NULL, NULL}
#define PH_TRIGGERS_ANY_OWNER(watch) {PH_OWNER_ANY, watch, NULL, NULL}
#define PH_TRIGGERS_BY_LABEL(key, watch) {PH_LABEL, watch, key, NULL}
#define PH_TRIGGERS_BY_FIELD(path, ns_path, watch) {PH_FIELD, watch, path, ns_path}
#define PH_TRIGGERS_BY_INDEX(watch, index) {PH_INDEXED, watch, index, NULL}
/* One of label, annotation, field, owner and computed. */
typedef struct { const char *name, *label, *annotation, *field; bool owner, computed; } ph_index;
typedef struct {
  const char *name, *api_version, *kind, *resource;
  const char *const *namespaces;
  const char *label_selector, *field_selector;
  bool metadata_only, notify;
  ph_trigger trigger;
  const char *predicate;
  uint32_t resync;
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
/* The load is refused, and the operator reads why. */
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
