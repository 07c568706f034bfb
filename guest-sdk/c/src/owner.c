/* Owner references, finalizers and conditions. */
#include "internal.h"

const char *ph_owner_reference(const ph_object *owner) {
  const char *uid = ph_object_uid(owner);
  if (!*uid) ph_panic("%s without a UID cannot own anything: was it read from the server?", ph_object_key(owner).name);
  ph_json json = {0};
  ph_json_object(&json, NULL);
  ph_json_string(&json, "apiVersion", ph_object_api_version(owner));
  ph_json_string(&json, "kind", ph_object_kind(owner));
  ph_json_string(&json, "name", ph_object_key(owner).name);
  ph_json_string(&json, "uid", uid);
  ph_json_bool(&json, "controller", true);
  ph_json_bool(&json, "blockOwnerDeletion", true);
  return ph_json_text(&json);
}

bool ph_is_controlled_by(const ph_object *object, const ph_object *owner) {
  ph_owner controller;
  const char *uid = ph_object_uid(owner);
  return *uid && ph_object_controller(object, &controller) && strcmp(controller.uid, uid) == 0;
}

/* Returns the next element of a JSON array and advances `list`, which becomes NULL at the end. */
static const char *next_element(const char **list) {
  const char *at = *list ? ph_json_blank(*list) : "";
  *list = NULL;
  if (*at != '[' && *at != ',') return NULL;
  at = ph_json_blank(at + 1);
  const char *end = *at == ']' ? NULL : ph_json_skip(at);
  if (!end) return NULL;
  *list = end;
  return ph_copy(at, (size_t)(end - at));
}

/* Gets the finalizers without one of them. Returns whether that one was present. */
static bool without(const char *finalizers, const char *name, ph_json *rest) {
  bool found = false;
  ph_json_array(rest, NULL);
  for (const char *literal; (literal = next_element(&finalizers));) {
    bool same = ph_equal(ph_json_unquote(literal, literal + strlen(literal)), name);
    found = found || same;
    if (!same) ph_json_raw(rest, NULL, literal);
  }
  return found;
}

/* Replaces the finalizers. `result` receives the object as stored. */
static ph_code put_finalizers(ph_object *object, ph_json *finalizers, ph_object **result) {
  ph_type type = {ph_object_api_version(object), ph_object_kind(object)};
  /* The resource version protects the list: another controller may have changed it concurrently. */
  const char *body = ph_format("{\"metadata\":{\"resourceVersion\":%s,\"finalizers\":%s}}", ph_quote(ph_object_resource_version(object)),
                               ph_json_text(finalizers));
  return ph_client_patch(type, ph_object_key(object), PH_MERGE_PATCH, body, NULL, result);
}

ph_outcome ph_with_finalizer(ph_object *object, const char *name, ph_outcome (*work)(ph_phase phase, ph_object *object, void *context),
                             void *context) {
  ph_json finalizers = {0};
  bool has_finalizer = without(ph_field(object, "/metadata/finalizers"), name, &finalizers);
  if (ph_object_deletion_timestamp(object)) {
    /* The object is being deleted without this finalizer: no new work may be started. */
    if (!has_finalizer) return ph_done();
    ph_outcome outcome = work(PH_PHASE_CLEANUP, object, context);
    if (outcome.kind != PH_OUTCOME_DONE) return outcome;
    ph_code code = put_finalizers(object, &finalizers, NULL);
    /* Another client removed the last finalizer, and the object is gone, as intended. */
    return code == PH_NOT_FOUND ? ph_done() : ph_checked(code, ph_format("remove the finalizer %s", name));
  }
  if (!has_finalizer) {
    ph_json_string(&finalizers, NULL, name);
    ph_code code = put_finalizers(object, &finalizers, &object);
    if (code) return ph_checked(code, ph_format("add the finalizer %s", name));
  }
  return work(PH_PHASE_APPLY, object, context);
}

static const char *condition_text(const ph_condition *condition, const char *since, uint32_t observed_generation) {
  ph_json json = {0};
  ph_json_object(&json, NULL);
  ph_json_string(&json, "type", condition->type);
  ph_json_string(&json, "status", condition->status ? "True" : "False");
  ph_json_string(&json, "reason", condition->reason ? condition->reason : "");
  ph_json_string(&json, "message", condition->message ? condition->message : "");
  ph_json_string(&json, "lastTransitionTime", since);
  if (observed_generation) ph_json_integer(&json, "observedGeneration", observed_generation);
  return ph_json_text(&json);
}

static bool is_equal(const char *present, const ph_condition *condition, uint32_t observed_generation) {
  const char *generation = ph_json_at(present, "/observedGeneration");
  return ph_equal(ph_json_text_at(present, "/reason"), condition->reason) && ph_equal(ph_json_text_at(present, "/message"), condition->message) &&
         strtoll(generation ? generation : "0", NULL, 10) == (long long)observed_generation;
}

bool ph_conditions_set(const char **conditions, const ph_condition *condition, uint32_t observed_generation) {
  bool found = false, changed = false;
  ph_json all = {0};
  ph_json_array(&all, NULL);
  for (const char *list = *conditions, *present; (present = next_element(&list));) {
    if (!ph_equal(ph_json_text_at(present, "/type"), condition->type)) {
      ph_json_raw(&all, NULL, present);
      continue;
    }
    found = true;
    bool flips = !ph_equal(ph_json_text_at(present, "/status"), condition->status ? "True" : "False");
    changed = flips || !is_equal(present, condition, observed_generation);
    const char *since = flips ? NULL : ph_json_text_at(present, "/lastTransitionTime");
    ph_json_raw(&all, NULL, condition_text(condition, since ? since : ph_now(), observed_generation));
  }
  if (!found) ph_json_raw(&all, NULL, condition_text(condition, ph_now(), observed_generation));
  *conditions = ph_json_text(&all);
  return !found || changed;
}
