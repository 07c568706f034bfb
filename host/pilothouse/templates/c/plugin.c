/* A controller that runs a Deployment for every Foo.

   A Foo names a Deployment and its number of replicas. The plugin creates the Deployment, reverts changes to it, recreates it when it
   is deleted, and reports the number of available replicas. */
#include <pilothouse.h>

static const char foo_crd[] = PH_JSON({
  "apiVersion": "apiextensions.k8s.io/v1",
  "kind": "CustomResourceDefinition",
  "metadata": {
    "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
    "name": "foos.samplecontroller.k8s.io"
  },
  "spec": {
    "group": "samplecontroller.k8s.io",
    "scope": "Namespaced",
    "names": {"kind": "Foo", "plural": "foos", "singular": "foo"},
    "versions": [{
      "name": "v1alpha1",
      "served": true,
      "storage": true,
      "subresources": {"status": {}},
      "schema": {"openAPIV3Schema": {
        "type": "object",
        "required": ["spec"],
        "properties": {
          "spec": {
            "type": "object",
            "required": ["deploymentName"],
            "properties": {
              "deploymentName": {"type": "string", "minLength": 1, "description": "The name of the Deployment."},
              "replicas": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "description": "The number of replicas; 1 by default."}
            }
          },
          "status": {
            "type": "object",
            "properties": {"availableReplicas": {"type": "integer", "format": "int32"}}
          }
        }
      }}
    }]
  }
});

static const ph_plugin plugin = {
  .name = "{{name}}",
  .version = "0.1.0",
  .summary = "Runs a Deployment for every Foo",
  .crds = PH_LIST(foo_crd),
  .watches = (const ph_watch[]){
    /* The predicate ignores changes of a Foo's status, which this plugin writes itself. */
    {.name = "foos", .api_version = "samplecontroller.k8s.io/v1alpha1", .kind = "Foo", .trigger = PH_TRIGGERS_ITSELF, .predicate = "generationChanged()"},
    {.name = "deployments", .api_version = "apps/v1", .kind = "Deployment", .trigger = PH_TRIGGERS_OWNER("foos")},
    {0}},
  .writes = (const ph_rule[]){
    {.api_groups = PH_LIST("apps"), .resources = PH_LIST("deployments"), .verbs = PH_LIST("create", "patch")},
    {.api_groups = PH_LIST("samplecontroller.k8s.io"), .resources = PH_LIST("foos/status"), .verbs = PH_LIST("patch")},
    {0}},
};

static ph_description describe(const char *config) {
  (void)config;
  return ph_describe_as(&plugin);
}

/* Returns the desired Deployment of a Foo. Without spec.replicas an existing Deployment keeps its number of replicas. */
static const char *deployment_for(const ph_object *foo, ph_key key, const ph_object *present) {
  const char *requested = ph_field(foo, "/spec/replicas");
  const char *replicas = requested ? requested : present ? ph_field(present, "/spec/replicas") : NULL;
  const char *labels = ph_format(PH_JSON({"app": "nginx", "controller": %s}), ph_quote(ph_object_key(foo).name));
  return ph_format(PH_JSON({
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": %s, "namespace": %s, "ownerReferences": [%s]},
    "spec": {
      "replicas": %s,
      "selector": {"matchLabels": %s},
      "template": {
        "metadata": {"labels": %s},
        "spec": {"containers": [{"name": "nginx", "image": "nginx:1.29"}]}
      }
    }
  }), ph_quote(key.name), ph_quote(key.ns), ph_owner_reference(foo), replicas ? replicas : "1", labels, labels);
}

/* Updates the Foo's status if it differs. */
static ph_code update_status(const ph_object *foo, const ph_object *deployment) {
  long long available = ph_integer(deployment, "/status/availableReplicas", 0);
  if (ph_integer(foo, "/status/availableReplicas", -1) == available) return PH_OK;
  ph_type type = {"samplecontroller.k8s.io/v1alpha1", "Foo"};
  const char *body = ph_format(PH_JSON({"status": {"availableReplicas": %lld}}), available);
  return ph_client_patch(type, ph_object_key(foo), PH_MERGE_PATCH, body, "status", NULL);
}

static ph_outcome reconcile(const ph_request *request) {
  ph_object *foo = ph_cache_get("foos", request->key);
  /* The garbage collector deletes the Deployment of a deleted Foo. */
  if (!foo || ph_object_deletion_timestamp(foo)) return ph_done();

  ph_key key = {request->key.ns, ph_text(foo, "/spec/deploymentName")};
  ph_object *present = ph_cache_get("deployments", key);
  if (present && !ph_is_controlled_by(present, foo)) {
    const char *note = ph_format("Deployment %s already exists and is not managed by Foo %s", ph_key_text(key), ph_key_text(request->key));
    ph_event_warning(foo, "ErrResourceExists", "Sync", "%s", note);
    return ph_retry("%s", note);
  }

  ph_change_made change;
  ph_object *deployment;
  ph_code code = ph_create_or_update(present, deployment_for(foo, key, present), &change, &deployment);
  if (code) return ph_checked(code, "write the Deployment");
  if (change != PH_UNCHANGED) ph_info("Deployment %s %s", ph_key_text(key), change == PH_CREATED ? "created" : "updated");
  code = update_status(foo, deployment);
  if (code) return ph_checked(code, "update the status");
  if (change != PH_UNCHANGED) ph_event_normal(foo, "Synced", "Sync", "Foo synced successfully");
  return ph_done();
}

PH_DESCRIBE(describe)
PH_RECONCILE(reconcile)
