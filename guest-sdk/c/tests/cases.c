/* Runs the specification of the fake cluster, guest-sdk/testing/cases.json, whose format guest-sdk/testing/README.md describes. Run natively by
 * xtask/tests/c_sdk.rs in guest-sdk/c. */
#include <setjmp.h>
#include <string.h>

#include "../src/internal.h"
#include "../testing/json.h"
#include "../testing/pilothouse_test.h"

static const ph_node *plugin;
/* The variables, by their names with "$". */
static ph_node *variables;
static const char *case_name, *operation;
static size_t step_number;

_Noreturn static void fail(const char *problem) {
  fprintf(stderr, "%s\n  step %zu, %s: %s\n", case_name, step_number, operation, problem);
  exit(1);
}

static jmp_buf trapped;
static const char *trap_message;

_Noreturn static void take_trap(const char *message) {
  trap_message = ph_node_text("%s", message);
  longjmp(trapped, 1);
}

/* ---- Patterns ---- */

static const char *shown(const ph_node *node) { return node ? ph_node_json(node) : "nothing"; }

static void expect(const ph_node *pattern, const ph_node *found, const char *where) {
  const char *text = pattern->type == PH_IS_STRING ? pattern->text : "", *value = found && found->type == PH_IS_STRING ? found->text : NULL;
  bool fits = true;
  if (pattern->type == PH_IS_NULL) {
    fits = !found || found->type == PH_IS_NULL;
  } else if (pattern->type == PH_IS_OBJECT) {
    fits = found && found->type == PH_IS_OBJECT;
    for (size_t i = 0; fits && i < pattern->count; i++) {
      expect(pattern->items[i], ph_node_get(found, pattern->names[i]), ph_node_text("%s.%s", where, pattern->names[i]));
    }
  } else if (pattern->type == PH_IS_ARRAY) {
    fits = found && found->type == PH_IS_ARRAY && found->count == pattern->count;
    for (size_t i = 0; fits && i < pattern->count; i++) expect(pattern->items[i], found->items[i], ph_node_text("%s[%zu]", where, i));
  } else if (*text == '!') {
    const ph_node *variable = ph_node_get(variables, text + 1);
    fits = value && *value && strcmp(value, variable ? variable->text : text + 1) != 0;
  } else if (*text == '$') {
    if (value && !ph_node_get(variables, text)) ph_node_set(variables, text, ph_node_string(value));
    fits = value && strcmp(ph_node_member(variables, text), value) == 0;
  } else {
    fits = ph_node_same(pattern, found);
  }
  if (!fits) fail(ph_node_text("%s is %s, not %s (variables %s)", where, shown(found), ph_node_json(pattern), ph_node_json(variables)));
}

/* Replaces variables by their values. */
static ph_node *filled(const ph_node *node) {
  const ph_node *variable = node->type == PH_IS_STRING ? ph_node_get(variables, node->text) : NULL;
  ph_node *copy = ph_node_clone(variable ? variable : node);
  for (size_t i = 0; i < copy->count; i++) copy->items[i] = filled(copy->items[i]);
  return copy;
}

/* ---- Results and errors as trees ---- */

static ph_node *parsed(const char *json) {
  ph_node *node = ph_node_parse(json);
  if (!node) fail(ph_node_text("no JSON: %s", json));
  return node;
}

static ph_node *list(void) { return parsed("[]"); }

static void append(ph_node *array, ph_node *value) { ph_node_insert(array, array->count, value); }

static ph_node *strings(const char *const *items) {
  ph_node *array = list();
  for (; items && *items; items++) append(array, ph_node_string(*items));
  return array;
}

static ph_node *keys(ph_object *const *objects, size_t count) {
  ph_node *array = list();
  for (size_t i = 0; i < count; i++) append(array, ph_node_string(ph_key_text(ph_object_key(objects[i]))));
  return array;
}

static ph_node *page(ph_page found) {
  ph_node *result = ph_node_object();
  ph_node_set(result, "keys", keys(found.items, found.count));
  ph_node_set(result, "next", ph_node_string(found.next));
  return result;
}

/* Splits a text into lines, each converted by a function. */
static ph_node *lines(const char *text, ph_node *convert(const char *line)) {
  ph_node *array = list();
  while (*text) {
    size_t length = strcspn(text, "\n");
    ph_node *value = convert(ph_node_text("%.*s", (int)length, text));
    if (value) append(array, value);
    text += length + 1;
  }
  return array;
}

