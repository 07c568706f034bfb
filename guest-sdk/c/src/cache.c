/* Reading the host's cache. */
#include "internal.h"

ph_object *ph_cache_get(const char *watch, ph_key key) {
  ph_wit_string name = ph_out(watch);
  ph_wit_key out = ph_out_key(key);
  ph_own own;
  return pilothouse_controller_cache_get(&name, &out, &own) ? ph_opened(own) : NULL;
}

static pilothouse_controller_cache_filter_t out_filter(ph_filter filter) {
  return (pilothouse_controller_cache_filter_t){ph_out(filter.ns), ph_out(filter.label_selector), filter.limit, ph_out(filter.cursor)};
}

ph_page ph_cache_list(const char *watch, ph_filter filter) {
  ph_wit_string name = ph_out(watch);
  pilothouse_controller_cache_filter_t out = out_filter(filter);
  pilothouse_controller_cache_page_t page;
  pilothouse_controller_cache_list(&name, &out, &page);
  ph_objects objects = ph_opened_all(page.items.ptr, page.items.len);
  return (ph_page){objects.items, objects.count, ph_in(page.next)};
}

ph_rows ph_cache_fields(const char *watch, ph_filter filter, const char *const *pointers) {
  bindings_list_string_t list = ph_out_list(pointers);
  ph_wit_string name = ph_out(watch);
  pilothouse_controller_cache_filter_t out = out_filter(filter);
  pilothouse_controller_cache_list_row_t found;
  pilothouse_controller_cache_list_fields(&name, &out, &list, &found);
  ph_row *rows = ph_alloc(found.len * sizeof *rows);
  for (size_t i = 0; i < found.len; i++) rows[i] = (ph_row){ph_in_key(found.ptr[i].key), ph_in_values(&found.ptr[i].values)};
  return (ph_rows){rows, found.len};
}

ph_objects ph_cache_by_index(const char *watch, const char *index, const char *value) {
  ph_wit_string watch_name = ph_out(watch), index_name = ph_out(index), out = ph_out(value);
  pilothouse_controller_cache_list_own_object_t found;
  pilothouse_controller_cache_by_index(&watch_name, &index_name, &out, &found);
  return ph_opened_all(found.ptr, found.len);
}

ph_keys ph_cache_index_keys(const char *watch, const char *index, const char *value) {
  ph_wit_string watch_name = ph_out(watch), index_name = ph_out(index), out = ph_out(value);
  pilothouse_controller_cache_list_object_key_t found;
  pilothouse_controller_cache_index_keys(&watch_name, &index_name, &out, &found);
  ph_key *keys = ph_alloc(found.len * sizeof *keys);
  for (size_t i = 0; i < found.len; i++) keys[i] = ph_in_key(found.ptr[i]);
  return (ph_keys){keys, found.len};
}

const char *const *ph_in_list(const bindings_string_t *items, size_t count) {
  const char **list = ph_alloc((count + 1) * sizeof *list);
  for (size_t i = 0; i < count; i++) list[i] = ph_in(items[i]);
  return list;
}

ph_strings ph_cache_index_values(const char *watch, const char *index) {
  ph_wit_string watch_name = ph_out(watch), index_name = ph_out(index);
  bindings_list_string_t found;
  pilothouse_controller_cache_index_values(&watch_name, &index_name, &found);
  return (ph_strings){ph_in_list(found.ptr, found.len), found.len};
}

bool ph_cache_has_synced(const char *watch) {
  ph_wit_string name = ph_out(watch);
  return pilothouse_controller_cache_has_synced(&name);
}
