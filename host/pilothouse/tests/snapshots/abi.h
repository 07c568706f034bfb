/* pilothouse:controller@0.1.1, for core modules without an SDK. Printed by `pilothouse abi --format c`.
   Memory: what an export receives and what an import returns was allocated by cabi_realloc; the module frees it. An export returns the
   address of its result, and cabi_post_ph_... is called with that address once the host has read it. docs/abi.md has all rules. */
#ifndef PILOTHOUSE_ABI_H
#define PILOTHOUSE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__wasm__)
#define PH_IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define PH_EXPORT(name) __attribute__((export_name(name)))
#else
#define PH_IMPORT(module, name)
#define PH_EXPORT(name)
#endif

/* Fails to compile if the compiler lays a type out differently. */
#if defined(__wasm32__)
#define PH_LAYOUT(type, holds) typedef char type##_layout[(holds) ? 1 : -1];
#else
#define PH_LAYOUT(type, holds)
#endif

/* Text in UTF-8, without a zero at its end. */
typedef struct ph_string {
  const char *ptr;
  size_t len;
} ph_string;
PH_LAYOUT(ph_string, sizeof(ph_string) == 8 && offsetof(ph_string, ptr) == 0 && offsetof(ph_string, len) == 4)

/* types.object-key */
typedef struct ph_types_object_key {
  ph_string namespace_;
  ph_string name;
} ph_types_object_key;
PH_LAYOUT(ph_types_object_key, sizeof(ph_types_object_key) == 16 && offsetof(ph_types_object_key, namespace_) == 0 && offsetof(ph_types_object_key, name) == 8)

/* types.object-type */
typedef struct ph_types_object_type {
  ph_string api_version;
  ph_string kind;
} ph_types_object_type;
PH_LAYOUT(ph_types_object_type, sizeof(ph_types_object_type) == 16 && offsetof(ph_types_object_type, api_version) == 0 && offsetof(ph_types_object_type, kind) == 8)

/* types.pair */
typedef struct ph_types_pair {
  ph_string key;
  ph_string value;
} ph_types_pair;
PH_LAYOUT(ph_types_pair, sizeof(ph_types_pair) == 16 && offsetof(ph_types_pair, key) == 0 && offsetof(ph_types_pair, value) == 8)

/* types.reason */
typedef uint8_t ph_types_reason;
enum {
  PH_TYPES_REASON_CREATED = 0,
  PH_TYPES_REASON_UPDATED = 1,
  PH_TYPES_REASON_DELETED = 2,
  PH_TYPES_REASON_RESYNC = 3,
  PH_TYPES_REASON_REQUEUE = 4,
  PH_TYPES_REASON_RETRY = 5,
  PH_TYPES_REASON_STARTUP = 6,
  PH_TYPES_REASON_OTHER = 7
};

/* types.change */
typedef uint8_t ph_types_change;
enum {
  PH_TYPES_CHANGE_ADDED = 0,
  PH_TYPES_CHANGE_UPDATED = 1,
  PH_TYPES_CHANGE_DELETED = 2,
  PH_TYPES_CHANGE_RESYNC = 3
};

/* list<types.reason> */
typedef struct ph_list_types_reason {
  const ph_types_reason *ptr;
  size_t len;
} ph_list_types_reason;
PH_LAYOUT(ph_list_types_reason, sizeof(ph_list_types_reason) == 8 && offsetof(ph_list_types_reason, ptr) == 0 && offsetof(ph_list_types_reason, len) == 4)

/* list<types.pair> */
typedef struct ph_list_types_pair {
  const ph_types_pair *ptr;
  size_t len;
} ph_list_types_pair;
PH_LAYOUT(ph_list_types_pair, sizeof(ph_list_types_pair) == 8 && offsetof(ph_list_types_pair, ptr) == 0 && offsetof(ph_list_types_pair, len) == 4)

/* types.request */
typedef struct ph_types_request {
  ph_string watch;
  ph_types_object_key key;
  ph_list_types_reason reasons;
  uint32_t attempt;
  ph_list_types_pair extra;
} ph_types_request;
PH_LAYOUT(ph_types_request, sizeof(ph_types_request) == 44 && offsetof(ph_types_request, watch) == 0 && offsetof(ph_types_request, key) == 8 && offsetof(ph_types_request, reasons) == 24 && offsetof(ph_types_request, attempt) == 32 && offsetof(ph_types_request, extra) == 36)

