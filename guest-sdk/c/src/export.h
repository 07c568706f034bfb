/* The macros that define a plugin's exports: PH_DESCRIBE(describe) and one or more of PH_RECONCILE(reconcile), PH_OBSERVE(observe) and
 * PH_INDEX(values), each once and at file scope. A plugin has only the exports that it names.
 *
 * The exported functions have the signatures of the canonical ABI: a string is a pointer and a length, a result is the address of a record.
 * After the host has read the result, it calls `cabi_post_…`, which ends the call and frees its memory. */
#ifndef PILOTHOUSE_EXPORT_H
#define PILOTHOUSE_EXPORT_H

#include "../bindings/version.h"

#ifdef __wasm__
#define PH_NAMED_(name) __attribute__((export_name(name)))
#else
#define PH_NAMED_(name)
#endif

/* The exports have C linkage, also in a plugin that is written in C++. */
#ifdef __cplusplus
#define PH_LINKAGE_ extern "C"
#else
#define PH_LINKAGE_
#endif

/* The canonical name of an exported function, which includes the version of the contract. */
#define PH_CONTRACT_(interface, name) "pilothouse:controller/" interface "@" PILOTHOUSE_CONTRACT_VERSION "#" name

#define PH_EXPORT_(name, function, parameters, arguments)                                                      \
  PH_LINKAGE_ PH_NAMED_(name) void *ph_export_##function parameters { return ph_run_##function arguments; }     \
  PH_LINKAGE_ PH_NAMED_("cabi_post_" name) void ph_post_##function(void *result) {                              \
    (void)result;                                                                                              \
    ph_end_call_();                                                                                            \
  }

#define PH_DESCRIBE(f) \
  PH_EXPORT_(PH_CONTRACT_("plugin", "describe"), describe, (char *config, size_t length), (f, config, length))

#define PH_RECONCILE(f)                                                                                         \
  PH_EXPORT_(PH_CONTRACT_("reconcile", "reconcile"), reconcile,                                                 \
             (char *watch, size_t watch_length, char *ns, size_t ns_length, char *name, size_t name_length,     \
              uint8_t *reasons, size_t reason_count, uint32_t attempt, void *extra, size_t extra_count),        \
             (f, watch, watch_length, ns, ns_length, name, name_length, reasons, reason_count, attempt, extra, extra_count))

#define PH_OBSERVE(f)                                                                                          \
  PH_EXPORT_(PH_CONTRACT_("observe", "observe"), observe, (void *notifications, size_t count, int32_t batch),   \
             (f, notifications, count, batch))

#define PH_INDEX(f) \
  PH_EXPORT_(PH_CONTRACT_("index", "values"), index, (char *index, size_t length, int32_t object), (f, index, length, object))

void ph_end_call_(void);
void *ph_run_describe(ph_describe_function *function, char *config, size_t length);
void *ph_run_reconcile(ph_reconcile_function *function, char *watch, size_t watch_length, char *ns, size_t ns_length, char *name,
                       size_t name_length, uint8_t *reasons, size_t reason_count, uint32_t attempt, void *extra, size_t extra_count);
void *ph_run_observe(ph_observe_function *function, void *notifications, size_t count, int32_t batch);
void *ph_run_index(ph_index_function *function, char *index, size_t length, int32_t object);

#endif
