/* The exports of the plugin. The SDK's macros give them the names of the contract; the functions are in plugin.zig. */
#include <pilothouse.h>

ph_description describe(const char *config);
ph_outcome reconcile(const ph_request *request);

PH_DESCRIBE(describe)
PH_RECONCILE(reconcile)
