/* Objects, and the objects behind notifications. */
#include "internal.h"

#define METHOD(name) pilothouse_controller_objects_method_object_##name

ph_objects ph_opened_all(const ph_own *items, size_t count) {
  ph_object **opened = ph_alloc(count * sizeof *opened);
  for (size_t i = 0; i < count; i++) opened[i] = ph_opened(items[i]);
  return (ph_objects){opened, count};
}

ph_pairs ph_in_pairs(const pilothouse_controller_types_pair_t *items, size_t count) {
  ph_pair *pairs = ph_alloc(count * sizeof *pairs);
  for (size_t i = 0; i < count; i++) pairs[i] = (ph_pair){ph_in(items[i].key), ph_in(items[i].value)};
  return (ph_pairs){pairs, count};
}

pilothouse_controller_types_pair_t *ph_out_pairs(ph_pairs pairs) {
  pilothouse_controller_types_pair_t *out = ph_alloc(pairs.count * sizeof *out);
  for (size_t i = 0; i < pairs.count; i++) {
    out[i].key = ph_out(pairs.items[i].key);
    out[i].value = ph_out(pairs.items[i].value);
  }
  return out;
}

ph_key ph_object_key(const ph_object *object) {
  ph_wit_key key;
  METHOD(key)(ph_borrow(object), &key);
  return ph_in_key(key);
}

#define STRING_METHOD(name)                              \
  const char *ph_object_##name(const ph_object *object) { \
    ph_wit_string value;                                 \
    METHOD(name)(ph_borrow(object), &value);             \
    return ph_in(value);                                 \
  }

STRING_METHOD(api_version)
STRING_METHOD(kind)
STRING_METHOD(uid)
STRING_METHOD(resource_version)
STRING_METHOD(json)

uint32_t ph_object_generation(const ph_object *object) { return METHOD(generation)(ph_borrow(object)); }

ph_pairs ph_object_labels(const ph_object *object) {
  pilothouse_controller_objects_list_pair_t labels;
  METHOD(labels)(ph_borrow(object), &labels);
  return ph_in_pairs(labels.ptr, labels.len);
}

const char *ph_object_label(const ph_object *object, const char *key) {
  ph_wit_string out = ph_out(key), value;
  return METHOD(label)(ph_borrow(object), &out, &value) ? ph_in(value) : NULL;
}

const char *ph_object_annotation(const ph_object *object, const char *key) {
  ph_wit_string out = ph_out(key), value;
  return METHOD(annotation)(ph_borrow(object), &out, &value) ? ph_in(value) : NULL;
}

const char *ph_object_deletion_timestamp(const ph_object *object) {
  ph_wit_string value;
  return METHOD(deletion_timestamp)(ph_borrow(object), &value) ? ph_in(value) : NULL;
}

bool ph_object_controller(const ph_object *object, ph_owner *owner) {
  pilothouse_controller_objects_owner_t found;
  if (!METHOD(controller)(ph_borrow(object), &found)) return false;
  *owner = (ph_owner){ph_in(found.api_version), ph_in(found.kind), ph_in(found.name), ph_in(found.uid)};
  return true;
}

const char *ph_field(const ph_object *object, const char *pointer) {
  ph_wit_string out = ph_out(pointer), value;
  return METHOD(field)(ph_borrow(object), &out, &value) ? ph_in(value) : NULL;
}

const char *ph_text(const ph_object *object, const char *pointer) {
  ph_wit_string out = ph_out(pointer), value;
  return METHOD(text)(ph_borrow(object), &out, &value) ? ph_in(value) : NULL;
}

bindings_list_string_t ph_out_list(const char *const *texts) {
  size_t count = 0;
  while (texts[count]) count++;
  bindings_list_string_t list = {ph_alloc(count * sizeof *list.ptr), count};
  for (size_t i = 0; i < count; i++) list.ptr[i] = ph_out(texts[i]);
  return list;
}

const char *const *ph_in_values(const bindings_list_option_string_t *found) {
  const char **values = ph_alloc(found->len * sizeof *values);
  for (size_t i = 0; i < found->len; i++) values[i] = found->ptr[i].is_some ? ph_in(found->ptr[i].val) : NULL;
  return values;
}

const char *const *ph_fields(const ph_object *object, const char *const *pointers) {
  bindings_list_string_t list = ph_out_list(pointers);
  bindings_list_option_string_t found;
  METHOD(fields)(ph_borrow(object), &list, &found);
  return ph_in_values(&found);
}

const char *const *ph_texts(const ph_object *object, const char *const *pointers) {
  bindings_list_string_t list = ph_out_list(pointers);
  bindings_list_option_string_t found;
  METHOD(texts)(ph_borrow(object), &list, &found);
  return ph_in_values(&found);
}

long long ph_integer(const ph_object *object, const char *pointer, long long absent) {
  const char *value = ph_text(object, pointer);
  if (!value) return absent;
  char *end;
  long long number = strtoll(value, &end, 10);
  return end == value ? absent : number;
}

static pilothouse_controller_changes_borrow_batch_t batch_handle(const ph_batch *batch) {
  return (pilothouse_controller_changes_borrow_batch_t){batch->handle};
}

ph_object *ph_before(const ph_batch *batch, size_t position) {
  ph_own own;
  return pilothouse_controller_changes_method_batch_before(batch_handle(batch), (uint32_t)position, &own) ? ph_opened(own) : NULL;
}

ph_object *ph_after(const ph_batch *batch, size_t position) {
  ph_own own;
  return pilothouse_controller_changes_method_batch_after(batch_handle(batch), (uint32_t)position, &own) ? ph_opened(own) : NULL;
}

const char *ph_after_field(const ph_batch *batch, size_t position, const char *pointer) {
  ph_wit_string out = ph_out(pointer), value;
  bool found = pilothouse_controller_changes_method_batch_after_field(batch_handle(batch), (uint32_t)position, &out, &value);
  return found ? ph_in(value) : NULL;
}
