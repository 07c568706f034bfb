/* The descriptor as JSON. */
#include "internal.h"

static void put_list(ph_json *json, const char *key, const char *const *items) {
  if (!items) return;
  ph_json_array(json, key);
  for (; *items; items++) ph_json_string(json, NULL, *items);
  ph_json_close(json);
}

static void put_trigger(ph_json *json, const ph_trigger *trigger) {
  static const char *const names[] = {NULL, "self", "owner", "ownerAny", "label", "field", "index", "namespace"};
  static const char *const at[] = {NULL, NULL, NULL, NULL, "key", "path", "index", NULL};
  if (trigger->kind == PH_CACHE_ONLY) return;
  if (trigger->kind == PH_SELF) {
    ph_json_string(json, "trigger", "self");
    return;
  }
  ph_json_object(json, "trigger");
  ph_json_object(json, names[trigger->kind]);
  ph_json_string(json, "watch", trigger->watch);
  if (at[trigger->kind]) ph_json_string(json, at[trigger->kind], trigger->at);
  ph_json_string(json, "namespacePath", trigger->ns_path);
  ph_json_close(json);
  ph_json_close(json);
}

static void put_index(ph_json *json, const ph_index *index) {
  ph_json_object(json, NULL);
  ph_json_string(json, "name", index->name);
  ph_json_string(json, "label", index->label);
  ph_json_string(json, "annotation", index->annotation);
  ph_json_string(json, "field", index->field);
  if (index->owner) ph_json_bool(json, "owner", true);
  if (index->computed) ph_json_bool(json, "computed", true);
  ph_json_close(json);
}

static void put_watch(ph_json *json, const ph_watch *watch) {
  ph_json_object(json, NULL);
  ph_json_string(json, "name", watch->name);
  ph_json_string(json, "apiVersion", watch->api_version);
  ph_json_string(json, "kind", watch->kind);
  ph_json_string(json, "resource", watch->resource);
  put_list(json, "namespaces", watch->namespaces);
  ph_json_string(json, "labelSelector", watch->label_selector);
  ph_json_string(json, "fieldSelector", watch->field_selector);
  if (watch->metadata_only) ph_json_string(json, "projection", "metadata");
  put_trigger(json, &watch->trigger);
  ph_json_string(json, "predicate", watch->predicate);
  if (watch->notify) ph_json_bool(json, "notify", true);
  if (watch->resync) ph_json_integer(json, "resync", watch->resync);
  if (watch->indexes) {
    ph_json_array(json, "indexes");
    for (const ph_index *index = watch->indexes; index->name; index++) put_index(json, index);
    ph_json_close(json);
  }
  ph_json_close(json);
}

static void put_rule(ph_json *json, const ph_rule *rule) {
  ph_json_object(json, NULL);
  put_list(json, "apiGroups", rule->api_groups);
  put_list(json, "resources", rule->resources);
  put_list(json, "verbs", rule->verbs);
  put_list(json, "namespaces", rule->namespaces);
  ph_json_close(json);
}

static void put_limits(ph_json *json, const ph_plugin *plugin) {
  ph_json_object(json, "limits");
  ph_json_string(json, "memory", plugin->limits.memory);
  ph_json_string(json, "reconcileTimeout", plugin->limits.reconcile_timeout);
  ph_json_string(json, "observeTimeout", plugin->limits.observe_timeout);
  if (plugin->limits.handles) ph_json_integer(json, "handles", plugin->limits.handles);
  ph_json_close(json);
}

ph_description ph_describe_as(const ph_plugin *plugin) {
  ph_json json = {0};
  ph_json_object(&json, NULL);
  ph_json_string(&json, "apiVersion", "pilothouse.dev/v1alpha1");
  ph_json_string(&json, "kind", "Plugin");
  ph_json_string(&json, "name", plugin->name);
  ph_json_string(&json, "version", plugin->version);
  ph_json_string(&json, "summary", plugin->summary);
  ph_json_array(&json, "watches");
  for (const ph_watch *watch = plugin->watches; watch && watch->name; watch++) put_watch(&json, watch);
  ph_json_close(&json);
  ph_json_array(&json, "writes");
  for (const ph_rule *rule = plugin->writes; rule && rule->resources; rule++) put_rule(&json, rule);
  ph_json_close(&json);
  ph_json_array(&json, "crds");
  for (const char *const *crd = plugin->crds; crd && *crd; crd++) ph_json_raw(&json, NULL, *crd);
  ph_json_close(&json);
  if (plugin->stateful) ph_json_bool(&json, "stateful", true);
  put_limits(&json, plugin);
  return (ph_description){ph_json_text(&json), false};
}

ph_description ph_refuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ph_description refusal = {ph_vformat(format, arguments), true};
  va_end(arguments);
  return refusal;
}
