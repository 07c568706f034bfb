/* Operations that send requests to the API server. */
#include <stdlib.h>

#include "script.h"

static ph_type type_of(const script *script) { return (ph_type){script->a, script->b}; }

static ph_key key_of(const script *script) { return (ph_key){script->c, script->d}; }

static answer name_or_error(ph_code code, const ph_object *object) { return code ? api_error() : value(ph_object_key(object).name); }

static answer get(const script *script) {
  ph_object *object;
  if (ph_client_get(type_of(script), key_of(script), script->e, &object)) return api_error();
  return value(or_none(ph_text(object, script->f), "absent"));
}

static answer list(const script *script) {
  ph_list_options options = {script->c, script->d, script->e, (uint32_t)strtoul(script->f, NULL, 10), ""};
  ph_buffer text = {0};
  do {
    ph_page page;
    if (ph_client_list(type_of(script), options, &page)) return api_error();
    ph_append(&text, "%s%s", *options.cursor ? " | " : "", keys_of(page.items, page.count));
    options.cursor = page.next;
  } while (*options.cursor);
  return value(ph_buffer_text(&text));
}

static answer create(const script *script) {
  ph_object *object;
  ph_code code = ph_client_create(script->body, script->a, &object);
  return name_or_error(code, object);
}

static answer update(const script *script) {
  ph_object *object;
  ph_code code = ph_client_update(script->body, script->a, &object);
  return name_or_error(code, object);
}

static answer patch(const script *script) {
  static const char *const types[] = {"json", "merge", "strategic", "apply", "apply-force"};
  int how = PH_JSON_PATCH;
  while (how < PH_APPLY_FORCED && !ph_equal(types[how], script->e)) how++;
  ph_object *object;
  ph_code code = ph_client_patch(type_of(script), key_of(script), (ph_patch_type)how, script->body, script->f, &object);
  return name_or_error(code, object);
}

static answer delete(const script *script) {
  ph_propagation propagation = ph_equal(script->e, "foreground") ? PH_FOREGROUND : ph_equal(script->e, "orphan") ? PH_ORPHAN : PH_BACKGROUND;
  ph_code code = ph_client_delete(type_of(script), key_of(script), (ph_delete_options){propagation, script->f, script->g});
  return code ? api_error() : value("deleted");
}

static answer denied(const script *script) {
  const char *secret = ph_format("{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"denied\",\"namespace\":%s}}",
                                 ph_quote(script->request->key.ns));
  ph_object *object;
  ph_code code = ph_client_create(secret, NULL, &object);
  return name_or_error(code, object);
}

const operation client_operations[] = {
  {"client-get", get}, {"client-list", list}, {"create", create}, {"update", update}, {"patch", patch}, {"delete", delete},
  {"denied", denied}, {NULL, NULL},
};
