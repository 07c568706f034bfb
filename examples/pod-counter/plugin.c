/* Counts Pods per node and phase, and shows the counts as gauges on the host's /metrics.
 *
 * An observer: it asks for no work and writes nothing. What it counts it reads from a computed index, whose values are "NODE PHASE": a Pod
 * is under exactly one. So nothing has to be kept in step between calls, and after a reload the counts are right at once. */
#include <pilothouse.h>
#include <string.h>

static const ph_plugin plugin = {
  .name = "pod-counter",
  .version = "0.1.0",
  .summary = "Counts Pods per node and phase",
  .watches = (const ph_watch[]){
    {.name = "pods", .api_version = "v1", .kind = "Pod", .notify = true,
     .indexes = (const ph_index[]){{.name = "byNodeAndPhase", .computed = true}, {0}}},
    {0}},
};

static ph_description describe(const char *config) {
  (void)config;
  return ph_describe_as(&plugin);
}

static const char *text_or(const char *text, const char *otherwise) { return text && *text ? text : otherwise; }

/* Neither a node's name nor a phase has a blank. */
static const char *place_of(const char *node, const char *phase) {
  return ph_format("%s %s", text_or(node, "none"), text_or(phase, "Unknown"));
}

static void values(const char *index, ph_object *pod, ph_values *values) {
  (void)index;
  ph_value(values, place_of(ph_text(pod, "/spec/nodeName"), ph_text(pod, "/status/phase")));
}

static void show(const char *place) {
  size_t node = strcspn(place, " ");
  ph_gauge("pods", PH_PAIRS({"node", ph_copy(place, node)}, {"phase", place + node + 1}),
           (double)ph_cache_index_keys("pods", "byNodeAndPhase", place).count);
}

static ph_outcome observe(const ph_notification *notifications, size_t count, const ph_batch *batch) {
  (void)notifications;
  for (size_t i = 0; i < count; i++) {
    /* One batch may hold thousands of Pods: each one's objects are closed before the next is looked at. */
    ph_mark mark = ph_mark_here();
    const ph_object *pods[] = {ph_before(batch, i), ph_after(batch, i)};
    const char *left = NULL;
    for (size_t side = 0; side < 2; side++) {
      if (!pods[side]) continue;
      const char *place = place_of(ph_text(pods[side], "/spec/nodeName"), ph_text(pods[side], "/status/phase"));
      /* The place that a Pod has left gets its count too: 0 is a count. */
      if (!left || !ph_equal(left, place)) show(place);
      left = place;
    }
    ph_release(mark);
  }
  return ph_done();
}

PH_DESCRIBE(describe)
PH_OBSERVE(observe)
PH_INDEX(values)