/* types.outcome */
enum {
  PH_TYPES_OUTCOME_DONE = 0,
  PH_TYPES_OUTCOME_REQUEUE_AFTER = 1
};
typedef struct ph_types_outcome {
  uint8_t tag;
  uint32_t requeue_after;
} ph_types_outcome;
PH_LAYOUT(ph_types_outcome, sizeof(ph_types_outcome) == 8 && offsetof(ph_types_outcome, tag) == 0 && offsetof(ph_types_outcome, requeue_after) == 4)

/* types.failure */
enum {
  PH_TYPES_FAILURE_RETRY = 0,
  PH_TYPES_FAILURE_TERMINAL = 1
};
typedef struct ph_types_failure {
  uint8_t tag;
  union {
    ph_string retry;
    ph_string terminal;
  } value;
} ph_types_failure;
PH_LAYOUT(ph_types_failure, sizeof(ph_types_failure) == 12 && offsetof(ph_types_failure, tag) == 0 && offsetof(ph_types_failure, value) == 4)

/* list<string> */
typedef struct ph_list_string {
  const ph_string *ptr;
  size_t len;
} ph_list_string;
PH_LAYOUT(ph_list_string, sizeof(ph_list_string) == 8 && offsetof(ph_list_string, ptr) == 0 && offsetof(ph_list_string, len) == 4)

/* types.rule */
typedef struct ph_types_rule {
  ph_list_string api_groups;
  ph_list_string resources;
  ph_list_string verbs;
  ph_list_string namespaces;
} ph_types_rule;
PH_LAYOUT(ph_types_rule, sizeof(ph_types_rule) == 32 && offsetof(ph_types_rule, api_groups) == 0 && offsetof(ph_types_rule, resources) == 8 && offsetof(ph_types_rule, verbs) == 16 && offsetof(ph_types_rule, namespaces) == 24)

/* types.cause */
typedef struct ph_types_cause {
  ph_string field;
  ph_string reason;
  ph_string message;
} ph_types_cause;
PH_LAYOUT(ph_types_cause, sizeof(ph_types_cause) == 24 && offsetof(ph_types_cause, field) == 0 && offsetof(ph_types_cause, reason) == 8 && offsetof(ph_types_cause, message) == 16)

/* types.conflict-info */
typedef struct ph_types_conflict_info {
  ph_string message;
  ph_string resource_version;
} ph_types_conflict_info;
PH_LAYOUT(ph_types_conflict_info, sizeof(ph_types_conflict_info) == 16 && offsetof(ph_types_conflict_info, message) == 0 && offsetof(ph_types_conflict_info, resource_version) == 8)

/* types.http-status */
typedef struct ph_types_http_status {
  uint16_t code;
  ph_string reason;
  ph_string message;
} ph_types_http_status;
PH_LAYOUT(ph_types_http_status, sizeof(ph_types_http_status) == 20 && offsetof(ph_types_http_status, code) == 0 && offsetof(ph_types_http_status, reason) == 4 && offsetof(ph_types_http_status, message) == 12)

/* list<types.cause> */
typedef struct ph_list_types_cause {
  const ph_types_cause *ptr;
  size_t len;
} ph_list_types_cause;
PH_LAYOUT(ph_list_types_cause, sizeof(ph_list_types_cause) == 8 && offsetof(ph_list_types_cause, ptr) == 0 && offsetof(ph_list_types_cause, len) == 4)

/* types.api-error */
enum {
  PH_TYPES_API_ERROR_NOT_FOUND = 0,
  PH_TYPES_API_ERROR_ALREADY_EXISTS = 1,
  PH_TYPES_API_ERROR_CONFLICT = 2,
  PH_TYPES_API_ERROR_INVALID = 3,
  PH_TYPES_API_ERROR_FORBIDDEN = 4,
  PH_TYPES_API_ERROR_DENIED = 5,
  PH_TYPES_API_ERROR_TOO_MANY_REQUESTS = 6,
  PH_TYPES_API_ERROR_UNAVAILABLE = 7,
  PH_TYPES_API_ERROR_OTHER = 8
};
typedef struct ph_types_api_error {
  uint8_t tag;
  union {
    ph_string not_found;
    ph_string already_exists;
    ph_types_conflict_info conflict;
    ph_list_types_cause invalid;
    ph_string forbidden;
    ph_types_rule denied;
    uint32_t too_many_requests;
    ph_string unavailable;
    ph_types_http_status other;
  } value;
} ph_types_api_error;
PH_LAYOUT(ph_types_api_error, sizeof(ph_types_api_error) == 36 && offsetof(ph_types_api_error, tag) == 0 && offsetof(ph_types_api_error, value) == 4)

