/* Creating or updating an object, without a request when nothing differs. */
#include "internal.h"

static bool covers(const ph_object *present, const char *pointer, const char *desired);

static const char *escaped(const char *name) {
  ph_buffer out = {0};
  for (; *name; name++) {
    char plain[2] = {*name, 0};
    ph_append_text(&out, *name == '~' ? "~0" : *name == '/' ? "~1" : plain);
  }
  return ph_buffer_text(&out);
}

static bool covers_object(const ph_object *present, const char *pointer, const char *desired) {
  if (!ph_field(present, pointer)) return false;
  for (desired = ph_json_blank(desired + 1); *desired == '"';) {
    const char *end = ph_json_skip(desired);
    const char *name = escaped(ph_json_unquote(desired, end));
    desired = ph_json_blank(ph_json_blank(end) + 1);
    if (!covers(present, ph_format("%s/%s", pointer, name), desired)) return false;
    desired = ph_json_blank(ph_json_skip(desired));
    if (*desired == ',') desired = ph_json_blank(desired + 1);
  }
  return true;
}

/* Compares element by element: the server may add defaults inside elements, but no elements. */
static bool covers_array(const ph_object *present, const char *pointer, const char *desired) {
  const char *there = ph_field(present, pointer);
  if (!there || *there != '[') return false;
  size_t count = 0;
  for (desired = ph_json_blank(desired + 1); *desired && *desired != ']'; count++) {
    if (!covers(present, ph_format("%s/%zu", pointer, count), desired)) return false;
    desired = ph_json_blank(ph_json_skip(desired));
    if (*desired == ',') desired = ph_json_blank(desired + 1);
  }
  return !ph_field(present, ph_format("%s/%zu", pointer, count));
}

/* Returns whether the object has every value of the JSON at `desired`. */
static bool covers(const ph_object *present, const char *pointer, const char *desired) {
  if (*desired == '{') return covers_object(present, pointer, desired);
  if (*desired == '[') return covers_array(present, pointer, desired);
  const char *end = ph_json_skip(desired);
  const char *there = ph_field(present, pointer);
  if (!end) ph_panic("the manifest is no JSON at %s", pointer);
  /* In a merge patch null means that the member is removed. */
  if (*desired == 'n') return !there || ph_equal(there, "null");
  if (!there || (*desired == '"') != (*there == '"')) return false;
  /* JSON has several encodings of one string, so compare the decoded strings. */
  if (*desired == '"') return ph_equal(ph_json_unquote(desired, end), ph_text(present, pointer));
  return ph_equal(ph_copy(desired, (size_t)(end - desired)), there);
}

ph_code ph_create_or_update(ph_object *present, const char *manifest, ph_change_made *change, ph_object **result) {
  ph_change_made unused;
  if (!change) change = &unused;
  if (!present) {
    *change = PH_CREATED;
    return ph_client_create(manifest, NULL, result);
  }
  if (covers(present, "", ph_json_blank(manifest))) {
    *change = PH_UNCHANGED;
    if (result) *result = present;
    return PH_OK;
  }
  *change = PH_UPDATED;
  ph_type type = {ph_object_api_version(present), ph_object_kind(present)};
  return ph_client_patch(type, ph_object_key(present), PH_MERGE_PATCH, manifest, NULL, result);
}
