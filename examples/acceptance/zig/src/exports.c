/* The exports of the plugin. The SDK's macros give them the names of the contract; the functions are in plugin.zig. */
#include <pilothouse.h>

ph_description describe(const char *config);
ph_outcome reconcile(const ph_request *request);
ph_outcome observe(const ph_notification *notifications, size_t count, const ph_batch *batch);
void values(const char *index, ph_object *object, ph_values *values);

PH_DESCRIBE(describe)
PH_RECONCILE(reconcile)
PH_OBSERVE(observe)
PH_INDEX(values)
