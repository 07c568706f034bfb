// A plugin in C++ and its test: the headers compile as C++, and the exports link with the SDK, which is compiled as C.
#include <cstring>

#include "../testing/pilothouse_test.h"

static const char *const groups[] = {"", nullptr};
static const char *const resources[] = {"configmaps", nullptr};
static const char *const verbs[] = {"patch", nullptr};
static const ph_rule writes[] = {{groups, resources, verbs, nullptr}, {}};
static const ph_index indexes[] = {{"by-app", "app", nullptr, nullptr, false, false}, {}};

static ph_watch watch(const char *name, const char *kind, ph_trigger trigger) {
  ph_watch watch = {};
  watch.name = name;
  watch.api_version = "v1";
  watch.kind = kind;
  watch.trigger = trigger;
  watch.indexes = indexes;
  return watch;
}

static const ph_watch watches[] = {
  watch("maps", "ConfigMap", PH_TRIGGERS_ITSELF),
  watch("owned", "Pod", PH_TRIGGERS_OWNER("maps")),
  watch("owned-by-any", "Secret", PH_TRIGGERS_ANY_OWNER("maps")),
  watch("labelled", "Service", PH_TRIGGERS_BY_LABEL("map", "maps")),
  watch("naming", "Endpoints", PH_TRIGGERS_BY_FIELD(".spec.map", nullptr, "maps")),
  watch("indexed", "ServiceAccount", PH_TRIGGERS_BY_INDEX("maps", "by-app")),
  watch("namespaces", "Namespace", PH_TRIGGERS_NAMESPACE("maps")),
  {},
};

static ph_description describe(const char *) {
  ph_plugin plugin = {};
  plugin.name = "cpp";
  plugin.version = "1";
  plugin.watches = watches;
  plugin.writes = writes;
  return ph_describe_as(&plugin);
}

static ph_outcome reconcile(const ph_request *request) {
  ph_object *map = ph_cache_get("maps", request->key);
  if (!map) return ph_done();
  const char *const *values = ph_texts(map, PH_LIST("/kind", "/metadata/name"));
  ph_log(PH_INFO, "found", PH_PAIRS({"kind", values[0]}, {"name", values[1]}));
  ph_gauge("found", PH_NO_PAIRS, 1);
  ph_code code = ph_client_patch(ph_type{"v1", "ConfigMap"}, request->key, PH_MERGE_PATCH, PH_JSON({"data": {"seen": "yes"}}), nullptr, nullptr);
  return ph_checked(code, "mark the ConfigMap");
}

static ph_outcome observe(const ph_notification *notifications, size_t count, const ph_batch *) {
  if (count && !notifications[0].watch) ph_panic("a notification without a watch");
  return ph_done();
}

static void values(const char *, ph_object *object, ph_values *values) { ph_value(values, ph_object_kind(object)); }

PH_DESCRIBE(describe)
PH_RECONCILE(reconcile)
PH_OBSERVE(observe)
PH_INDEX(values)

int main() {
  ph_test_begin();
  ph_test_plugin(describe);
  ph_test_put(PH_JSON({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "web", "name": "one"}}));
  ph_request request = {};
  request.watch = "maps";
  request.key = ph_key{"web", "one"};
  reconcile(&request);
  PH_CHECK_TEXT(ph_test_writes(), "patch v1 ConfigMap web/one\n");
  PH_CHECK(std::strstr(ph_test_done(), "log info found") != nullptr);
  printf("ok a_plugin_in_c_plus_plus_reconciles\n");
  return 0;
}
