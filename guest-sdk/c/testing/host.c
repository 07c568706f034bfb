/* A fake host for unit tests: the imports of the contract, implemented over in-memory lists. Not compiled to wasm. */
#include "pilothouse_test.h"

#include "../src/internal.h"

enum { MOST = 256 };

typedef struct {
  char *watch, *json;
} entry;

static entry cache[MOST];
static size_t cached;
/* The objects by handle - 1; NULL once closed. */
static char *open_objects[MOST];
static size_t opened;
static char *befores[MOST], *afters[MOST];
static size_t changes;
static char *done, *config;
static ph_code failure;
static int64_t seconds;

static char *keep(const char *text) { return text ? strcpy(malloc(strlen(text) + 1), text) : NULL; }

static const char *in(const bindings_string_t *string) { return ph_copy((const char *)string->ptr, string->len); }

static void out(bindings_string_t *string, const char *text) { *string = ph_out(text ? ph_copy(text, strlen(text)) : ""); }

static bool option(bindings_string_t *string, const char *text) {
  if (text) out(string, text);
  return text != NULL;
}

void ph_test_begin(void) {
  ph_close_objects_();
  ph_end_call_();
  for (; cached; cached--) {
    free(cache[cached - 1].watch);
    free(cache[cached - 1].json);
  }
  for (; opened; opened--) free(open_objects[opened - 1]);
  for (; changes; changes--) {
    free(befores[changes - 1]);
    free(afters[changes - 1]);
  }
  free(done);
  done = keep("");
  free(config);
  config = keep("{}");
  failure = PH_OK;
  seconds = 0;
}

static void did(const char *line) {
  char *longer = malloc(strlen(done) + strlen(line) + 2);
  sprintf(longer, "%s%s\n", done, line);
  free(done);
  done = longer;
}

const char *ph_test_done(void) { return done; }

void ph_test_fail(ph_code code) { failure = code; }

void ph_test_clock(int64_t now) { seconds = now; }

void ph_test_config(const char *json) {
  free(config);
  config = keep(json);
}

size_t ph_test_open(void) {
  size_t count = 0;
  for (size_t i = 0; i < opened; i++) count += open_objects[i] != NULL;
  return count;
}

void ph_test_text(const char *file, int line, const char *expression, const char *found, const char *wanted) {
  if (found && wanted && strcmp(found, wanted) == 0) return;
  fprintf(stderr, "%s:%d: %s\n  found  %s\n  wanted %s\n", file, line, expression, found ? found : "(none)", wanted ? wanted : "(none)");
  exit(1);
}

static ph_own open_object(const char *json) {
  PH_CHECK(opened < MOST);
  open_objects[opened++] = keep(json);
  return (ph_own){(int32_t)opened};
}

ph_object *ph_test_object(const char *json) { return ph_opened(open_object(json)); }

void ph_test_change(const char *before, const char *after) {
  PH_CHECK(changes < MOST);
  befores[changes] = keep(before);
  afters[changes++] = keep(after);
}

const ph_batch *ph_test_batch(void) {
  static const ph_batch batch = {1};
  return &batch;
}

static ph_key key_in(const char *json) {
  const char *ns = ph_json_text_at(json, "/metadata/namespace"), *name = ph_json_text_at(json, "/metadata/name");
  return (ph_key){ns ? ns : "", name ? name : ""};
}

static entry *find(const char *watch, ph_key key) {
  for (size_t i = 0; i < cached; i++) {
    ph_key present = key_in(cache[i].json);
    if (ph_equal(cache[i].watch, watch) && ph_equal(present.ns, key.ns) && ph_equal(present.name, key.name)) return &cache[i];
  }
  return NULL;
}

void ph_test_cache(const char *watch, const char *json) {
  entry *present = find(watch, key_in(json));
  if (present) {
    free(present->json);
    present->json = keep(json);
    return;
  }
  PH_CHECK(cached < MOST);
  cache[cached++] = (entry){keep(watch), keep(json)};
}