/* A handle of objects.object */
typedef uint32_t ph_objects_object;

/* objects.owner */
typedef struct ph_objects_owner {
  ph_string api_version;
  ph_string kind;
  ph_string name;
  ph_string uid;
} ph_objects_owner;
PH_LAYOUT(ph_objects_owner, sizeof(ph_objects_owner) == 32 && offsetof(ph_objects_owner, api_version) == 0 && offsetof(ph_objects_owner, kind) == 8 && offsetof(ph_objects_owner, name) == 16 && offsetof(ph_objects_owner, uid) == 24)

/* option<string> */
typedef struct ph_option_string {
  bool is_some;
  ph_string value;
} ph_option_string;
PH_LAYOUT(ph_option_string, sizeof(ph_option_string) == 12 && offsetof(ph_option_string, is_some) == 0 && offsetof(ph_option_string, value) == 4)

/* option<objects.owner> */
typedef struct ph_option_objects_owner {
  bool is_some;
  ph_objects_owner value;
} ph_option_objects_owner;
PH_LAYOUT(ph_option_objects_owner, sizeof(ph_option_objects_owner) == 36 && offsetof(ph_option_objects_owner, is_some) == 0 && offsetof(ph_option_objects_owner, value) == 4)

/* list<option<string>> */
typedef struct ph_list_option_string {
  const ph_option_string *ptr;
  size_t len;
} ph_list_option_string;
PH_LAYOUT(ph_list_option_string, sizeof(ph_list_option_string) == 8 && offsetof(ph_list_option_string, ptr) == 0 && offsetof(ph_list_option_string, len) == 4)

/* A handle of changes.batch */
typedef uint32_t ph_changes_batch;

/* option<own<objects.object>> */
typedef struct ph_option_objects_object {
  bool is_some;
  ph_objects_object value;
} ph_option_objects_object;
PH_LAYOUT(ph_option_objects_object, sizeof(ph_option_objects_object) == 8 && offsetof(ph_option_objects_object, is_some) == 0 && offsetof(ph_option_objects_object, value) == 4)

/* cache.filter */
typedef struct ph_cache_filter {
  ph_string namespace_;
  ph_string label_selector;
  uint32_t limit;
  ph_string cursor;
} ph_cache_filter;
PH_LAYOUT(ph_cache_filter, sizeof(ph_cache_filter) == 28 && offsetof(ph_cache_filter, namespace_) == 0 && offsetof(ph_cache_filter, label_selector) == 8 && offsetof(ph_cache_filter, limit) == 16 && offsetof(ph_cache_filter, cursor) == 20)

/* list<own<objects.object>> */
typedef struct ph_list_objects_object {
  const ph_objects_object *ptr;
  size_t len;
} ph_list_objects_object;
PH_LAYOUT(ph_list_objects_object, sizeof(ph_list_objects_object) == 8 && offsetof(ph_list_objects_object, ptr) == 0 && offsetof(ph_list_objects_object, len) == 4)

/* cache.page */
typedef struct ph_cache_page {
  ph_list_objects_object items;
  ph_string next;
} ph_cache_page;
PH_LAYOUT(ph_cache_page, sizeof(ph_cache_page) == 16 && offsetof(ph_cache_page, items) == 0 && offsetof(ph_cache_page, next) == 8)

/* cache.row */
typedef struct ph_cache_row {
  ph_types_object_key key;
  ph_list_option_string values;
} ph_cache_row;
PH_LAYOUT(ph_cache_row, sizeof(ph_cache_row) == 24 && offsetof(ph_cache_row, key) == 0 && offsetof(ph_cache_row, values) == 16)

/* list<cache.row> */
typedef struct ph_list_cache_row {
  const ph_cache_row *ptr;
  size_t len;
} ph_list_cache_row;
PH_LAYOUT(ph_list_cache_row, sizeof(ph_list_cache_row) == 8 && offsetof(ph_list_cache_row, ptr) == 0 && offsetof(ph_list_cache_row, len) == 4)

