/* The acceptance plugin in C, as specified by ../README.md. */
#include <pilothouse.h>
#include <string.h>

#include "script.h"

#define ALL_VERBS PH_LIST("get", "list", "create", "update", "patch", "delete")

static const ph_plugin plugin = {
  .name = "acceptance-c",
  .version = "0.1.0",
  .watches = (const ph_watch[]){
    {.name = "scripts", .api_version = "v1", .kind = "ConfigMap", .label_selector = "test=acceptance", .trigger = PH_TRIGGERS_ITSELF},
    {.name = "items", .api_version = "v1", .kind = "ConfigMap", .label_selector = "test=acceptance-item", .notify = true,
     .indexes = (const ph_index[]){{.name = "byGroup", .field = "{.data.group}"}, {.name = "byWord", .computed = true}, {0}}},
    {.name = "namespaces", .api_version = "v1", .kind = "Namespace"},
    {.name = "deployments", .api_version = "apps/v1", .kind = "Deployment", .label_selector = "test=acceptance-item"},
    {0}},
  .writes = (const ph_rule[]){
    {.api_groups = PH_LIST(""), .resources = PH_LIST("configmaps"), .verbs = ALL_VERBS},
    {.api_groups = PH_LIST("apps"), .resources = PH_LIST("deployments", "deployments/status", "deployments/scale"), .verbs = ALL_VERBS},
    {0}},
};

static ph_description describe(const char *config) {
  const char *fail = ph_json_text_at(config, "/fail");
  return fail ? ph_refuse("%s", fail) : ph_describe_as(&plugin);
}

answer value(const char *text) { return (answer){text, ph_done()}; }

const char *or_none(const char *text, const char *none) { return text ? text : none; }

answer api_error(void) {
  const ph_error *error = ph_last_error();
  switch (error->code) {
    case PH_NOT_FOUND: return value("not-found");
    case PH_ALREADY_EXISTS: return value("already-exists");
    case PH_CONFLICT: return value("conflict");
    case PH_INVALID: return value(ph_format("invalid:%s", error->cause_count ? error->causes[0].field : ""));
    case PH_FORBIDDEN: return value("forbidden");
    case PH_DENIED: return value(ph_format("denied:%s %s", error->rule.verbs[0], error->rule.resources[0]));
    case PH_TOO_MANY_REQUESTS: return value(ph_format("too-many-requests:%u", (unsigned)error->retry_after));
    case PH_UNAVAILABLE: return value("unavailable");
    default: return value(ph_format("other:%u", (unsigned)error->status));
  }
}

const char *keys_of(ph_object *const *items, size_t count) {
  ph_buffer text = {0};
  for (size_t i = 0; i < count; i++) ph_append(&text, "%s%s", i ? " " : "", ph_key_text(ph_object_key(items[i])));
  return ph_buffer_text(&text);
}

static const operation *find(const char *op) {
  const operation *const lists[] = {cache_operations, client_operations, effect_operations, outcome_operations};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    for (const operation *known = lists[i]; known->op; known++) {
      if (ph_equal(known->op, op)) return known;
    }
  }
  return NULL;
}

static const char *argument(const ph_object *object, const char *name) {
  return or_none(ph_text(object, ph_format("/data/%s", name)), "");
}

static ph_outcome reconcile(const ph_request *request) {
  ph_object *object = ph_cache_get("scripts", request->key);
  if (!object) return ph_done();
  script script = {request, object, argument(object, "op"), argument(object, "a"), argument(object, "b"), argument(object, "c"),
                   argument(object, "d"), argument(object, "e"), argument(object, "f"), argument(object, "g"), argument(object, "body")};
  const operation *operation = find(script.op);
  if (!operation) return ph_terminal("no operation %s", script.op);
  answer answer = operation->run(&script);
  if (answer.value) ph_log(PH_INFO, "result", PH_PAIRS({"op", script.op}, {"value", answer.value}));
  return answer.outcome;
}

static ph_outcome observe(const ph_notification *notifications, size_t count, const ph_batch *batch) {
  static const char *const changes[] = {"added", "updated", "deleted", "resync"};
  for (size_t i = 0; i < count; i++) {
    const ph_notification *notification = &notifications[i];
    ph_object *before = ph_before(batch, i), *after = ph_after(batch, i);
    if (after && ph_equal(ph_text(after, "/data/value"), "trap")) ph_panic("asked to trap");
    ph_log(PH_INFO, "observed",
           PH_PAIRS({"watch", notification->watch}, {"key", ph_key_text(notification->key)}, {"change", changes[notification->change]},
                    {"initial", notification->initial ? "true" : "false"}, {"unknown", notification->final_state_unknown ? "true" : "false"},
                    {"before", or_none(before ? ph_text(before, "/data/value") : NULL, "-")},
                    {"after", or_none(ph_after_field(batch, i, "/data/value"), "-")}));
  }
  return ph_done();
}

static void values(const char *index, ph_object *object, ph_values *values) {
  const char *words = ph_text(object, "/data/words");
  if (!ph_equal(index, "byWord") || !words) return;
  while (*words) {
    size_t length = strcspn(words, " ");
    const char *word = ph_copy(words, length);
    if (ph_equal(word, "trap")) ph_panic("asked to trap");
    if (length) ph_value(values, word);
    words += length + (words[length] == ' ');
  }
}

PH_DESCRIBE(describe)
PH_RECONCILE(reconcile)
PH_OBSERVE(observe)
PH_INDEX(values)