static ph_node *whole(const char *line) { return ph_node_string(line); }

static ph_node *event(const char *line) {
  char type[32], reason[64], key[64];
  int length;
  if (sscanf(line, "event %31s %63s %63[^:]: %n", type, reason, key, &length) != 3) return NULL;
  ph_node *found = ph_node_object();
  ph_node_set(found, "type", ph_node_string(type));
  ph_node_set(found, "reason", ph_node_string(reason));
  ph_node_set(found, "key", ph_node_string(key));
  ph_node_set(found, "note", ph_node_string(line + length));
  return found;
}

static ph_node *queued(const char *line) {
  char watch[32], key[64];
  long after = 0;
  if (sscanf(line, "queue %31s %63s %ld", watch, key, &after) < 2) return NULL;
  ph_node *found = ph_node_object();
  ph_node_set(found, "watch", ph_node_string(watch));
  ph_node_set(found, "key", ph_node_string(key));
  ph_node_set(found, "after", ph_node_number(after));
  return found;
}

static const char *const codes[] = {"ok",     "not-found",         "already-exists", "conflict", "invalid", "forbidden",
                                    "denied", "too-many-requests", "unavailable",    "other"};

static ph_node *last_error(void) {
  const ph_error *error = ph_last_error();
  ph_node *found = ph_node_object(), *causes = list();
  for (size_t i = 0; i < error->cause_count; i++) {
    ph_node *cause = ph_node_object();
    ph_node_set(cause, "field", ph_node_string(error->causes[i].field));
    ph_node_set(cause, "reason", ph_node_string(error->causes[i].reason));
    ph_node_set(cause, "message", ph_node_string(error->causes[i].message));
    append(causes, cause);
  }
  ph_node *rule = ph_node_ensure(found, "rule");
  ph_node_set(rule, "apiGroups", strings(error->rule.api_groups));
  ph_node_set(rule, "resources", strings(error->rule.resources));
  ph_node_set(rule, "verbs", strings(error->rule.verbs));
  ph_node_set(rule, "namespaces", strings(error->rule.namespaces));
  ph_node_set(found, "causes", causes);
  ph_node_set(found, "code", ph_node_string(codes[error->code]));
  ph_node_set(found, "message", ph_node_string(error->message));
  ph_node_set(found, "resourceVersion", ph_node_string(error->resource_version));
  ph_node_set(found, "retryAfter", ph_node_number(error->retry_after));
  ph_node_set(found, "status", ph_node_number(error->status));
  ph_node_set(found, "reason", ph_node_string(error->reason));
  return found;
}

/* ---- Operations ---- */

static const char *member(const ph_node *node, const char *name) { return ph_node_member(node, name); }

static ph_type type_in(const ph_node *ref) { return (ph_type){member(ref, "apiVersion"), member(ref, "kind")}; }

static ph_key key_in(const ph_node *ref) {
  const char *text = member(ref, "key"), *slash = strchr(text, '/');
  if (!slash) return (ph_key){"", text};
  return (ph_key){ph_node_text("%.*s", (int)(slash - text), text), slash + 1};
}

static ph_filter filter_in(const ph_node *ref) {
  return (ph_filter){member(ref, "namespace"), member(ref, "labels"), (uint32_t)ph_node_integer(ref, "limit"), member(ref, "cursor")};
}

static const char *const *strings_in(const ph_node *array) {
  const char **items = ph_node_alloc(((array ? array->count : 0) + 1) * sizeof *items);
  for (size_t i = 0; array && i < array->count; i++) items[i] = array->items[i]->text;
  return items;
}