/* ---- objects ---- */

typedef pilothouse_controller_objects_borrow_object_t borrowed;

static const char *json_of(borrowed object) {
  PH_CHECK(object.__handle > 0 && (size_t)object.__handle <= opened && open_objects[object.__handle - 1]);
  return open_objects[object.__handle - 1];
}

#define METHOD(name) pilothouse_controller_objects_method_object_##name
#define STRING_METHOD(name, pointer) \
  void METHOD(name)(borrowed self, bindings_string_t *ret) { out(ret, ph_json_text_at(json_of(self), pointer)); }

STRING_METHOD(api_version, "/apiVersion")
STRING_METHOD(kind, "/kind")
STRING_METHOD(uid, "/metadata/uid")
STRING_METHOD(resource_version, "/metadata/resourceVersion")
STRING_METHOD(json, "")

void pilothouse_controller_objects_object_drop_own(ph_own handle) {
  json_of((borrowed){handle.__handle});
  free(open_objects[handle.__handle - 1]);
  open_objects[handle.__handle - 1] = NULL;
}

void METHOD(key)(borrowed self, pilothouse_controller_objects_object_key_t *ret) {
  ph_key key = key_in(json_of(self));
  out(&ret->namespace_, key.ns);
  out(&ret->name, key.name);
}

