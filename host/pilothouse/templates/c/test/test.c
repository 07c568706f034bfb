/* Tests of the controller, which run natively against an in-memory host: make test. */
#include <string.h>
#include <testing/pilothouse_test.h>

#include "../plugin.c"

static const char foo[] = PH_JSON({
  "apiVersion": "samplecontroller.k8s.io/v1alpha1",
  "kind": "Foo",
  "metadata": {"namespace": "ns", "name": "a", "uid": "u1"},
  "spec": {"deploymentName": "web", "replicas": 2}
});

static ph_outcome reconcile_a(void) {
  const ph_request request = {.watch = "foos", .key = {"ns", "a"}};
  return reconcile(&request);
}

/* Returns the Deployment that the plugin creates for the Foo. */
static const char *created(void) {
  ph_test_cache("foos", foo);
  reconcile_a();
  const char *create = strstr(ph_test_done(), "create ") + strlen("create ");
  return ph_copy(create, strcspn(create, "\n"));
}

static void a_foo_gets_its_deployment(void) {
  const char *deployment = created();
  PH_CHECK_TEXT(ph_json_text_at(deployment, "/metadata/name"), "web");
  PH_CHECK_TEXT(ph_json_text_at(deployment, "/spec/replicas"), "2");
  PH_CHECK_TEXT(ph_json_text_at(deployment, "/metadata/ownerReferences/0/uid"), "u1");
  PH_CHECK(strstr(ph_test_done(), "patch/status Foo ns/a merge {\"status\": {\"availableReplicas\": 0}}\n"));
}

static void nothing_is_written_in_the_desired_state(void) {
  const char *deployment = created();
  char *copy = strcpy(malloc(strlen(deployment) + 1), deployment);
  ph_test_begin();
  ph_test_cache("foos", PH_JSON({"kind": "Foo", "metadata": {"namespace": "ns", "name": "a", "uid": "u1"},
    "apiVersion": "samplecontroller.k8s.io/v1alpha1",
    "spec": {"deploymentName": "web", "replicas": 2}, "status": {"availableReplicas": 0}}));
  ph_test_cache("deployments", copy);
  free(copy);
  PH_CHECK(reconcile_a().kind == PH_OUTCOME_DONE);
  PH_CHECK_TEXT(ph_test_done(), "");
}

static void a_deployment_of_another_owner_is_not_changed(void) {
  ph_test_cache("foos", foo);
  ph_test_cache("deployments", PH_JSON({"kind": "Deployment", "metadata": {"namespace": "ns", "name": "web"}}));
  PH_CHECK(reconcile_a().kind == PH_OUTCOME_RETRY);
  PH_CHECK_TEXT(ph_test_done(), "event ErrResourceExists Deployment ns/web already exists and is not managed by Foo ns/a\n");
}

static void a_failed_write_is_retried(void) {
  ph_test_cache("foos", foo);
  ph_test_fail(PH_UNAVAILABLE);
  ph_outcome outcome = reconcile_a();
  PH_CHECK(outcome.kind == PH_OUTCOME_RETRY);
  PH_CHECK_TEXT(outcome.text, "write the Deployment: unavailable: ");
}

static void a_deleted_foo_needs_nothing(void) {
  PH_CHECK(reconcile_a().kind == PH_OUTCOME_DONE);
  PH_CHECK_TEXT(ph_test_done(), "");
}

#define RUN(test)             \
  do {                        \
    ph_test_begin();          \
    test();                   \
    printf("ok %s\n", #test); \
  } while (0)

int main(void) {
  RUN(a_foo_gets_its_deployment);
  RUN(nothing_is_written_in_the_desired_state);
  RUN(a_deployment_of_another_owner_is_not_changed);
  RUN(a_failed_write_is_retried);
  RUN(a_deleted_foo_needs_nothing);
  return 0;
}