/* list<types.object-key> */
typedef struct ph_list_types_object_key {
  const ph_types_object_key *ptr;
  size_t len;
} ph_list_types_object_key;
PH_LAYOUT(ph_list_types_object_key, sizeof(ph_list_types_object_key) == 8 && offsetof(ph_list_types_object_key, ptr) == 0 && offsetof(ph_list_types_object_key, len) == 4)

/* client.list-options */
typedef struct ph_client_list_options {
  ph_string namespace_;
  ph_string label_selector;
  ph_string field_selector;
  uint32_t limit;
  ph_string cursor;
} ph_client_list_options;
PH_LAYOUT(ph_client_list_options, sizeof(ph_client_list_options) == 36 && offsetof(ph_client_list_options, namespace_) == 0 && offsetof(ph_client_list_options, label_selector) == 8 && offsetof(ph_client_list_options, field_selector) == 16 && offsetof(ph_client_list_options, limit) == 24 && offsetof(ph_client_list_options, cursor) == 28)

/* client.page */
typedef struct ph_client_page {
  ph_list_objects_object items;
  ph_string next;
} ph_client_page;
PH_LAYOUT(ph_client_page, sizeof(ph_client_page) == 16 && offsetof(ph_client_page, items) == 0 && offsetof(ph_client_page, next) == 8)

/* client.apply-options */
typedef struct ph_client_apply_options {
  ph_string field_manager;
  bool force;
} ph_client_apply_options;
PH_LAYOUT(ph_client_apply_options, sizeof(ph_client_apply_options) == 12 && offsetof(ph_client_apply_options, field_manager) == 0 && offsetof(ph_client_apply_options, force) == 8)

/* client.patch-type */
enum {
  PH_CLIENT_PATCH_TYPE_JSON = 0,
  PH_CLIENT_PATCH_TYPE_MERGE = 1,
  PH_CLIENT_PATCH_TYPE_STRATEGIC = 2,
  PH_CLIENT_PATCH_TYPE_APPLY = 3
};
typedef struct ph_client_patch_type {
  uint8_t tag;
  ph_client_apply_options apply;
} ph_client_patch_type;
PH_LAYOUT(ph_client_patch_type, sizeof(ph_client_patch_type) == 16 && offsetof(ph_client_patch_type, tag) == 0 && offsetof(ph_client_patch_type, apply) == 4)

/* client.propagation */
typedef uint8_t ph_client_propagation;
enum {
  PH_CLIENT_PROPAGATION_BACKGROUND = 0,
  PH_CLIENT_PROPAGATION_FOREGROUND = 1,
  PH_CLIENT_PROPAGATION_ORPHAN = 2
};

/* client.delete-options */
typedef struct ph_client_delete_options {
  ph_client_propagation propagation;
  ph_string uid;
  ph_string resource_version;
} ph_client_delete_options;
PH_LAYOUT(ph_client_delete_options, sizeof(ph_client_delete_options) == 20 && offsetof(ph_client_delete_options, propagation) == 0 && offsetof(ph_client_delete_options, uid) == 4 && offsetof(ph_client_delete_options, resource_version) == 12)

/* result<own<objects.object>, types.api-error> */
typedef struct ph_result_objects_object_types_api_error {
  bool is_err;
  union {
    ph_objects_object ok;
    ph_types_api_error err;
  } value;
} ph_result_objects_object_types_api_error;
PH_LAYOUT(ph_result_objects_object_types_api_error, sizeof(ph_result_objects_object_types_api_error) == 40 && offsetof(ph_result_objects_object_types_api_error, is_err) == 0 && offsetof(ph_result_objects_object_types_api_error, value) == 4)

/* result<client.page, types.api-error> */
typedef struct ph_result_client_page_types_api_error {
  bool is_err;
  union {
    ph_client_page ok;
    ph_types_api_error err;
  } value;
} ph_result_client_page_types_api_error;
PH_LAYOUT(ph_result_client_page_types_api_error, sizeof(ph_result_client_page_types_api_error) == 40 && offsetof(ph_result_client_page_types_api_error, is_err) == 0 && offsetof(ph_result_client_page_types_api_error, value) == 4)