uint32_t METHOD(generation)(borrowed self) {
  const char *text = ph_json_text_at(json_of(self), "/metadata/generation");
  return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

bool METHOD(field)(borrowed self, bindings_string_t *pointer, bindings_string_t *ret) {
  return option(ret, ph_json_at(json_of(self), in(pointer)));
}

bool METHOD(text)(borrowed self, bindings_string_t *pointer, bindings_string_t *ret) {
  return option(ret, ph_json_text_at(json_of(self), in(pointer)));
}

typedef bool method(borrowed self, bindings_string_t *pointer, bindings_string_t *ret);

static void each(method *read, borrowed self, bindings_list_string_t *pointers, bindings_list_option_string_t *ret) {
  *ret = (bindings_list_option_string_t){ph_alloc(pointers->len * sizeof *ret->ptr), pointers->len};
  for (size_t i = 0; i < pointers->len; i++) ret->ptr[i].is_some = read(self, &pointers->ptr[i], &ret->ptr[i].val);
}

void METHOD(fields)(borrowed self, bindings_list_string_t *pointers, bindings_list_option_string_t *ret) {
  each(METHOD(field), self, pointers, ret);
}

void METHOD(texts)(borrowed self, bindings_list_string_t *pointers, bindings_list_option_string_t *ret) {
  each(METHOD(text), self, pointers, ret);
}

static const char *member_of(borrowed self, const char *members, const char *key) {
  ph_buffer pointer = {0};
  ph_append(&pointer, "/metadata/%s/", members);
  for (; *key; key++) {
    char plain[2] = {*key, 0};
    ph_append_text(&pointer, *key == '~' ? "~0" : *key == '/' ? "~1" : plain);
  }
  return ph_json_text_at(json_of(self), ph_buffer_text(&pointer));
}

bool METHOD(label)(borrowed self, bindings_string_t *key, bindings_string_t *ret) { return option(ret, member_of(self, "labels", in(key))); }

bool METHOD(annotation)(borrowed self, bindings_string_t *key, bindings_string_t *ret) {
  return option(ret, member_of(self, "annotations", in(key)));
}

void METHOD(labels)(borrowed self, pilothouse_controller_objects_list_pair_t *ret) {
  const char *labels = ph_json_at(json_of(self), "/metadata/labels");
  *ret = (pilothouse_controller_objects_list_pair_t){ph_alloc(MOST * sizeof *ret->ptr), 0};
  for (labels = labels ? ph_json_blank(labels + 1) : ""; *labels == '"';) {
    const char *end = ph_json_skip(labels);
    const char *value = ph_json_blank(ph_json_blank(end) + 1), *value_end = ph_json_skip(value);
    out(&ret->ptr[ret->len].key, ph_json_unquote(labels, end));
    out(&ret->ptr[ret->len++].value, ph_json_unquote(value, value_end));
    labels = ph_json_blank(value_end);
    if (*labels == ',') labels = ph_json_blank(labels + 1);
  }
}

bool METHOD(deletion_timestamp)(borrowed self, bindings_string_t *ret) {
  return option(ret, ph_json_text_at(json_of(self), "/metadata/deletionTimestamp"));
}

bool METHOD(controller)(borrowed self, pilothouse_controller_objects_owner_t *ret) {
  for (int i = 0;; i++) {
    const char *owner = ph_json_at(json_of(self), ph_format("/metadata/ownerReferences/%d", i));
    if (!owner) return false;
    if (!ph_equal(ph_json_at(owner, "/controller"), "true")) continue;
    out(&ret->api_version, ph_json_text_at(owner, "/apiVersion"));
    out(&ret->kind, ph_json_text_at(owner, "/kind"));
    out(&ret->name, ph_json_text_at(owner, "/name"));
    out(&ret->uid, ph_json_text_at(owner, "/uid"));
    return true;
  }
}

/* ---- changes ---- */

typedef pilothouse_controller_changes_borrow_batch_t batch;

static bool open_change(char *const *objects, uint32_t position, ph_own *ret) {
  if (position >= changes || !objects[position]) return false;
  *ret = open_object(objects[position]);
  return true;
}

bool pilothouse_controller_changes_method_batch_before(batch self, uint32_t position, ph_own *ret) {
  (void)self;
  return open_change(befores, position, ret);
}

bool pilothouse_controller_changes_method_batch_after(batch self, uint32_t position, ph_own *ret) {
  (void)self;
  return open_change(afters, position, ret);
}

bool pilothouse_controller_changes_method_batch_after_field(batch self, uint32_t position, bindings_string_t *pointer, bindings_string_t *ret) {
  (void)self;
  return position < changes && afters[position] && option(ret, ph_json_at(afters[position], in(pointer)));
}

void pilothouse_controller_changes_batch_drop_own(pilothouse_controller_changes_own_batch_t handle) { (void)handle; }

/* ---- cache ---- */

bool pilothouse_controller_cache_get(bindings_string_t *watch, pilothouse_controller_cache_object_key_t *key, ph_own *ret) {
  entry *present = find(in(watch), (ph_key){in(&key->namespace_), in(&key->name)});
  if (present) *ret = open_object(present->json);
  return present != NULL;
}

/* Returns all objects of the watch in the filter's namespace. Selectors, limits and declared indexes need the real host. */
void pilothouse_controller_cache_list(bindings_string_t *watch, pilothouse_controller_cache_filter_t *filter,
                                      pilothouse_controller_cache_page_t *ret) {
  *ret = (pilothouse_controller_cache_page_t){{ph_alloc(MOST * sizeof(ph_own)), 0}, {NULL, 0}};
  for (size_t i = 0; i < cached; i++) {
    bool there = !filter->namespace_.len || ph_equal(key_in(cache[i].json).ns, in(&filter->namespace_));
    if (there && ph_equal(cache[i].watch, in(watch))) ret->items.ptr[ret->items.len++] = open_object(cache[i].json);
  }
}

bool pilothouse_controller_cache_has_synced(bindings_string_t *watch) {
  (void)watch;
  return true;
}

/* ---- client ---- */

typedef pilothouse_controller_client_api_error_t api_error;

static bool refused(api_error *error) {
  if (failure == PH_OK) return false;
  memset(error, 0, sizeof *error);
  error->tag = (uint8_t)(failure - 1);
  failure = PH_OK;
  if (error->tag == PILOTHOUSE_CONTROLLER_TYPES_API_ERROR_OTHER) error->val.other.code = 500;
  return true;
}

static const char *verb(const char *name, const bindings_string_t *subresource) {
  return subresource->len ? ph_format("%s/%s", name, in(subresource)) : name;
}

static bool finish(const char *line, const char *json, ph_own *ret, api_error *err) {
  did(line);
  if (refused(err)) return false;
  *ret = open_object(json);
  return true;
}

bool pilothouse_controller_client_get(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_object_key_t *key,
                                      bindings_string_t *subresource, ph_own *ret, api_error *err) {
  ph_key wanted = {in(&key->namespace_), in(&key->name)};
  did(ph_format("%s %s %s", verb("get", subresource), in(&target->kind), ph_key_text(wanted)));
  if (refused(err)) return false;
  for (size_t i = 0; i < cached; i++) {
    if (ph_equal(ph_json_text_at(cache[i].json, "/kind"), in(&target->kind)) && find(cache[i].watch, wanted) == &cache[i]) {
      *ret = open_object(cache[i].json);
      return true;
    }
  }
  memset(err, 0, sizeof *err);
  return false;
}

bool pilothouse_controller_client_list(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_list_options_t *options,
                                       pilothouse_controller_client_page_t *ret, api_error *err) {
  (void)options;
  did(ph_format("list %s", in(&target->kind)));
  if (refused(err)) return false;
  *ret = (pilothouse_controller_client_page_t){{NULL, 0}, {NULL, 0}};
  return true;
}

bool pilothouse_controller_client_create(bindings_string_t *manifest, bindings_string_t *subresource, ph_own *ret, api_error *err) {
  return finish(ph_format("%s %s", verb("create", subresource), in(manifest)), in(manifest), ret, err);
}

bool pilothouse_controller_client_update(bindings_string_t *manifest, bindings_string_t *subresource, ph_own *ret, api_error *err) {
  return finish(ph_format("%s %s", verb("update", subresource), in(manifest)), in(manifest), ret, err);
}

bool pilothouse_controller_client_patch(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_object_key_t *key,
                                        pilothouse_controller_client_patch_type_t *patch_type, bindings_string_t *body,
                                        bindings_string_t *subresource, ph_own *ret, api_error *err) {
  static const char *const types[] = {"json", "merge", "strategic", "apply"};
  const char *type = patch_type->tag == PILOTHOUSE_CONTROLLER_CLIENT_PATCH_TYPE_APPLY && patch_type->val.apply.force ? "apply-force"
                                                                                                                 : types[patch_type->tag];
  const char *name = ph_key_text((ph_key){in(&key->namespace_), in(&key->name)});
  return finish(ph_format("%s %s %s %s %s", verb("patch", subresource), in(&target->kind), name, type, in(body)), in(body), ret, err);
}

bool pilothouse_controller_client_delete(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_object_key_t *key,
                                         pilothouse_controller_client_delete_options_t *options, api_error *err) {
  (void)options;
  did(ph_format("delete %s %s", in(&target->kind), ph_key_text((ph_key){in(&key->namespace_), in(&key->name)})));
  return !refused(err);
}

/* ---- effects ---- */

void pilothouse_controller_queue_add(bindings_string_t *watch, pilothouse_controller_queue_object_key_t *key) {
  did(ph_format("queue %s %s", in(watch), ph_key_text((ph_key){in(&key->namespace_), in(&key->name)})));
}

void pilothouse_controller_queue_add_after(bindings_string_t *watch, pilothouse_controller_queue_object_key_t *key, uint32_t milliseconds) {
  did(ph_format("queue %s %s %u", in(watch), ph_key_text((ph_key){in(&key->namespace_), in(&key->name)}), (unsigned)milliseconds));
}

void pilothouse_controller_events_publish(borrowed regarding, uint8_t type, bindings_string_t *reason, bindings_string_t *action,
                                          bindings_string_t *note) {
  json_of(regarding);
  (void)type;
  (void)action;
  did(ph_format("event %s %s", in(reason), in(note)));
}

void pilothouse_controller_log_log(uint8_t level, bindings_string_t *message, pilothouse_controller_log_list_pair_t *fields) {
  static const char *const levels[] = {"debug", "info", "warn", "error"};
  (void)fields;
  did(ph_format("log %s %s", levels[level], in(message)));
}

static void measured(const char *type, bindings_string_t *name, pilothouse_controller_metrics_list_pair_t *labels, double number) {
  ph_buffer text = {0};
  for (size_t i = 0; i < labels->len; i++) {
    ph_append(&text, "%s%s=%s", i ? "," : "", in(&labels->ptr[i].key), in(&labels->ptr[i].value));
  }
  did(ph_format("%s %s{%s} %g", type, in(name), ph_buffer_text(&text), number));
}

void pilothouse_controller_metrics_counter(bindings_string_t *name, pilothouse_controller_metrics_list_pair_t *labels, double add) {
  measured("counter", name, labels, add);
}

void pilothouse_controller_metrics_gauge(bindings_string_t *name, pilothouse_controller_metrics_list_pair_t *labels, double value) {
  measured("gauge", name, labels, value);
}

void pilothouse_controller_metrics_histogram(bindings_string_t *name, pilothouse_controller_metrics_list_pair_t *labels, double value) {
  measured("histogram", name, labels, value);
}

void pilothouse_controller_config_get(bindings_string_t *ret) { out(ret, config); }

void wasi_clocks_wall_clock_now(wasi_clocks_wall_clock_datetime_t *ret) { *ret = (wasi_clocks_wall_clock_datetime_t){(uint64_t)seconds, 0}; }

/* The fake host does not support these two. */
void pilothouse_controller_cache_list_fields(bindings_string_t *watch, pilothouse_controller_cache_filter_t *filter,
                                             bindings_list_string_t *pointers, pilothouse_controller_cache_list_row_t *ret) {
  (void)watch, (void)filter, (void)pointers;
  *ret = (pilothouse_controller_cache_list_row_t){NULL, 0};
}

static ph_index_function *indexer;

void ph_test_indexed_by(ph_index_function *function) { indexer = function; }

static ph_values values_of(const char *index, const char *json) {
  ph_values values = {0};
  if (indexer) indexer(index, ph_test_object(json), &values);
  return values;
}

const char *ph_test_values(const char *index, const char *json) {
  ph_values values = values_of(index, json);
  ph_buffer text = {0};
  for (size_t i = 0; i < values.count; i++) ph_append(&text, "%s;", in(&values.items[i]));
  return ph_buffer_text(&text);
}

static bool indexed(const entry *entry, const char *watch, const char *index, const char *value) {
  if (!ph_equal(entry->watch, watch)) return false;
  ph_values values = values_of(index, entry->json);
  for (size_t i = 0; i < values.count; i++) {
    if (ph_equal(in(&values.items[i]), value)) return true;
  }
  return false;
}

void pilothouse_controller_cache_by_index(bindings_string_t *watch, bindings_string_t *index, bindings_string_t *value,
                                          pilothouse_controller_cache_list_own_object_t *ret) {
  *ret = (pilothouse_controller_cache_list_own_object_t){ph_alloc(MOST * sizeof *ret->ptr), 0};
  for (size_t i = 0; i < cached; i++) {
    if (indexed(&cache[i], in(watch), in(index), in(value))) ret->ptr[ret->len++] = open_object(cache[i].json);
  }
}

void pilothouse_controller_cache_index_keys(bindings_string_t *watch, bindings_string_t *index, bindings_string_t *value,
                                            pilothouse_controller_cache_list_object_key_t *ret) {
  *ret = (pilothouse_controller_cache_list_object_key_t){ph_alloc(MOST * sizeof *ret->ptr), 0};
  for (size_t i = 0; i < cached; i++) {
    if (indexed(&cache[i], in(watch), in(index), in(value))) ret->ptr[ret->len++] = ph_out_key(key_in(cache[i].json));
  }
}

void pilothouse_controller_cache_index_values(bindings_string_t *watch, bindings_string_t *index, bindings_list_string_t *ret) {
  (void)watch, (void)index;
  *ret = (bindings_list_string_t){NULL, 0};
}
