/* A fake host for unit tests: the imports of the contract, implemented over an in-memory cluster. Not compiled to wasm. */
#include "pilothouse_test.h"

#include "json.c"

/* The plugin's descriptor, and its function for the values of computed indexes. */
static ph_node *descriptor;
static ph_index_function *indexer;

#include "select.c"

#include "cluster.c"

/* The objects by handle - 1; NULL once closed. */
static char **open_objects;
static size_t opened;
static char *befores[PH_TEST_CHANGES], *afters[PH_TEST_CHANGES];
static size_t changes;
static char *done, *writes, *config;
static ph_test_failure failures[PH_TEST_FAILURES];
static size_t failure_count;
static int64_t seconds;
static void (*on_trap)(const char *message);

/* The most objects of a page. */
enum { PAGE = 500 };

static char *keep(const char *text) { return text ? strcpy(malloc(strlen(text) + 1), text) : NULL; }

static const char *in(const bindings_string_t *string) { return ph_copy((const char *)string->ptr, string->len); }

static void out(bindings_string_t *string, const char *text) { *string = wit_text(text ? text : ""); }

static bool option(bindings_string_t *string, const char *text) {
  if (text) out(string, text);
  return text != NULL;
}

void ph_test_begin(void) {
  ph_close_objects_();
  ph_end_call_();
  for (; opened; opened--) free(open_objects[opened - 1]);
  for (; changes; changes--) {
    free(befores[changes - 1]);
    free(afters[changes - 1]);
  }
  free(done);
  done = keep("");
  free(writes);
  writes = keep("");
  free(config);
  config = keep("{}");
  failure_count = 0;
  seconds = 0;
  cluster_size = 0;
  last_version = 0;
  descriptor = NULL;
  indexer = NULL;
  on_trap = NULL;
  ph_json_reset();
}

void ph_test_plugin(ph_describe_function *describe) {
  ph_description description = describe(config);
  descriptor = description.refused ? NULL : ph_node_parse(description.text);
  if (descriptor) return;
  fprintf(stderr, "describe: %s\n", description.text);
  exit(1);
}

static void add_line(char **lines, const char *line) {
  char *longer = malloc(strlen(*lines) + strlen(line) + 2);
  sprintf(longer, "%s%s\n", *lines, line);
  free(*lines);
  *lines = longer;
}

static void did(const char *line) { add_line(&done, line); }

const char *ph_test_done(void) { return done; }

const char *ph_test_writes(void) { return writes; }

void ph_test_fail(ph_code code) {
  if (code != PH_OK) ph_test_fail_requests((ph_test_failure){.error = {.code = code}});
}

void ph_test_fail_requests(ph_test_failure failure) {
  PH_CHECK(failure_count < PH_TEST_FAILURES);
  if (!failure.times) failure.times = 1;
  failures[failure_count++] = failure;
}

void ph_test_on_trap(void (*handler)(const char *message)) { on_trap = handler; }

_Noreturn static void trap(const char *message) {
  if (on_trap) on_trap(message);
  fprintf(stderr, "the host would end the instance: %s\n", message);
  exit(1);
}

void ph_test_clock(int64_t seconds_since_epoch) { seconds = seconds_since_epoch; }

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
  open_objects = realloc(open_objects, (opened + 1) * sizeof *open_objects);
  open_objects[opened++] = keep(json);
  return (ph_own){(int32_t)opened};
}

static ph_own open_node(const ph_node *object) { return open_object(ph_node_json(object)); }

ph_object *ph_test_object(const char *json) { return ph_opened(open_object(json)); }

void ph_test_change(const char *before, const char *after) {
  PH_CHECK(changes < PH_TEST_CHANGES);
  befores[changes] = keep(before);
  afters[changes++] = keep(after);
}

const ph_batch *ph_test_batch(void) {
  static const ph_batch batch = {1};
  return &batch;
}

static ph_node *parsed(const char *json) {
  ph_node *object = ph_node_parse(json);
  if (object && *ph_node_member(object, "apiVersion") && *ph_node_member(object, "kind") && *key_in(object).name) return object;
  fprintf(stderr, "an object needs apiVersion, kind and metadata.name: %s\n", json);
  exit(1);
}

const char *ph_test_put(const char *json) { return ph_node_json(put(parsed(json))); }

const char *ph_test_stored(ph_type type, ph_key key) {
  const stored *found = find(type, key);
  return found ? ph_node_json(found->object) : NULL;
}