/* result<_, types.api-error> */
typedef struct ph_result_void_types_api_error {
  bool is_err;
  ph_types_api_error err;
} ph_result_void_types_api_error;
PH_LAYOUT(ph_result_void_types_api_error, sizeof(ph_result_void_types_api_error) == 40 && offsetof(ph_result_void_types_api_error, is_err) == 0 && offsetof(ph_result_void_types_api_error, err) == 4)

/* events.event-type */
typedef uint8_t ph_events_event_type;
enum {
  PH_EVENTS_EVENT_TYPE_NORMAL = 0,
  PH_EVENTS_EVENT_TYPE_WARNING = 1
};

/* log.level */
typedef uint8_t ph_log_level;
enum {
  PH_LOG_LEVEL_DEBUG = 0,
  PH_LOG_LEVEL_INFO = 1,
  PH_LOG_LEVEL_WARN = 2,
  PH_LOG_LEVEL_ERROR = 3
};

/* result<string, string> */
typedef struct ph_result_string_string {
  bool is_err;
  union {
    ph_string ok;
    ph_string err;
  } value;
} ph_result_string_string;
PH_LAYOUT(ph_result_string_string, sizeof(ph_result_string_string) == 12 && offsetof(ph_result_string_string, is_err) == 0 && offsetof(ph_result_string_string, value) == 4)

/* result<types.outcome, types.failure> */
typedef struct ph_result_types_outcome_types_failure {
  bool is_err;
  union {
    ph_types_outcome ok;
    ph_types_failure err;
  } value;
} ph_result_types_outcome_types_failure;
PH_LAYOUT(ph_result_types_outcome_types_failure, sizeof(ph_result_types_outcome_types_failure) == 16 && offsetof(ph_result_types_outcome_types_failure, is_err) == 0 && offsetof(ph_result_types_outcome_types_failure, value) == 4)

/* observe.notification */
typedef struct ph_observe_notification {
  ph_string watch;
  ph_types_change change;
  ph_types_object_key key;
  bool initial;
  bool final_state_unknown;
} ph_observe_notification;
PH_LAYOUT(ph_observe_notification, sizeof(ph_observe_notification) == 32 && offsetof(ph_observe_notification, watch) == 0 && offsetof(ph_observe_notification, change) == 8 && offsetof(ph_observe_notification, key) == 12 && offsetof(ph_observe_notification, initial) == 28 && offsetof(ph_observe_notification, final_state_unknown) == 29)

/* list<observe.notification> */
typedef struct ph_list_observe_notification {
  const ph_observe_notification *ptr;
  size_t len;
} ph_list_observe_notification;
PH_LAYOUT(ph_list_observe_notification, sizeof(ph_list_observe_notification) == 8 && offsetof(ph_list_observe_notification, ptr) == 0 && offsetof(ph_list_observe_notification, len) == 4)

/* result<_, types.failure> */
typedef struct ph_result_void_types_failure {
  bool is_err;
  ph_types_failure err;
} ph_result_void_types_failure;
PH_LAYOUT(ph_result_void_types_failure, sizeof(ph_result_void_types_failure) == 16 && offsetof(ph_result_void_types_failure, is_err) == 0 && offsetof(ph_result_void_types_failure, err) == 4)

/* Imports. Close every handle that you receive with the function ..._drop. */

/* func(self: borrow<objects.object>) -> types.object-key */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.key")
void ph_objects_object_key(ph_objects_object self, ph_types_object_key *ret);

/* func(self: borrow<objects.object>) -> string */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.api-version")
void ph_objects_object_api_version(ph_objects_object self, ph_string *ret);

/* func(self: borrow<objects.object>) -> string */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.kind")
void ph_objects_object_kind(ph_objects_object self, ph_string *ret);

/* func(self: borrow<objects.object>) -> string */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.uid")
void ph_objects_object_uid(ph_objects_object self, ph_string *ret);

/* func(self: borrow<objects.object>) -> string */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.resource-version")
void ph_objects_object_resource_version(ph_objects_object self, ph_string *ret);

/* func(self: borrow<objects.object>) -> u32 */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.generation")
uint32_t ph_objects_object_generation(ph_objects_object self);

