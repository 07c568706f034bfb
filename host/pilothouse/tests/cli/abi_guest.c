/* A plugin over nothing but the header that `pilothouse abi --format c` prints. It logs the field data.text of each ConfigMap. */
#include "abi.h"

/* Memory for what the host passes in. Nothing is kept from one call to the next. */
static uint64_t arena[8192];
static size_t used;

void *cabi_realloc(void *old, size_t old_size, size_t align, size_t new_size) {
  size_t start = (used + align - 1) & ~(align - 1);
  if (new_size > sizeof(arena) || start > sizeof(arena) - new_size) __builtin_trap();
  unsigned char *block = (unsigned char *)arena + start;
  for (size_t i = 0; i < old_size && i < new_size; i++) block[i] = ((unsigned char *)old)[i];
  used = start + new_size;
  return block;
}

static const char descriptor[] =
    "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"by-hand\",\"version\":\"1.0.0\",\"watches\":"
    "[{\"name\":\"maps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}";

static ph_result_string_string described;

ph_result_string_string *ph_describe(const char *config, size_t config_len) {
  (void)config;
  (void)config_len;
  described.is_err = false;
  described.value.ok.ptr = descriptor;
  described.value.ok.len = sizeof(descriptor) - 1;
  return &described;
}

void cabi_post_ph_describe(ph_result_string_string *result) {
  (void)result;
  used = 0;
}

static ph_result_types_outcome_types_failure reconciled;

ph_result_types_outcome_types_failure *ph_reconcile(const char *watch, size_t watch_len, const char *ns, size_t ns_len, const char *name,
                                                    size_t name_len, const ph_types_reason *reasons, size_t reasons_len, uint32_t attempt,
                                                    const ph_types_pair *extra, size_t extra_len) {
  static const char pointer[] = "/data/text";
  ph_option_objects_object found;
  (void)reasons;
  (void)reasons_len;
  (void)attempt;
  (void)extra;
  (void)extra_len;
  ph_cache_get(watch, watch_len, ns, ns_len, name, name_len, &found);
  if (found.is_some) {
    ph_option_string text;
    ph_objects_object_text(found.value, pointer, sizeof(pointer) - 1, &text);
    if (text.is_some) ph_log_log(PH_LOG_LEVEL_INFO, text.value.ptr, text.value.len, NULL, 0);
    ph_objects_object_drop(found.value);
  }
  reconciled.is_err = false;
  reconciled.value.ok.tag = PH_TYPES_OUTCOME_DONE;
  return &reconciled;
}

void cabi_post_ph_reconcile(ph_result_types_outcome_types_failure *result) {
  (void)result;
  used = 0;
}
