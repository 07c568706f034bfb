/* Tests of the controller, which run natively against an in-memory host: make test. */
#include <string.h>
#include <testing/pilothouse_test.h>

#include "../plugin.c"

static const ph_type foo_type = {"samplecontroller.k8s.io/v1alpha1", "Foo"}, deployment_type = {"apps/v1", "Deployment"};
static const ph_key foo_key = {"ns", "a"}, web_key = {"ns", "web"};

/* Adds the Foo to the cluster. */
static void put_foo(void) {
  ph_test_put(PH_JSON({
    "apiVersion": "samplecontroller.k8s.io/v1alpha1",
    "kind": "Foo",
    "metadata": {"namespace": "ns", "name": "a", "uid": "u1"},
    "spec": {"deploymentName": "web", "replicas": 2}
  }));
}

static ph_outcome reconcile_a(void) {
  const ph_request request = {.watch = "foos", .key = foo_key};
  return reconcile(&request);
}

static const char *deployment(void) { return ph_test_stored(deployment_type, web_key); }

static void a_foo_gets_its_deployment(void) {
  put_foo();
  PH_CHECK(reconcile_a().kind == PH_OUTCOME_DONE);
  PH_CHECK_TEXT(ph_json_text_at(deployment(), "/spec/replicas"), "2");
  PH_CHECK_TEXT(ph_json_text_at(deployment(), "/metadata/ownerReferences/0/uid"), "u1");
  PH_CHECK_TEXT(ph_json_text_at(ph_test_stored(foo_type, foo_key), "/status/availableReplicas"), "0");
}

static void nothing_is_written_in_the_desired_state(void) {
  put_foo();
  reconcile_a();
  const char *writes = "create apps/v1 Deployment ns/web\npatch samplecontroller.k8s.io/v1alpha1 Foo ns/a status\n";
  PH_CHECK_TEXT(ph_test_writes(), writes);
  PH_CHECK(reconcile_a().kind == PH_OUTCOME_DONE);
  PH_CHECK_TEXT(ph_test_writes(), writes);
}

static void changed_replicas_are_reverted(void) {
  put_foo();
  reconcile_a();
  char *scaled = strcpy(malloc(strlen(deployment()) + 1), deployment());
  *strstr(strstr(scaled, "\"replicas\":2"), "2") = '7';
  ph_test_put(scaled);
  free(scaled);
  PH_CHECK_TEXT(ph_json_text_at(deployment(), "/spec/replicas"), "7");
  reconcile_a();
  PH_CHECK_TEXT(ph_json_text_at(deployment(), "/spec/replicas"), "2");
}

static void a_deployment_of_another_owner_is_not_changed(void) {
  put_foo();
  ph_test_put(PH_JSON({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "web"}}));
  PH_CHECK(reconcile_a().kind == PH_OUTCOME_RETRY);
  PH_CHECK_TEXT(ph_test_done(), "event warning ErrResourceExists ns/a: Deployment ns/web already exists and is not managed by Foo ns/a\n");
}

static void a_failed_write_is_retried(void) {
  put_foo();
  ph_test_fail(PH_UNAVAILABLE);
  ph_outcome outcome = reconcile_a();
  PH_CHECK(outcome.kind == PH_OUTCOME_RETRY);
  PH_CHECK_TEXT(outcome.text, "write the Deployment: unavailable: ");
}

static void a_deleted_foo_needs_nothing(void) {
  PH_CHECK(reconcile_a().kind == PH_OUTCOME_DONE);
  PH_CHECK_TEXT(ph_test_done(), "");
}

#define RUN(test)              \
  do {                         \
    ph_test_begin();           \
    ph_test_plugin(describe);  \
    test();                    \
    printf("ok %s\n", #test);  \
  } while (0)

int main(void) {
  RUN(a_foo_gets_its_deployment);
  RUN(nothing_is_written_in_the_desired_state);
  RUN(changed_replicas_are_reverted);
  RUN(a_deployment_of_another_owner_is_not_changed);
  RUN(a_failed_write_is_retried);
  RUN(a_deleted_foo_needs_nothing);
  return 0;
}