/* func(self: borrow<objects.object>) -> list<types.pair> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.labels")
void ph_objects_object_labels(ph_objects_object self, ph_list_types_pair *ret);

/* func(self: borrow<objects.object>, key: string) -> option<string> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.label")
void ph_objects_object_label(ph_objects_object self, const char *key, size_t key_len, ph_option_string *ret);

/* func(self: borrow<objects.object>, key: string) -> option<string> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.annotation")
void ph_objects_object_annotation(ph_objects_object self, const char *key, size_t key_len, ph_option_string *ret);

/* func(self: borrow<objects.object>) -> option<string> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.deletion-timestamp")
void ph_objects_object_deletion_timestamp(ph_objects_object self, ph_option_string *ret);

/* func(self: borrow<objects.object>) -> option<objects.owner> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.controller")
void ph_objects_object_controller(ph_objects_object self, ph_option_objects_owner *ret);

/* func(self: borrow<objects.object>, pointer: string) -> option<string> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.field")
void ph_objects_object_field(ph_objects_object self, const char *pointer, size_t pointer_len, ph_option_string *ret);

/* func(self: borrow<objects.object>, pointer: string) -> option<string> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.text")
void ph_objects_object_text(ph_objects_object self, const char *pointer, size_t pointer_len, ph_option_string *ret);

/* func(self: borrow<objects.object>, pointers: list<string>) -> list<option<string>> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.fields")
void ph_objects_object_fields(ph_objects_object self, const ph_string *pointers, size_t pointers_len, ph_list_option_string *ret);

/* func(self: borrow<objects.object>, pointers: list<string>) -> list<option<string>> */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.texts")
void ph_objects_object_texts(ph_objects_object self, const ph_string *pointers, size_t pointers_len, ph_list_option_string *ret);

/* func(self: borrow<objects.object>) -> string */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[method]object.json")
void ph_objects_object_json(ph_objects_object self, ph_string *ret);

/* closes a handle of objects.object */
PH_IMPORT("pilothouse:controller/objects@0.1.1", "[resource-drop]object")
void ph_objects_object_drop(ph_objects_object handle);

/* func(self: borrow<changes.batch>, position: u32) -> option<own<objects.object>> */
PH_IMPORT("pilothouse:controller/changes@0.1.1", "[method]batch.before")
void ph_changes_batch_before(ph_changes_batch self, uint32_t position, ph_option_objects_object *ret);

/* func(self: borrow<changes.batch>, position: u32) -> option<own<objects.object>> */
PH_IMPORT("pilothouse:controller/changes@0.1.1", "[method]batch.after")
void ph_changes_batch_after(ph_changes_batch self, uint32_t position, ph_option_objects_object *ret);

/* func(self: borrow<changes.batch>, position: u32, pointer: string) -> option<string> */
PH_IMPORT("pilothouse:controller/changes@0.1.1", "[method]batch.after-field")
void ph_changes_batch_after_field(ph_changes_batch self, uint32_t position, const char *pointer, size_t pointer_len, ph_option_string *ret);

/* closes a handle of changes.batch */
PH_IMPORT("pilothouse:controller/changes@0.1.1", "[resource-drop]batch")
void ph_changes_batch_drop(ph_changes_batch handle);

/* func() -> string */
PH_IMPORT("pilothouse:controller/config@0.1.1", "get")
void ph_config_get(ph_string *ret);

/* func(watch: string, key: types.object-key) -> option<own<objects.object>> */
PH_IMPORT("pilothouse:controller/cache@0.1.1", "get")
void ph_cache_get(const char *watch, size_t watch_len, const char *key_namespace, size_t key_namespace_len, const char *key_name, size_t key_name_len, ph_option_objects_object *ret);

/* func(watch: string, filter: cache.filter) -> cache.page */
PH_IMPORT("pilothouse:controller/cache@0.1.1", "list")
void ph_cache_list(const char *watch, size_t watch_len, const char *filter_namespace, size_t filter_namespace_len, const char *filter_label_selector, size_t filter_label_selector_len, uint32_t filter_limit, const char *filter_cursor, size_t filter_cursor_len, ph_cache_page *ret);

/* func(watch: string, filter: cache.filter, pointers: list<string>) -> list<cache.row> */
PH_IMPORT("pilothouse:controller/cache@0.1.1", "list-fields")
void ph_cache_list_fields(const char *watch, size_t watch_len, const char *filter_namespace, size_t filter_namespace_len, const char *filter_label_selector, size_t filter_label_selector_len, uint32_t filter_limit, const char *filter_cursor, size_t filter_cursor_len, const ph_string *pointers, size_t pointers_len, ph_list_cache_row *ret);