void ph_test_remove(ph_type type, ph_key key) {
  api_error error;
  if (delete_object(type, key, "", "", &error)) return;
  fprintf(stderr, "remove %s %s: it does not exist\n", type.kind, ph_key_text(key));
  exit(1);
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
  out(&ret->namespace_, ph_json_text_at(json_of(self), "/metadata/namespace"));
  out(&ret->name, ph_json_text_at(json_of(self), "/metadata/name"));
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
  const ph_node *members = labels ? ph_node_parse(labels) : NULL;
  size_t count = members ? members->count : 0;
  *ret = (pilothouse_controller_objects_list_pair_t){ph_alloc(count * sizeof *ret->ptr), count};
  for (size_t i = 0; i < count; i++) {
    out(&ret->ptr[i].key, members->names[i]);
    out(&ret->ptr[i].value, members->items[i]->text);
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

static const char *names_of(const ph_node *list) {
  ph_buffer names = {0};
  for (size_t i = 0; list && i < list->count; i++) ph_append(&names, "%s%s", i ? ", " : "", ph_node_member(list->items[i], "name"));
  return names.length ? ph_buffer_text(&names) : "none";
}

static const ph_node *named(const ph_node *list, const char *name) {
  for (size_t i = 0; list && i < list->count; i++) {
    if (ph_equal(ph_node_member(list->items[i], "name"), name)) return list->items[i];
  }
  return NULL;
}

static const ph_node *watch_of(const char *name) {
  const ph_node *watches = ph_node_get(descriptor, "watches"), *found = named(watches, name);
  if (!found) trap(ph_format("unknown watch \"%s\": the descriptor declares %s", name, names_of(watches)));
  return found;
}

static const ph_node *index_of(const char *watch, const char *name) {
  const ph_node *indexes = ph_node_get(watch_of(watch), "indexes"), *found = named(indexes, name);
  if (!found) trap(ph_format("unknown index \"%s\" of watch \"%s\": the descriptor declares %s", name, watch, names_of(indexes)));
  return found;
}

/* Objects, sorted by key. */
typedef struct {
  const ph_node **items;
  size_t count;
} selection;

static void add_sorted(selection *list, const ph_node *object) {
  const ph_node **items = ph_node_alloc((list->count + 1) * sizeof *items);
  size_t at = 0;
  for (; at < list->count && compare_keys(key_in(list->items[at]), key_in(object)) < 0; at++) items[at] = list->items[at];
  items[at] = object;
  for (size_t i = at; i < list->count; i++) items[i + 1] = list->items[i];
  list->items = items;
  list->count++;
}

static bool contains(const ph_node *list, const char *text) {
  for (size_t i = 0; list && i < list->count; i++) {
    if (list->items[i]->text && strcmp(list->items[i]->text, text) == 0) return true;
  }
  return false;
}

/* Selects objects of the cluster. Sets the problem of a malformed selector. */
static selection select_from(ph_type type, const char *ns, const char *labels, const char *fields, const char **problem) {
  selection found = {0};
  selects(labels, NULL, problem);
  for (size_t i = 0; i < cluster_size && !*problem; i++) {
    const stored *one = &cluster[i];
    if (!ph_equal(one->type.api_version, type.api_version) || !ph_equal(one->type.kind, type.kind)) continue;
    if (*ns && !ph_equal(one->key.ns, ns)) continue;
    if (selects(labels, one->object, problem) && has_fields(fields, one->object)) add_sorted(&found, one->object);
  }
  return found;
}

static selection watched(const char *name, const char *ns, const char *labels) {
  const ph_node *watch = watch_of(name), *namespaces = ph_node_get(watch, "namespaces");
  const char *problem = NULL;
  selects(labels, NULL, &problem);
  if (problem) trap(problem);
  selection all = select_from(type_in(watch), ns, ph_node_member(watch, "labelSelector"), ph_node_member(watch, "fieldSelector"), &problem);
  if (problem) trap(problem);
  selection found = {0};
  for (size_t i = 0; i < all.count; i++) {
    const ph_node *object = all.items[i];
    bool in_namespace = !namespaces || !namespaces->count || contains(namespaces, key_in(object).ns);
    if (!in_namespace || !selects(labels, object, &problem)) continue;
    if (ph_equal(ph_node_member(watch, "projection"), "metadata")) {
      ph_node *projected = ph_node_object();
      copy_member(object, projected, "apiVersion");
      copy_member(object, projected, "kind");
      copy_member(object, projected, "metadata");
      object = projected;
    }
    add_sorted(&found, object);
  }
  return found;
}

/* Narrows a selection to a page after the cursor. Returns the cursor of the next page; "" after the last one. */
static const char *page_of(selection *list, size_t limit, const char *cursor) {
  const char *slash = strrchr(cursor, '/');
  ph_key last = {slash ? ph_node_text("%.*s", (int)(slash - cursor), cursor) : "", slash ? slash + 1 : cursor};
  while (*cursor && list->count && compare_keys(key_in(list->items[0]), last) <= 0) {
    list->items++;
    list->count--;
  }
  if (list->count <= limit) return "";
  list->count = limit;
  return ph_key_text(key_in(list->items[limit - 1]));
}

static size_t page_size(uint32_t limit) { return limit && limit < PAGE ? limit : PAGE; }

static void open_selection(const selection *list, ph_own **items, size_t *count) {
  *items = ph_alloc(list->count * sizeof **items);
  *count = list->count;
  for (size_t i = 0; i < list->count; i++) (*items)[i] = open_node(list->items[i]);
}

bool pilothouse_controller_cache_get(bindings_string_t *watch, pilothouse_controller_cache_object_key_t *key, ph_own *ret) {
  selection found = watched(in(watch), "", "");
  ph_key wanted = {in(&key->namespace_), in(&key->name)};
  for (size_t i = 0; i < found.count; i++) {
    if (!same_key(key_in(found.items[i]), wanted)) continue;
    *ret = open_node(found.items[i]);
    return true;
  }
  return false;
}

void pilothouse_controller_cache_list(bindings_string_t *watch, pilothouse_controller_cache_filter_t *filter,
                                      pilothouse_controller_cache_page_t *ret) {
  selection found = watched(in(watch), in(&filter->namespace_), in(&filter->label_selector));
  out(&ret->next, page_of(&found, page_size(filter->limit), in(&filter->cursor)));
  open_selection(&found, &ret->items.ptr, &ret->items.len);
}

void pilothouse_controller_cache_list_fields(bindings_string_t *watch, pilothouse_controller_cache_filter_t *filter,
                                             bindings_list_string_t *pointers, pilothouse_controller_cache_list_row_t *ret) {
  selection found = watched(in(watch), in(&filter->namespace_), in(&filter->label_selector));
  page_of(&found, filter->limit ? filter->limit : SIZE_MAX, in(&filter->cursor));
  *ret = (pilothouse_controller_cache_list_row_t){ph_alloc(found.count * sizeof *ret->ptr), found.count};
  for (size_t i = 0; i < found.count; i++) {
    ph_key key = key_in(found.items[i]);
    out(&ret->ptr[i].key.namespace_, key.ns);
    out(&ret->ptr[i].key.name, key.name);
    ret->ptr[i].values = (bindings_list_option_string_t){ph_alloc(pointers->len * sizeof *ret->ptr[i].values.ptr), pointers->len};
    for (size_t j = 0; j < pointers->len; j++) {
      const ph_node *value = ph_node_at(found.items[i], in(&pointers->ptr[j]));
      ret->ptr[i].values.ptr[j].is_some = option(&ret->ptr[i].values.ptr[j].val, value ? ph_node_json(value) : NULL);
    }
  }
}

bool pilothouse_controller_cache_has_synced(bindings_string_t *watch) { return watch_of(in(watch)) != NULL; }

void ph_test_indexed_by(ph_index_function *function) { indexer = function; }

static ph_values computed_values(const char *name, const char *json) {
  ph_values values = {0};
  ph_object *object = ph_test_object(json);
  if (indexer) indexer(name, object, &values);
  ph_object_close(object);
  return values;
}

const char *ph_test_values(const char *index, const char *json) {
  ph_values values = computed_values(index, json);
  ph_buffer text = {0};
  for (size_t i = 0; i < values.count; i++) ph_append(&text, "%s;", in(&values.items[i]));
  return ph_buffer_text(&text);
}

static texts values_in(const ph_node *index, const ph_node *object) {
  if (!ph_node_get(index, "computed")) return declared_values(index, object);
  ph_values values = computed_values(ph_node_member(index, "name"), ph_node_json(object));
  texts found = {0};
  for (size_t i = 0; i < values.count; i++) add_text(&found, ph_node_text("%s", in(&values.items[i])));
  return found;
}

static selection by_index(const char *watch, const char *name, const char *value) {
  const ph_node *index = index_of(watch, name);
  selection all = watched(watch, "", ""), found = {0};
  for (size_t i = 0; i < all.count; i++) {
    texts values = values_in(index, all.items[i]);
    if (has_text(&values, value)) add_sorted(&found, all.items[i]);
  }
  return found;
}

void pilothouse_controller_cache_by_index(bindings_string_t *watch, bindings_string_t *index, bindings_string_t *value,
                                          pilothouse_controller_cache_list_own_object_t *ret) {
  selection found = by_index(in(watch), in(index), in(value));
  open_selection(&found, &ret->ptr, &ret->len);
}

void pilothouse_controller_cache_index_keys(bindings_string_t *watch, bindings_string_t *index, bindings_string_t *value,
                                            pilothouse_controller_cache_list_object_key_t *ret) {
  selection found = by_index(in(watch), in(index), in(value));
  *ret = (pilothouse_controller_cache_list_object_key_t){ph_alloc(found.count * sizeof *ret->ptr), found.count};
  for (size_t i = 0; i < found.count; i++) ret->ptr[i] = ph_out_key(key_in(found.items[i]));
}

static int compare_texts(const void *one, const void *other) { return strcmp(*(const char *const *)one, *(const char *const *)other); }

void pilothouse_controller_cache_index_values(bindings_string_t *watch, bindings_string_t *index, bindings_list_string_t *ret) {
  const ph_node *declared = index_of(in(watch), in(index));
  selection all = watched(in(watch), "", "");
  texts found = {0};
  for (size_t i = 0; i < all.count; i++) {
    texts values = values_in(declared, all.items[i]);
    for (size_t j = 0; j < values.count; j++) add_text(&found, values.items[j]);
  }
  if (found.count) qsort(found.items, found.count, sizeof *found.items, compare_texts);
  *ret = (bindings_list_string_t){ph_alloc(found.count * sizeof *ret->ptr), found.count};
  for (size_t i = 0; i < found.count; i++) out(&ret->ptr[i], found.items[i]);
}

/* ---- client ---- */

/* A request: what it is about, and where its error goes. */
typedef struct {
  const char *verb;
  ph_type type;
  ph_key key;
  const char *subresource;
  api_error *error;
} request;

static const char *namespace_problem(const char *ns) {
  size_t length = strlen(ns);
  bool valid = !length || (length <= 63 && strspn(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") == length && *ns != '-' && ns[length - 1] != '-');
  return valid ? NULL : ph_node_text("\"%s\" is not the name of a namespace", ns);
}

static const char *name_problem(const char *name) {
  if (!*name) return "the name is empty";
  bool invalid = strlen(name) > 253 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
  for (const char *at = name; *at; at++) invalid = invalid || *at == '/' || *at == '%' || (unsigned char)*at < 0x20 || *at == 0x7f;
  return invalid ? ph_node_text("\"%s\" is not the name of an object", name) : NULL;
}

static bool covers_one(const ph_node *list, const char *pattern, const char *wanted) {
  return contains(list, "*") || contains(list, pattern) || contains(list, wanted);
}

static bool is_declared(const char *group, const char *resource, const char *verb, const char *ns) {
  const ph_node *rules = ph_node_get(descriptor, "writes");
  const char *slash = strchr(resource, '/'), *pattern = slash ? ph_node_text("*%s", slash) : resource;
  for (size_t i = 0; rules && i < rules->count; i++) {
    const ph_node *rule = rules->items[i], *namespaces = ph_node_get(rule, "namespaces");
    bool everywhere = !namespaces || !namespaces->count || contains(namespaces, "*");
    if (covers_one(ph_node_get(rule, "apiGroups"), group, group) && covers_one(ph_node_get(rule, "resources"), pattern, resource) &&
        covers_one(ph_node_get(rule, "verbs"), verb, verb) && (everywhere || (*ns && contains(namespaces, ns)))) {
      return true;
    }
  }
  return false;
}

static bindings_list_string_t out_one(const char *text) {
  bindings_list_string_t list = {ph_alloc(sizeof *list.ptr), 1};
  out(list.ptr, text);
  return list;
}

static bool denied(const request *request, kind_info kind) {
  const char *resource = *request->subresource ? ph_node_text("%s/%s", kind.plural, request->subresource) : kind.plural;
  const char *ns = kind.scope == CLUSTER_SCOPED ? "" : request->key.ns;
  if (is_declared(kind.group, resource, request->verb, ns)) return false;
  fail_with(request->error, PH_DENIED, "");
  pilothouse_controller_types_rule_t *rule = &request->error->val.denied;
  *rule = (pilothouse_controller_types_rule_t){out_one(kind.group), out_one(resource), out_one(request->verb), {NULL, 0}};
  if (*ns) rule->namespaces = out_one(ns);
  return true;
}

static bool out_of_scope(const request *request, kind_info kind) {
  bool is_list = strcmp(request->verb, "list") == 0, is_create = strcmp(request->verb, "create") == 0;
  const char *field = "metadata.namespace", *problem = NULL;
  if (kind.scope == NAMESPACED && !*request->key.ns && !is_list) {
    problem = ph_node_text("it is empty, but %s are namespaced: name a namespace", kind.plural);
  } else if (kind.scope == CLUSTER_SCOPED && *request->key.ns) {
    problem = ph_node_text("%s are cluster-scoped: leave the namespace out", kind.plural);
  } else if (!*request->key.name && !is_list && (!is_create || *request->subresource)) {
    field = "metadata.name";
    problem = "it is empty";
  }
  if (problem) invalid(request->error, field, "FieldValueInvalid", problem);
  return problem != NULL;
}

static void inject(const ph_error *failure, api_error *error) {
  fail_with(error, failure->code, failure->message ? failure->message : "");
  switch (failure->code) {
    case PH_CONFLICT:
      conflict(error, failure->resource_version ? failure->resource_version : "", failure->message ? failure->message : "");
      break;
    case PH_INVALID: {
      pilothouse_controller_types_cause_t *causes = ph_alloc(failure->cause_count * sizeof *causes);
      for (size_t i = 0; i < failure->cause_count; i++) {
        const ph_cause *cause = &failure->causes[i];
        causes[i] = (pilothouse_controller_types_cause_t){wit_text(cause->field), wit_text(cause->reason), wit_text(cause->message)};
      }
      error->val.invalid.ptr = causes;
      error->val.invalid.len = failure->cause_count;
      break;
    }
    case PH_DENIED: {
      static const char *const none[] = {NULL};
      const ph_rule *rule = &failure->rule;
      error->val.denied = (pilothouse_controller_types_rule_t){
        ph_out_list(rule->api_groups ? rule->api_groups : none), ph_out_list(rule->resources ? rule->resources : none),
        ph_out_list(rule->verbs ? rule->verbs : none), ph_out_list(rule->namespaces ? rule->namespaces : none)};
      break;
    }
    case PH_TOO_MANY_REQUESTS: error->val.too_many_requests = failure->retry_after; break;
    case PH_OTHER:
      other_status(error, failure->status ? failure->status : 500, failure->reason ? failure->reason : "", failure->message ? failure->message : "");
      break;
    default: break;
  }
}

/* Checks a request as the host does before it sends it, and fails it if the test said so. */
static bool begin(const request *request) {
  const char *problem;
  if (!*request->type.api_version || !*request->type.kind) {
    invalid(request->error, *request->type.api_version ? "kind" : "apiVersion", "FieldValueInvalid", "the manifest must set it");
    return false;
  }
  if ((problem = namespace_problem(request->key.ns))) {
    invalid(request->error, "metadata.namespace", "FieldValueInvalid", problem);
    return false;
  }
  if (*request->key.name && (problem = name_problem(request->key.name))) {
    invalid(request->error, "metadata.name", "FieldValueInvalid", problem);
    return false;
  }
  kind_info kind = kind_of(parent_of(request->type, request->subresource));
  if (denied(request, kind) || out_of_scope(request, kind)) return false;
  if (strcmp(request->verb, "create") != 0 && *request->subresource && !ph_equal(request->subresource, "status")) {
    fprintf(stderr, "the fake host has no subresource %s: test it with `pilothouse dev`\n", request->subresource);
    exit(1);
  }
  for (size_t i = 0; i < failure_count; i++) {
    ph_test_failure *failure = &failures[i];
    bool matches = (!failure->verb || ph_equal(failure->verb, request->verb)) && (!failure->kind || ph_equal(failure->kind, request->type.kind));
    if (!failure->times || !matches) continue;
    failure->times--;
    inject(&failure->error, request->error);
    return false;
  }
  return true;
}

static const char *verb(const char *name, const char *subresource) { return *subresource ? ph_format("%s/%s", name, subresource) : name; }

/* Records a write that succeeded, and opens its result. */
static bool wrote(const char *name, const ph_node *object, const char *subresource, ph_own *ret) {
  if (!object) return false;
  ph_type type = type_in(object);
  add_line(&writes, ph_format("%s %s %s %s%s%s", name, type.api_version, type.kind, ph_key_text(key_in(object)), *subresource ? " " : "", subresource));
  *ret = open_node(object);
  return true;
}

static const char *own_name(void) { return ph_node_member(descriptor, "name"); }

static ph_type in_type(const pilothouse_controller_client_object_type_t *type) { return (ph_type){in(&type->api_version), in(&type->kind)}; }

static ph_key in_key(const pilothouse_controller_client_object_key_t *key) { return (ph_key){in(&key->namespace_), in(&key->name)}; }

bool pilothouse_controller_client_get(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_object_key_t *key,
                                      bindings_string_t *subresource, ph_own *ret, api_error *err) {
  request get = {"get", in_type(target), in_key(key), in(subresource), err};
  did(ph_format("%s %s %s", verb("get", get.subresource), get.type.kind, ph_key_text(get.key)));
  if (!begin(&get)) return false;
  const ph_node *found = require(get.type, get.key, get.subresource, err);
  if (found) *ret = open_node(found);
  return found != NULL;
}

bool pilothouse_controller_client_list(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_list_options_t *options,
                                       pilothouse_controller_client_page_t *ret, api_error *err) {
  request list = {"list", in_type(target), {in(&options->namespace_), ""}, "", err};
  did(ph_format("list %s", list.type.kind));
  if (!begin(&list)) return false;
  const char *problem = NULL;
  selection found = select_from(list.type, list.key.ns, in(&options->label_selector), in(&options->field_selector), &problem);
  if (problem) {
    other_status(err, 400, "BadRequest", problem);
    return false;
  }
  out(&ret->next, page_of(&found, page_size(options->limit), in(&options->cursor)));
  open_selection(&found, &ret->items.ptr, &ret->items.len);
  return true;
}

/* Parses the manifest of a request; NULL with an error when it is not a JSON object. */
static ph_node *manifest(const bindings_string_t *text, api_error *error) {
  ph_node *object = ph_node_parse(in(text));
  if (object && object->type == PH_IS_OBJECT) return object;
  invalid(error, "", "FieldValueInvalid", "the manifest is not a JSON object");
  return NULL;
}

bool pilothouse_controller_client_create(bindings_string_t *text, bindings_string_t *subresource, ph_own *ret, api_error *err) {
  const char *below = in(subresource);
  did(ph_format("%s %s", verb("create", below), in(text)));
  ph_node *object = manifest(text, err);
  if (!object) return false;
  request request = {"create", type_in(object), key_in(object), below, err};
  if (!begin(&request)) return false;
  if (!*below) return wrote("create", create(object, own_name(), err), below, ret);
  /* An eviction or a token is an action, and not an object. */
  return require(parent_of(request.type, below), request.key, "", err) && wrote("create", object, below, ret);
}

bool pilothouse_controller_client_update(bindings_string_t *text, bindings_string_t *subresource, ph_own *ret, api_error *err) {
  const char *below = in(subresource);
  did(ph_format("%s %s", verb("update", below), in(text)));
  ph_node *object = manifest(text, err);
  if (!object) return false;
  request request = {"update", type_in(object), key_in(object), below, err};
  return begin(&request) && wrote("update", update(object, below, own_name(), err), below, ret);
}

static ph_node *applied(const request *request, const pilothouse_controller_client_apply_options_t *options, ph_node *body) {
  const char *own = own_name(), *given = in(&options->field_manager), *manager = *given ? given : own;
  size_t length = strlen(own);
  if (strncmp(manager, own, length) != 0 || (manager[length] && manager[length] != '/')) {
    invalid(request->error, "fieldManager", "FieldValueInvalid", ph_node_text("write \"%s\", %s/ and a name of your own, or leave it out", own, own));
    return NULL;
  }
  return server_side_apply(request->type, request->key, body, request->subresource, ph_node_text("%s apply", manager), options->force,
                           request->error);
}

bool pilothouse_controller_client_patch(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_object_key_t *key,
                                        pilothouse_controller_client_patch_type_t *patch_type, bindings_string_t *body,
                                        bindings_string_t *subresource, ph_own *ret, api_error *err) {
  static const char *const types[] = {"json", "merge", "strategic", "apply"};
  bool is_apply = patch_type->tag == PILOTHOUSE_CONTROLLER_CLIENT_PATCH_TYPE_APPLY;
  const char *type = is_apply && patch_type->val.apply.force ? "apply-force" : types[patch_type->tag];
  request request = {"patch", in_type(target), in_key(key), in(subresource), err};
  did(ph_format("%s %s %s %s %s", verb("patch", request.subresource), request.type.kind, ph_key_text(request.key), type, in(body)));
  if (!begin(&request)) return false;
  ph_node *change = ph_node_parse(in(body));
  if (!change || (is_apply && change->type != PH_IS_OBJECT)) {
    other_status(err, 400, "BadRequest", "the patch is not JSON");
    return false;
  }
  if (is_apply) return wrote("apply", applied(&request, &patch_type->val.apply, change), request.subresource, ret);
  if (patch_type->tag == PILOTHOUSE_CONTROLLER_CLIENT_PATCH_TYPE_STRATEGIC) {
    fprintf(stderr, "the fake host supports JSON and merge patches and server-side apply, but no strategic patches\n");
    exit(1);
  }
  bool is_json = patch_type->tag == PILOTHOUSE_CONTROLLER_CLIENT_PATCH_TYPE_JSON;
  ph_node *result = patch(request.type, request.key, is_json, change, request.subresource, own_name(), err);
  return wrote("patch", result, request.subresource, ret);
}

bool pilothouse_controller_client_delete(pilothouse_controller_client_object_type_t *target, pilothouse_controller_client_object_key_t *key,
                                         pilothouse_controller_client_delete_options_t *options, api_error *err) {
  request request = {"delete", in_type(target), in_key(key), "", err};
  const char *name = ph_key_text(request.key);
  did(ph_format("delete %s %s", request.type.kind, name));
  if (!begin(&request) || !delete_object(request.type, request.key, in(&options->uid), in(&options->resource_version), err)) return false;
  add_line(&writes, ph_format("delete %s %s %s", request.type.api_version, request.type.kind, name));
  return true;
}

/* ---- effects ---- */

static const char *queued(const char *function, const bindings_string_t *watch, const pilothouse_controller_queue_object_key_t *wit_key) {
  ph_key key = {in(&wit_key->namespace_), in(&wit_key->name)};
  const char *problem = namespace_problem(key.ns);
  if (!problem) problem = name_problem(key.name);
  if (problem) trap(ph_format("%s takes keys of objects: %s", function, problem));
  if (!ph_equal(ph_node_member(watch_of(in(watch)), "trigger"), "self")) {
    const ph_node *watches = ph_node_get(descriptor, "watches");
    ph_buffer targets = {0};
    for (size_t i = 0; i < watches->count; i++) {
      if (!ph_equal(ph_node_member(watches->items[i], "trigger"), "self")) continue;
      ph_append(&targets, "%s%s", targets.length ? ", " : "", ph_node_member(watches->items[i], "name"));
    }
    trap(ph_format("watch \"%s\" is not a target (its trigger isn't self): targets are %s", in(watch),
                   targets.length ? ph_buffer_text(&targets) : "none"));
  }
  return ph_format("queue %s %s", in(watch), ph_key_text(key));
}

void pilothouse_controller_queue_add(bindings_string_t *watch, pilothouse_controller_queue_object_key_t *key) {
  did(queued("queue.add", watch, key));
}

void pilothouse_controller_queue_add_after(bindings_string_t *watch, pilothouse_controller_queue_object_key_t *key, uint32_t milliseconds) {
  did(ph_format("%s %u", queued("queue.add-after", watch, key), (unsigned)milliseconds));
}

void pilothouse_controller_events_publish(borrowed regarding, uint8_t type, bindings_string_t *reason, bindings_string_t *action,
                                          bindings_string_t *note) {
  static const char *const types[] = {"normal", "warning"};
  const char *json = json_of(regarding), *ns = ph_json_text_at(json, "/metadata/namespace");
  (void)action;
  did(ph_format("event %s %s %s: %s", types[type], in(reason), ph_key_text((ph_key){ns, ph_json_text_at(json, "/metadata/name")}), in(note)));
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
