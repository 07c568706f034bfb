/* Tests of the controller, which run natively against an in-memory host: make test. */
#include <testing/pilothouse_test.h>

#include "../plugin.c"

static void a_config_map_is_logged(void) {
  ph_test_put(PH_JSON({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "web"}}));
  const ph_request request = {.watch = "configmaps", .key = {"default", "web"}};
  PH_CHECK(reconcile(&request).kind == PH_OUTCOME_DONE);
  PH_CHECK_TEXT(ph_test_done(), "log info hello, default/web\n");
}

#define RUN(test)              \
  do {                         \
    ph_test_begin();           \
    ph_test_plugin(describe);  \
    test();                    \
    printf("ok %s\n", #test);  \
  } while (0)

int main(void) {
  RUN(a_config_map_is_logged);
  return 0;
}