/* func(watch: string, index: string, value: string) -> list<own<objects.object>> */
PH_IMPORT("pilothouse:controller/cache@0.1.1", "by-index")
void ph_cache_by_index(const char *watch, size_t watch_len, const char *index, size_t index_len, const char *value, size_t value_len, ph_list_objects_object *ret);

/* func(watch: string, index: string, value: string) -> list<types.object-key> */
PH_IMPORT("pilothouse:controller/cache@0.1.1", "index-keys")
void ph_cache_index_keys(const char *watch, size_t watch_len, const char *index, size_t index_len, const char *value, size_t value_len, ph_list_types_object_key *ret);

/* func(watch: string, index: string) -> list<string> */
PH_IMPORT("pilothouse:controller/cache@0.1.1", "index-values")
void ph_cache_index_values(const char *watch, size_t watch_len, const char *index, size_t index_len, ph_list_string *ret);

/* func(watch: string) -> bool */
PH_IMPORT("pilothouse:controller/cache@0.1.1", "has-synced")
bool ph_cache_has_synced(const char *watch, size_t watch_len);

/* func(target: types.object-type, key: types.object-key, subresource: string) -> result<own<objects.object>, types.api-error> */
PH_IMPORT("pilothouse:controller/client@0.1.1", "get")
void ph_client_get(const char *target_api_version, size_t target_api_version_len, const char *target_kind, size_t target_kind_len, const char *key_namespace, size_t key_namespace_len, const char *key_name, size_t key_name_len, const char *subresource, size_t subresource_len, ph_result_objects_object_types_api_error *ret);

/* func(target: types.object-type, options: client.list-options) -> result<client.page, types.api-error> */
PH_IMPORT("pilothouse:controller/client@0.1.1", "list")
void ph_client_list(const char *target_api_version, size_t target_api_version_len, const char *target_kind, size_t target_kind_len, const char *options_namespace, size_t options_namespace_len, const char *options_label_selector, size_t options_label_selector_len, const char *options_field_selector, size_t options_field_selector_len, uint32_t options_limit, const char *options_cursor, size_t options_cursor_len, ph_result_client_page_types_api_error *ret);

/* func(manifest: string, subresource: string) -> result<own<objects.object>, types.api-error> */
PH_IMPORT("pilothouse:controller/client@0.1.1", "create")
void ph_client_create(const char *manifest, size_t manifest_len, const char *subresource, size_t subresource_len, ph_result_objects_object_types_api_error *ret);

/* func(manifest: string, subresource: string) -> result<own<objects.object>, types.api-error> */
PH_IMPORT("pilothouse:controller/client@0.1.1", "update")
void ph_client_update(const char *manifest, size_t manifest_len, const char *subresource, size_t subresource_len, ph_result_objects_object_types_api_error *ret);

/* func(target: types.object-type, key: types.object-key, patch-type: client.patch-type, body: string, subresource: string) -> result<own<objects.object>, types.api-error> */
PH_IMPORT("pilothouse:controller/client@0.1.1", "patch")
void ph_client_patch(const char *target_api_version, size_t target_api_version_len, const char *target_kind, size_t target_kind_len, const char *key_namespace, size_t key_namespace_len, const char *key_name, size_t key_name_len, uint32_t patch_type, const char *patch_type_apply_field_manager, size_t patch_type_apply_field_manager_len, bool patch_type_apply_force, const char *body, size_t body_len, const char *subresource, size_t subresource_len, ph_result_objects_object_types_api_error *ret);

/* func(target: types.object-type, key: types.object-key, options: client.delete-options) -> result<_, types.api-error> */
PH_IMPORT("pilothouse:controller/client@0.1.1", "delete")
void ph_client_delete(const char *target_api_version, size_t target_api_version_len, const char *target_kind, size_t target_kind_len, const char *key_namespace, size_t key_namespace_len, const char *key_name, size_t key_name_len, ph_client_propagation options_propagation, const char *options_uid, size_t options_uid_len, const char *options_resource_version, size_t options_resource_version_len, ph_result_void_types_api_error *ret);

