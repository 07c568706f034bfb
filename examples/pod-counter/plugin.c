/* Counts Pods per node and phase, and exports the counts as gauges on the host's /metrics.
 *
 * An observer: it queues no work and writes nothing. It reads the counts from a computed index, whose values are "NODE PHASE"; each Pod is
 * listed under exactly one. So the plugin has no state to keep consistent, and the counts are correct immediately after a reload. */
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

static const char *text_or(const char *text, const char *fallback) { return text && *text ? text : fallback; }

/* Returns the value of the index. Neither a node's name nor a phase contains a space. */
static const char *index_value(const char *node, const char *phase) {
  return ph_format("%s %s", text_or(node, "none"), text_or(phase, "Unknown"));
}

static void values(const char *index, ph_object *pod, ph_values *values) {
  (void)index;
  ph_value(values, index_value(ph_text(pod, "/spec/nodeName"), ph_text(pod, "/status/phase")));
}

/* Sets the gauge for one value of the index. */
static void update_gauge(const char *value) {
  size_t node = strcspn(value, " ");
  ph_gauge("pods", PH_PAIRS({"node", ph_copy(value, node)}, {"phase", value + node + 1}),
           (double)ph_cache_index_keys("pods", "byNodeAndPhase", value).count);
}

static ph_outcome observe(const ph_notification *notifications, size_t count, const ph_batch *batch) {
  (void)notifications;
  for (size_t i = 0; i < count; i++) {
    /* A batch may have thousands of Pods: close the objects of each before the next. */
    ph_mark mark = ph_mark_here();
    const ph_object *pods[] = {ph_before(batch, i), ph_after(batch, i)};
    const char *previous = NULL;
    for (size_t side = 0; side < 2; side++) {
      if (!pods[side]) continue;
      const char *value = index_value(ph_text(pods[side], "/spec/nodeName"), ph_text(pods[side], "/status/phase"));
      /* When the value changed, update the gauges of the old and the new value. */
      if (!previous || !ph_equal(previous, value)) update_gauge(value);
      previous = value;
    }
    ph_release(mark);
  }
  return ph_done();
}

PH_DESCRIBE(describe)
PH_OBSERVE(observe)
PH_INDEX(values)
