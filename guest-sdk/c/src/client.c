/* Requests to the API server. */
#include "internal.h"

typedef pilothouse_controller_client_api_error_t wit_error;

static pilothouse_controller_types_object_type_t out_type(ph_type type) {
  return (pilothouse_controller_types_object_type_t){ph_out(type.api_version), ph_out(type.kind)};
}

static ph_code finish(bool ok, ph_own own, const wit_error *error, ph_object **result) {
  if (result) *result = NULL;
  if (!ok) return ph_failed(error);
  ph_object *object = ph_opened(own);
  if (result) {
    *result = object;
  } else {
    ph_object_close(object);
  }
  return PH_OK;
}

ph_code ph_client_get(ph_type type, ph_key key, const char *subresource, ph_object **result) {
  pilothouse_controller_types_object_type_t target = out_type(type);
  ph_wit_key out = ph_out_key(key);
  ph_wit_string below = ph_out(subresource);
  ph_own own = {0};
  wit_error error;
  bool ok = pilothouse_controller_client_get(&target, &out, &below, &own, &error);
  return finish(ok, own, &error, result);
}

ph_code ph_client_list(ph_type type, ph_list_options options, ph_page *page) {
  pilothouse_controller_types_object_type_t target = out_type(type);
  pilothouse_controller_client_list_options_t out = {ph_out(options.ns), ph_out(options.label_selector), ph_out(options.field_selector),
                                                     options.limit, ph_out(options.cursor)};
  pilothouse_controller_client_page_t found;
  wit_error error;
  *page = (ph_page){NULL, 0, ""};
  if (!pilothouse_controller_client_list(&target, &out, &found, &error)) return ph_failed(&error);
  ph_objects objects = ph_opened_all(found.items.ptr, found.items.len);
  *page = (ph_page){objects.items, objects.count, ph_in(found.next)};
  return PH_OK;
}

ph_code ph_client_create(const char *manifest, const char *subresource, ph_object **result) {
  ph_wit_string out = ph_out(manifest), below = ph_out(subresource);
  ph_own own = {0};
  wit_error error;
  bool ok = pilothouse_controller_client_create(&out, &below, &own, &error);
  return finish(ok, own, &error, result);
}

ph_code ph_client_update(const char *manifest, const char *subresource, ph_object **result) {
  ph_wit_string out = ph_out(manifest), below = ph_out(subresource);
  ph_own own = {0};
  wit_error error;
  bool ok = pilothouse_controller_client_update(&out, &below, &own, &error);
  return finish(ok, own, &error, result);
}

ph_code ph_client_patch(ph_type type, ph_key key, ph_patch_type kind, const char *body, const char *subresource, ph_object **result) {
  pilothouse_controller_types_object_type_t target = out_type(type);
  ph_wit_key out = ph_out_key(key);
  pilothouse_controller_client_patch_type_t patch_type = {.tag = kind < PH_APPLY ? (uint8_t)kind : PH_APPLY};
  /* An empty field manager means the plugin's name. */
  patch_type.val.apply.field_manager = ph_out(NULL);
  patch_type.val.apply.force = kind == PH_APPLY_FORCED;
  ph_wit_string text = ph_out(body), below = ph_out(subresource);
  ph_own own = {0};
  wit_error error;
  bool ok = pilothouse_controller_client_patch(&target, &out, &patch_type, &text, &below, &own, &error);
  return finish(ok, own, &error, result);
}

ph_code ph_client_delete(ph_type type, ph_key key, ph_delete_options options) {
  pilothouse_controller_types_object_type_t target = out_type(type);
  ph_wit_key out = ph_out_key(key);
  pilothouse_controller_client_delete_options_t preconditions = {(uint8_t)options.propagation, ph_out(options.uid),
                                                                 ph_out(options.resource_version)};
  wit_error error;
  return pilothouse_controller_client_delete(&target, &out, &preconditions, &error) ? PH_OK : ph_failed(&error);
}

ph_code ph_apply(const char *manifest, const char *subresource, ph_object **result) {
  ph_type type = {ph_json_text_at(manifest, "/apiVersion"), ph_json_text_at(manifest, "/kind")};
  ph_key key = {ph_json_text_at(manifest, "/metadata/namespace"), ph_json_text_at(manifest, "/metadata/name")};
  if (!type.api_version || !type.kind || !key.name) {
    ph_panic("apply needs apiVersion, kind and metadata.name: %s", manifest);
  }
  return ph_client_patch(type, key, PH_APPLY_FORCED, manifest, subresource, result);
}

ph_code ph_retry_on_conflict(ph_code (*attempt)(void *context), void *context) {
  enum { ATTEMPTS = 5 }; /* the same as client-go's retry.DefaultRetry */
  ph_code code = PH_CONFLICT;
  for (int attempts_made = 0; attempts_made < ATTEMPTS && code == PH_CONFLICT; attempts_made++) code = attempt(context);
  return code;
}