/* func(watch: string, key: types.object-key) */
PH_IMPORT("pilothouse:controller/queue@0.1.1", "add")
void ph_queue_add(const char *watch, size_t watch_len, const char *key_namespace, size_t key_namespace_len, const char *key_name, size_t key_name_len);

/* func(watch: string, key: types.object-key, milliseconds: u32) */
PH_IMPORT("pilothouse:controller/queue@0.1.1", "add-after")
void ph_queue_add_after(const char *watch, size_t watch_len, const char *key_namespace, size_t key_namespace_len, const char *key_name, size_t key_name_len, uint32_t milliseconds);

/* func(regarding: borrow<objects.object>, event-type: events.event-type, reason: string, action: string, note: string) */
PH_IMPORT("pilothouse:controller/events@0.1.1", "publish")
void ph_events_publish(ph_objects_object regarding, ph_events_event_type event_type, const char *reason, size_t reason_len, const char *action, size_t action_len, const char *note, size_t note_len);

/* func(level: log.level, message: string, fields: list<types.pair>) */
PH_IMPORT("pilothouse:controller/log@0.1.1", "log")
void ph_log_log(ph_log_level level, const char *message, size_t message_len, const ph_types_pair *fields, size_t fields_len);

/* func(name: string, labels: list<types.pair>, add: f64) */
PH_IMPORT("pilothouse:controller/metrics@0.1.1", "counter")
void ph_metrics_counter(const char *name, size_t name_len, const ph_types_pair *labels, size_t labels_len, double add);

/* func(name: string, labels: list<types.pair>, value: f64) */
PH_IMPORT("pilothouse:controller/metrics@0.1.1", "gauge")
void ph_metrics_gauge(const char *name, size_t name_len, const ph_types_pair *labels, size_t labels_len, double value);

/* func(name: string, labels: list<types.pair>, value: f64) */
PH_IMPORT("pilothouse:controller/metrics@0.1.1", "histogram")
void ph_metrics_histogram(const char *name, size_t name_len, const ph_types_pair *labels, size_t labels_len, double value);

/* Exports: define ph_describe, cabi_realloc, and one or more of the others. */

/* Allocates, if old is NULL, or grows. Called by the host before an export, and during an import that returns strings or lists. */
PH_EXPORT("cabi_realloc")
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t new_size);

/* func(config: string) -> result<string, string> */
PH_EXPORT("pilothouse:controller/plugin@0.1.1#describe")
ph_result_string_string *ph_describe(const char *config, size_t config_len);
PH_EXPORT("cabi_post_pilothouse:controller/plugin@0.1.1#describe")
void cabi_post_ph_describe(ph_result_string_string *result);

/* func(request: types.request) -> result<types.outcome, types.failure> */
PH_EXPORT("pilothouse:controller/reconcile@0.1.1#reconcile")
ph_result_types_outcome_types_failure *ph_reconcile(const char *request_watch, size_t request_watch_len, const char *request_key_namespace, size_t request_key_namespace_len, const char *request_key_name, size_t request_key_name_len, const ph_types_reason *request_reasons, size_t request_reasons_len, uint32_t request_attempt, const ph_types_pair *request_extra, size_t request_extra_len);
PH_EXPORT("cabi_post_pilothouse:controller/reconcile@0.1.1#reconcile")
void cabi_post_ph_reconcile(ph_result_types_outcome_types_failure *result);

/* func(notifications: list<observe.notification>, batch: own<changes.batch>) -> result<_, types.failure> */
PH_EXPORT("pilothouse:controller/observe@0.1.1#observe")
ph_result_void_types_failure *ph_observe(const ph_observe_notification *notifications, size_t notifications_len, ph_changes_batch batch);
PH_EXPORT("cabi_post_pilothouse:controller/observe@0.1.1#observe")
void cabi_post_ph_observe(ph_result_void_types_failure *result);

/* func(index: string, object: own<objects.object>) -> list<string> */
PH_EXPORT("pilothouse:controller/index@0.1.1#values")
ph_list_string *ph_values(const char *index, size_t index_len, ph_objects_object object);
PH_EXPORT("cabi_post_pilothouse:controller/index@0.1.1#values")
void cabi_post_ph_values(ph_list_string *result);

#ifdef __cplusplus
}
#endif

#endif
