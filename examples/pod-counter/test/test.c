/* Unit tests, which run natively: make test. */
#include <testing/pilothouse_test.h>

#include "../plugin.c"

#define POD(name, node, phase) \
  "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\"},\"spec\":{" node "},\"status\":{\"phase\":\"" phase "\"}}"
#define ON_A "\"nodeName\":\"a\""
#define NOWHERE ""

static void a_pod_is_indexed_by_node_and_phase(void) {
  PH_CHECK_TEXT(ph_test_values("byNodeAndPhase", POD("p", ON_A, "Running")), "a Running;");
  PH_CHECK_TEXT(ph_test_values("byNodeAndPhase", POD("p", NOWHERE, "Pending")), "none Pending;");
  PH_CHECK_TEXT(ph_test_values("byNodeAndPhase", "{\"metadata\":{\"name\":\"p\"}}"), "none Unknown;");
}

static void a_new_pod_is_added_to_the_count(void) {
  ph_test_put(POD("one", ON_A, "Running"));
  ph_test_put(POD("two", ON_A, "Running"));
  ph_test_change(NULL, POD("two", ON_A, "Running"));
  const ph_notification notification = {"pods", PH_ADDED, {"ns", "two"}, false, false};
  PH_CHECK(observe(&notification, 1, ph_test_batch()).kind == PH_OUTCOME_DONE);
  PH_CHECK_TEXT(ph_test_done(), "gauge pods{node=a,phase=Running} 2\n");
}

static void a_changed_value_updates_two_gauges(void) {
  ph_test_put(POD("one", ON_A, "Running"));
  ph_test_change(POD("one", NOWHERE, "Pending"), POD("one", ON_A, "Running"));
  const ph_notification notification = {"pods", PH_CHANGED, {"ns", "one"}, false, false};
  observe(&notification, 1, ph_test_batch());
  PH_CHECK_TEXT(ph_test_done(), "gauge pods{node=none,phase=Pending} 0\ngauge pods{node=a,phase=Running} 1\n");
}

static void the_gauge_of_the_last_pod_becomes_zero(void) {
  ph_test_change(POD("one", ON_A, "Running"), NULL);
  const ph_notification notification = {"pods", PH_DELETED, {"ns", "one"}, false, false};
  observe(&notification, 1, ph_test_batch());
  PH_CHECK_TEXT(ph_test_done(), "gauge pods{node=a,phase=Running} 0\n");
}

static void a_batch_leaves_no_object_open(void) {
  ph_notification notifications[50];
  for (size_t i = 0; i < 50; i++) {
    ph_test_change(NULL, POD("one", ON_A, "Running"));
    notifications[i] = (ph_notification){"pods", PH_ADDED, {"ns", "one"}, true, false};
  }
  observe(notifications, 50, ph_test_batch());
  PH_CHECK(ph_test_open() == 0);
}

#define RUN(test)             \
  do {                        \
    ph_test_begin();          \
    ph_test_plugin(describe); \
    ph_test_indexed_by(values); \
    test();                   \
    printf("ok %s\n", #test); \
  } while (0)

int main(void) {
  RUN(a_pod_is_indexed_by_node_and_phase);
  RUN(a_new_pod_is_added_to_the_count);
  RUN(a_changed_value_updates_two_gauges);
  RUN(the_gauge_of_the_last_pod_becomes_zero);
  RUN(a_batch_leaves_no_object_open);
  return 0;
}