static void make_fail(const ph_node *ref) {
  const ph_node *error = ph_node_get(ref, "error"), *causes = ph_node_get(error, "causes"), *rule = ph_node_get(error, "rule");
  ph_test_failure failure = {.times = (unsigned)ph_node_integer(ref, "times")};
  if (ph_node_get(ref, "verb")) failure.verb = member(ref, "verb");
  if (ph_node_get(ref, "kind")) failure.kind = member(ref, "kind");
  while (strcmp(codes[failure.error.code], member(error, "code")) != 0) failure.error.code++;
  failure.error.message = member(error, "message");
  failure.error.resource_version = member(error, "resourceVersion");
  failure.error.retry_after = (uint32_t)ph_node_integer(error, "retryAfter");
  failure.error.status = (uint16_t)ph_node_integer(error, "status");
  failure.error.reason = member(error, "reason");
  failure.error.cause_count = causes ? causes->count : 0;
  ph_cause *list = ph_node_alloc(failure.error.cause_count * sizeof *list);
  for (size_t i = 0; i < failure.error.cause_count; i++) {
    list[i] = (ph_cause){member(causes->items[i], "field"), member(causes->items[i], "reason"), member(causes->items[i], "message")};
  }
  failure.error.causes = list;
  failure.error.rule = (ph_rule){strings_in(ph_node_get(rule, "apiGroups")), strings_in(ph_node_get(rule, "resources")),
                                 strings_in(ph_node_get(rule, "verbs")), strings_in(ph_node_get(rule, "namespaces"))};
  ph_test_fail_requests(failure);
}

/* The step's answer and the request that the plugin received, for the operation `reconcile`. */
static const ph_node *answer;
static ph_node *received;

static ph_outcome reconcile(const ph_request *request) {
  ph_node *reasons = list();
  for (size_t i = 0; i < request->reason_count; i++) append(reasons, ph_node_string(ph_reason_text((ph_reason)request->reasons[i])));
  received = ph_node_object();
  ph_node_set(received, "watch", ph_node_string(request->watch));
  ph_node_set(received, "key", ph_node_string(ph_key_text(request->key)));
  ph_node_set(received, "reasons", reasons);
  ph_node_set(received, "attempt", ph_node_number(request->attempt));
  if (ph_node_get(answer, "requeueAfter")) return ph_requeue_after((uint32_t)ph_node_integer(answer, "requeueAfter"));
  if (ph_node_get(answer, "retry")) return ph_retry("%s", member(answer, "retry"));
  if (ph_node_get(answer, "terminal")) return ph_terminal("%s", member(answer, "terminal"));
  return ph_done();
}

static ph_node *run_reconcile(const ph_node *ref, const ph_node *step) {
  const char *const *names = strings_in(ph_node_get(ref, "reasons"));
  uint8_t reasons[8] = {PH_REASON_UPDATED};
  size_t count = 0;
  for (; names[count]; count++) {
    for (reasons[count] = 0; strcmp(ph_reason_text((ph_reason)reasons[count]), names[count]) != 0;) reasons[count]++;
  }
  answer = ph_node_get(step, "answer");
  const ph_request request = {.watch = member(ref, "watch"), .key = key_in(ref), .reasons = reasons, .reason_count = count ? count : 1,
                              .attempt = (uint32_t)ph_node_integer(ref, "attempt")};
  ph_outcome outcome = reconcile(&request);
  if (ph_node_get(step, "sees")) expect(ph_node_get(step, "sees"), received, "the request");
  ph_node *result = ph_node_object();
  switch (outcome.kind) {
    case PH_OUTCOME_DONE: ph_node_set(result, "done", parsed("true")); break;
    case PH_OUTCOME_REQUEUE: ph_node_set(result, "requeueAfter", ph_node_number(outcome.milliseconds)); break;
    case PH_OUTCOME_RETRY: ph_node_set(result, "retry", ph_node_string(outcome.text)); break;
    default: ph_node_set(result, "terminal", ph_node_string(outcome.text));
  }
  return result;
}

/* The operations of the test. Returns false for one of the plugin. */
static bool of_test(const ph_node *argument, const ph_node *step, ph_node **result) {
  if (strcmp(operation, "put") == 0) {
    *result = parsed(ph_test_put(ph_node_json(argument)));
  } else if (strcmp(operation, "remove") == 0) {
    ph_test_remove(type_in(argument), key_in(argument));
  } else if (strcmp(operation, "stored") == 0) {
    const char *found = ph_test_stored(type_in(argument), key_in(argument));
    *result = found ? parsed(found) : NULL;
  } else if (strcmp(operation, "fail") == 0) {
    make_fail(argument);
  } else if (strcmp(operation, "events") == 0) {
    expect(argument, lines(ph_test_done(), event), "the Events");
  } else if (strcmp(operation, "queued") == 0) {
    expect(argument, lines(ph_test_done(), queued), "the queue");
  } else if (strcmp(operation, "writes") == 0) {
    expect(argument, lines(ph_test_writes(), whole), "the writes");
  } else if (strcmp(operation, "reconcile") == 0) {
    *result = run_reconcile(argument, step);
  } else {
    return false;
  }
  return true;
}

