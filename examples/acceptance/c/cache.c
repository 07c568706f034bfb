/* Operations that read the cache. */
#include <stdlib.h>
#include <string.h>

#include "script.h"

static ph_key key_in(const char *ns, const char *name) { return (ph_key){ns, name}; }

static answer get(const script *script) {
  ph_object *object = ph_cache_get(script->a, key_in(script->b, script->c));
  return value(object ? or_none(ph_text(object, script->d), "absent") : "none");
}

static answer json_length(const script *script) {
  ph_object *object = ph_cache_get(script->a, key_in(script->b, script->c));
  return value(object ? ph_format("%zu", strlen(ph_object_json(object))) : "none");
}

static const char *set(const char *text, const char *unset) { return text && *text ? "set" : unset; }

static const char *joined(const char *const *values, size_t count) {
  ph_buffer text = {0};
  for (size_t i = 0; i < count; i++) ph_append(&text, "%s%s", i ? "," : "", or_none(values[i], "-"));
  return ph_buffer_text(&text);
}

static answer object(const script *script) {
  ph_object *object = ph_cache_get(script->a, key_in(script->b, script->c));
  if (!object) return value("none");
  ph_buffer labels = {0};
  ph_pairs pairs = ph_object_labels(object);
  for (size_t i = 0; i < pairs.count; i++) ph_append(&labels, "%s%s=%s", i ? "," : "", pairs.items[i].key, pairs.items[i].value);
  ph_owner owner;
  const char *controller = ph_object_controller(object, &owner) ? ph_format("%s/%s", owner.kind, owner.name) : "-";
  ph_buffer text = {0};
  ph_append(&text, "key=%s\napi-version=%s\nkind=%s\n", ph_key_text(ph_object_key(object)), ph_object_api_version(object),
            ph_object_kind(object));
  ph_append(&text, "uid=%s\nresource-version=%s\ngeneration=%u\n", set(ph_object_uid(object), ""),
            set(ph_object_resource_version(object), ""), (unsigned)ph_object_generation(object));
  ph_append(&text, "labels=%s\nlabel=%s\nannotation=%s\n", ph_buffer_text(&labels), or_none(ph_object_label(object, "tier"), "-"),
            or_none(ph_object_annotation(object, "note"), "-"));
  ph_append(&text, "deletion-timestamp=%s\ncontroller=%s\nfield=%s\ntext=%s", set(ph_object_deletion_timestamp(object), "-"), controller,
            or_none(ph_field(object, "/data/value"), "-"), or_none(ph_text(object, "/data/value"), "-"));
  const char *const *several = PH_LIST("/data/value", "/data/nothing", "/kind");
  ph_append(&text, "\nfields=%s\ntexts=%s", joined(ph_fields(object, several), 3), joined(ph_texts(object, several), 3));
  return value(ph_buffer_text(&text));
}

static answer list(const script *script) {
  ph_filter filter = {script->b, script->c, (uint32_t)strtoul(script->d, NULL, 10), ""};
  ph_buffer text = {0};
  do {
    ph_page page = ph_cache_list(script->a, filter);
    ph_append(&text, "%s%s", *filter.cursor ? " | " : "", keys_of(page.items, page.count));
    filter.cursor = page.next;
  } while (*filter.cursor);
  return value(ph_buffer_text(&text));
}

static answer list_fields(const script *script) {
  ph_rows rows = ph_cache_fields(script->a, (ph_filter){.ns = script->b, .label_selector = script->c}, PH_LIST(script->d));
  ph_buffer text = {0};
  for (size_t i = 0; i < rows.count; i++) {
    ph_append(&text, "%s%s=%s", i ? " " : "", ph_key_text(rows.items[i].key), or_none(rows.items[i].values[0], "-"));
  }
  return value(ph_buffer_text(&text));
}

static answer by_index(const script *script) {
  ph_objects objects = ph_cache_by_index(script->a, script->b, script->c);
  return value(keys_of(objects.items, objects.count));
}

static answer index_keys(const script *script) {
  ph_keys keys = ph_cache_index_keys(script->a, script->b, script->c);
  ph_buffer text = {0};
  for (size_t i = 0; i < keys.count; i++) ph_append(&text, "%s%s", i ? " " : "", ph_key_text(keys.items[i]));
  return value(ph_buffer_text(&text));
}

static answer index_values(const script *script) {
  ph_strings values = ph_cache_index_values(script->a, script->b);
  ph_buffer text = {0};
  for (size_t i = 0; i < values.count; i++) ph_append(&text, "%s%s", i ? " " : "", values.items[i]);
  return value(ph_buffer_text(&text));
}

static answer has_synced(const script *script) { return value(ph_cache_has_synced(script->a) ? "true" : "false"); }

static answer own_write(const script *script) {
  ph_key key = {script->request->key.ns, script->a};
  const char *body = ph_format("{\"data\":{\"value\":%s}}", ph_quote(script->b));
  if (ph_client_patch((ph_type){"v1", "ConfigMap"}, key, PH_MERGE_PATCH, body, NULL, NULL)) return api_error();
  ph_object *item = ph_cache_get("items", key);
  return value(item ? or_none(ph_text(item, "/data/value"), "absent") : "none");
}

const operation cache_operations[] = {
  {"get", get}, {"json-length", json_length}, {"object", object}, {"list", list}, {"list-fields", list_fields}, {"by-index", by_index},
  {"index-keys", index_keys}, {"index-values", index_values}, {"has-synced", has_synced}, {"own-write", own_write}, {NULL, NULL},
};
