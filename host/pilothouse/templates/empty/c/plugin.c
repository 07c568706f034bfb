/* A controller for Pilothouse. */
#include <pilothouse.h>

static const ph_plugin plugin = {
  .name = "{{name}}",
  .version = "0.1.0",
  .watches = (const ph_watch[]){
    {.name = "configmaps", .api_version = "v1", .kind = "ConfigMap", .trigger = PH_TRIGGERS_ITSELF},
    {0}},
};

static ph_description describe(const char *config) {
  (void)config;
  return ph_describe_as(&plugin);
}

static ph_outcome reconcile(const ph_request *request) {
  if (ph_cache_get("configmaps", request->key)) ph_info("hello, %s", ph_key_text(request->key));
  return ph_done();
}

PH_DESCRIBE(describe)
PH_RECONCILE(reconcile)