/* A server-side apply with a field manager, for which the SDK has no function. */
static ph_code apply_as(const char *manager, ph_type type, ph_key key, bool force, const char *body, const char *subresource, ph_object **object) {
  pilothouse_controller_types_object_type_t target = {ph_out(type.api_version), ph_out(type.kind)};
  ph_wit_key out = ph_out_key(key);
  pilothouse_controller_client_patch_type_t patch_type = {.tag = PILOTHOUSE_CONTROLLER_CLIENT_PATCH_TYPE_APPLY};
  patch_type.val.apply.field_manager = ph_out(manager);
  patch_type.val.apply.force = force;
  ph_wit_string text = ph_out(body), below = ph_out(subresource);
  ph_own own;
  pilothouse_controller_client_api_error_t error;
  if (!pilothouse_controller_client_patch(&target, &out, &patch_type, &text, &below, &own, &error)) return ph_failed(&error);
  *object = ph_opened(own);
  return PH_OK;
}

/* The requests of the plugin. Returns false for another operation. */
static bool request(const ph_node *argument, const ph_node *step, ph_code *code, ph_node **result) {
  ph_type type = type_in(argument);
  ph_key key = key_in(argument);
  const char *json = ph_node_json(argument), *subresource = member(step, "subresource");
  ph_object *object = NULL;
  if (strcmp(operation, "create") == 0) {
    *code = ph_client_create(json, subresource, &object);
  } else if (strcmp(operation, "update") == 0) {
    *code = ph_client_update(json, subresource, &object);
  } else if (strcmp(operation, "patch") == 0) {
    ph_patch_type patch_type = strcmp(member(argument, "type"), "json") == 0 ? PH_JSON_PATCH : PH_MERGE_PATCH;
    *code = ph_client_patch(type, key, patch_type, ph_node_json(ph_node_get(argument, "body")), subresource, &object);
  } else if (strcmp(operation, "apply") == 0) {
    const ph_node *metadata = ph_node_get(argument, "metadata");
    ph_key named = {member(metadata, "namespace"), member(metadata, "name")};
    const ph_node *force = ph_node_get(step, "force");
    *code = apply_as(member(step, "fieldManager"), type, named, force && force->type == PH_IS_TRUE, json, subresource, &object);
  } else if (strcmp(operation, "delete") == 0) {
    const char *propagation = member(argument, "propagation");
    ph_propagation policy = strcmp(propagation, "foreground") == 0 ? PH_FOREGROUND : strcmp(propagation, "orphan") == 0 ? PH_ORPHAN : PH_BACKGROUND;
    *code = ph_client_delete(type, key, (ph_delete_options){policy, member(argument, "uid"), member(argument, "resourceVersion")});
  } else if (strcmp(operation, "get") == 0) {
    *code = ph_client_get(type, key, subresource, &object);
  } else if (strcmp(operation, "list") == 0) {
    ph_filter filter = filter_in(argument);
    ph_page found;
    *code = ph_client_list(type, (ph_list_options){filter.ns, filter.label_selector, member(argument, "fields"), filter.limit, filter.cursor}, &found);
    if (!*code) *result = page(found);
  } else {
    return false;
  }
  if (object) *result = parsed(ph_object_json(object));
  return true;
}

static ph_node *fields(const ph_node *argument) {
  ph_rows found = ph_cache_fields(member(argument, "watch"), filter_in(argument), strings_in(ph_node_get(argument, "pointers")));
  ph_node *rows = list();
  for (size_t i = 0; i < found.count; i++) {
    ph_node *row = ph_node_object(), *values = list();
    for (size_t j = 0; j < ph_node_get(argument, "pointers")->count; j++) {
      append(values, parsed(found.items[i].values[j] ? found.items[i].values[j] : "null"));
    }
    ph_node_set(row, "key", ph_node_string(ph_key_text(found.items[i].key)));
    ph_node_set(row, "values", values);
    append(rows, row);
  }
  return rows;
}

/* The other operations of the plugin. */
static void perform(const ph_node *argument, ph_node **result) {
  const char *watch = member(argument, "watch"), *index = member(argument, "index"), *value = member(argument, "value");
  if (strcmp(operation, "cacheGet") == 0) {
    const ph_object *found = ph_cache_get(watch, key_in(argument));
    *result = found ? parsed(ph_object_json(found)) : NULL;
  } else if (strcmp(operation, "cacheList") == 0) {
    *result = page(ph_cache_list(watch, filter_in(argument)));
  } else if (strcmp(operation, "cacheFields") == 0) {
    *result = fields(argument);
  } else if (strcmp(operation, "byIndex") == 0) {
    ph_objects found = ph_cache_by_index(watch, index, value);
    *result = keys(found.items, found.count);
  } else if (strcmp(operation, "indexKeys") == 0) {
    ph_keys found = ph_cache_index_keys(watch, index, value);
    *result = list();
    for (size_t i = 0; i < found.count; i++) append(*result, ph_node_string(ph_key_text(found.items[i])));
  } else if (strcmp(operation, "indexValues") == 0) {
    *result = strings(ph_cache_index_values(watch, index).items);
  } else if (strcmp(operation, "queueAdd") == 0) {
    if (ph_node_get(argument, "after")) {
      ph_queue_add_after(watch, key_in(argument), (uint32_t)ph_node_integer(argument, "after"));
    } else {
      ph_queue_add(watch, key_in(argument));
    }
  } else if (strcmp(operation, "publish") == 0) {
    bool warning = strcmp(member(argument, "type"), "warning") == 0;
    const ph_object *about = ph_cache_get(watch, key_in(argument));
    (warning ? ph_event_warning : ph_event_normal)(about, member(argument, "reason"), member(argument, "action"), "%s", member(argument, "note"));
  } else {
    fail("the runner does not know this operation");
  }
}

static void run_step(const ph_node *step) {
  operation = step->names[0];
  const ph_node *argument = filled(step->items[0]), *error = ph_node_get(step, "error"), *traps = ph_node_get(step, "traps");
  static ph_node *result;
  static ph_code code;
  result = NULL;
  code = PH_OK;
  ph_test_on_trap(take_trap);
  if (setjmp(trapped)) {
    if (!traps || !strstr(trap_message, traps->text)) fail(trap_message);
    return;
  }
  if (!of_test(argument, step, &result) && !request(argument, step, &code, &result)) perform(argument, &result);
  if (traps) fail("it did not trap");
  if (error && !code) fail(ph_node_text("it returned %s", shown(result)));
  if (!error && code) fail(ph_last_error()->message);
  if (error) expect(error, last_error(), "the error");
  if (!error && ph_node_get(step, "returns")) expect(ph_node_get(step, "returns"), result, "the result");
}

static ph_description describe(const char *config) {
  (void)config;
  return (ph_description){ph_node_json(plugin), false};
}

static void values(const char *index, ph_object *object, ph_values *out) {
  (void)index;
  const char *words = ph_text(object, "/data/words");
  while (words && *words) {
    size_t length = strcspn(words, " ");
    if (length) ph_value(out, ph_copy(words, length));
    words += length + (words[length] == ' ');
  }
}

/* Returns the contents of a file. */
static char *contents(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  size_t length = 0, capacity = 1 << 20;
  char *text = malloc(capacity);
  for (size_t read; (read = fread(text + length, 1, capacity - length - 1, file)); text = realloc(text, capacity)) {
    length += read;
    if (capacity - length < 1024) capacity *= 2;
  }
  text[length] = 0;
  fclose(file);
  return text;
}

int main(int count, char **arguments) {
  char *text = contents(count > 1 ? arguments[1] : "../testing/cases.json");
  for (size_t i = 0;; i++) {
    ph_test_begin();
    /* Parsed for each case, because the host frees all trees when a test begins. */
    const ph_node *table = ph_node_parse(text), *cases = ph_node_get(table, "cases");
    PH_CHECK(cases && cases->count);
    if (i == cases->count) break;
    plugin = ph_node_get(table, "plugin");
    variables = ph_node_object();
    case_name = member(cases->items[i], "name");
    ph_test_plugin(describe);
    ph_test_indexed_by(values);
    const ph_node *steps = ph_node_get(cases->items[i], "steps");
    for (step_number = 1; step_number <= steps->count; step_number++) run_step(steps->items[step_number - 1]);
    printf("ok %s\n", case_name);
  }
  free(text);
  return 0;
}
