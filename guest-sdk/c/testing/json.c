/* JSON trees, for the fake host. host.c includes this file. */
#include "json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

typedef struct block {
  struct block *older;
  max_align_t memory[];
} block;

static block *blocks;

void *ph_node_alloc(size_t size) {
  block *made = calloc(1, sizeof(block) + size);
  if (!made) abort();
  made->older = blocks;
  blocks = made;
  return made->memory;
}

void ph_json_reset(void) {
  while (blocks) {
    block *first = blocks;
    blocks = first->older;
    free(first);
  }
}

const char *ph_node_text(const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = ph_node_alloc((size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

static ph_node *node_of(ph_node_type type, const char *text) {
  ph_node *node = ph_node_alloc(sizeof *node);
  node->type = type;
  node->text = text;
  return node;
}

ph_node *ph_node_object(void) { return node_of(PH_IS_OBJECT, NULL); }

ph_node *ph_node_string(const char *text) { return node_of(PH_IS_STRING, ph_node_text("%s", text)); }

ph_node *ph_node_number(long long number) { return node_of(PH_IS_NUMBER, ph_node_text("%lld", number)); }

static void grow(ph_node *node) {
  if (node->count < node->capacity) return;
  size_t capacity = node->capacity ? node->capacity * 2 : 8;
  ph_node **items = ph_node_alloc(capacity * sizeof *items);
  const char **names = ph_node_alloc(capacity * sizeof *names);
  if (node->count) {
    memcpy(items, node->items, node->count * sizeof *items);
    memcpy(names, node->names, node->count * sizeof *names);
  }
  node->items = items;
  node->names = names;
  node->capacity = capacity;
}

void ph_node_insert(ph_node *array, size_t position, ph_node *value) {
  grow(array);
  memmove(array->items + position + 1, array->items + position, (array->count - position) * sizeof *array->items);
  memmove(array->names + position + 1, array->names + position, (array->count - position) * sizeof *array->names);
  array->items[position] = value;
  array->count++;
}

void ph_node_erase(ph_node *array, size_t position) {
  array->count--;
  memmove(array->items + position, array->items + position + 1, (array->count - position) * sizeof *array->items);
  memmove(array->names + position, array->names + position + 1, (array->count - position) * sizeof *array->names);
}

static long find_member(const ph_node *object, const char *name) {
  if (!object || object->type != PH_IS_OBJECT) return -1;
  for (size_t i = 0; i < object->count; i++) {
    if (strcmp(object->names[i], name) == 0) return (long)i;
  }
  return -1;
}

ph_node *ph_node_get(const ph_node *object, const char *name) {
  long found = find_member(object, name);
  return found < 0 ? NULL : object->items[found];
}

void ph_node_set(ph_node *object, const char *name, ph_node *value) {
  long found = find_member(object, name);
  if (found < 0) {
    found = (long)object->count;
    ph_node_insert(object, object->count, value);
    object->names[found] = ph_node_text("%s", name);
  }
  object->items[found] = value;
}

void ph_node_remove(ph_node *object, const char *name) {
  long found = find_member(object, name);
  if (found >= 0) ph_node_erase(object, (size_t)found);
}

ph_node *ph_node_ensure(ph_node *object, const char *name) {
  ph_node *found = ph_node_get(object, name);
  if (found && found->type == PH_IS_OBJECT) return found;
  found = ph_node_object();
  ph_node_set(object, name, found);
  return found;
}

const char *ph_node_member(const ph_node *object, const char *name) {
  const ph_node *found = ph_node_get(object, name);
  return found && found->type == PH_IS_STRING ? found->text : "";
}

long long ph_node_integer(const ph_node *object, const char *name) {
  const ph_node *found = ph_node_get(object, name);
  return found && found->type == PH_IS_NUMBER ? strtoll(found->text, NULL, 10) : 0;
}

/* ---- Parsing and writing ---- */

static ph_node *parse_value(const char **at);

/* Parses the members or elements after the opening bracket. */
static ph_node *parse_items(const char **at, ph_node *node, char closing) {
  *at = ph_json_blank(*at + 1);
  while (**at != closing) {
    const char *name = NULL;
    if (closing == '}') {
      const char *end = **at == '"' ? ph_json_skip(*at) : NULL;
      if (!end) return NULL;
      name = ph_node_text("%s", ph_json_unquote(*at, end));
      *at = ph_json_blank(end);
      if (**at != ':') return NULL;
      *at = ph_json_blank(*at + 1);
    }
    ph_node *value = parse_value(at);
    if (!value) return NULL;
    if (name) {
      ph_node_set(node, name, value);
    } else {
      ph_node_insert(node, node->count, value);
    }
    *at = ph_json_blank(*at);
    if (**at == ',') {
      *at = ph_json_blank(*at + 1);
      if (**at == closing) return NULL;
    } else if (**at != closing) {
      return NULL;
    }
  }
  ++*at;
  return node;
}

static ph_node *parse_value(const char **at) {
  *at = ph_json_blank(*at);
  if (**at == '{') return parse_items(at, ph_node_object(), '}');
  if (**at == '[') return parse_items(at, node_of(PH_IS_ARRAY, NULL), ']');
  const char *start = *at, *end = ph_json_skip(start);
  if (!end) return NULL;
  *at = end;
  if (*start == '"') return node_of(PH_IS_STRING, ph_node_text("%s", ph_json_unquote(start, end)));
  static const struct {
    const char *text;
    ph_node_type type;
  } literals[] = {{"null", PH_IS_NULL}, {"false", PH_IS_FALSE}, {"true", PH_IS_TRUE}};
  const char *text = ph_node_text("%.*s", (int)(end - start), start);
  for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
    if (strcmp(text, literals[i].text) == 0) return node_of(literals[i].type, NULL);
  }
  return strchr("-0123456789", *start) ? node_of(PH_IS_NUMBER, text) : NULL;
}

ph_node *ph_node_parse(const char *json) {
  ph_node *node = parse_value(&json);
  return node && !*ph_json_blank(json) ? node : NULL;
}

static void write_node(ph_buffer *out, const ph_node *node) {
  switch (node->type) {
    case PH_IS_NULL: ph_append_text(out, "null"); break;
    case PH_IS_FALSE: ph_append_text(out, "false"); break;
    case PH_IS_TRUE: ph_append_text(out, "true"); break;
    case PH_IS_NUMBER: ph_append_text(out, node->text); break;
    case PH_IS_STRING: ph_append_text(out, ph_quote(node->text)); break;
    default:
      ph_append_text(out, node->type == PH_IS_OBJECT ? "{" : "[");
      for (size_t i = 0; i < node->count; i++) {
        if (i) ph_append_text(out, ",");
        if (node->type == PH_IS_OBJECT) {
          ph_append_text(out, ph_quote(node->names[i]));
          ph_append_text(out, ":");
        }
        write_node(out, node->items[i]);
      }
      ph_append_text(out, node->type == PH_IS_OBJECT ? "}" : "]");
  }
}

const char *ph_node_json(const ph_node *node) {
  ph_buffer out = {0};
  write_node(&out, node);
  return ph_node_text("%s", ph_buffer_text(&out));
}

ph_node *ph_node_clone(const ph_node *node) {
  ph_node *copy = node_of(node->type, node->text);
  for (size_t i = 0; i < node->count; i++) {
    ph_node_insert(copy, i, ph_node_clone(node->items[i]));
    copy->names[i] = node->names[i];
  }
  return copy;
}

bool ph_node_same(const ph_node *one, const ph_node *other) {
  if (!one || !other) return one == other;
  if (one->type != other->type || one->count != other->count) return false;
  if (one->text && strcmp(one->text, other->text) != 0) return false;
  for (size_t i = 0; i < one->count; i++) {
    const ph_node *counterpart = one->type == PH_IS_OBJECT ? ph_node_get(other, one->names[i]) : other->items[i];
    if (!ph_node_same(one->items[i], counterpart)) return false;
  }
  return true;
}

/* ---- JSON pointers ---- */

const char *ph_node_segment(const char **pointer) {
  const char *start = *pointer + 1;
  size_t length = strcspn(start, "/");
  *pointer = start + length;
  char *text = ph_node_alloc(length + 1), *out = text;
  for (size_t i = 0; i < length; i++) {
    bool escaped = start[i] == '~' && i + 1 < length && (start[i + 1] == '0' || start[i + 1] == '1');
    *out++ = escaped ? (start[++i] == '0' ? '~' : '/') : start[i];
  }
  return text;
}

const char *ph_node_below(const char *pointer, const char *name) {
  char *text = ph_node_alloc(strlen(pointer) + 2 * strlen(name) + 2), *out = text;
  out += sprintf(out, "%s/", pointer);
  for (; *name; name++) {
    if (*name == '~' || *name == '/') {
      *out++ = '~';
      *out++ = *name == '~' ? '0' : '1';
    } else {
      *out++ = *name;
    }
  }
  return text;
}

long ph_node_position(const char *segment) {
  return *segment && strspn(segment, "0123456789") == strlen(segment) ? strtol(segment, NULL, 10) : -1;
}

static ph_node *child(const ph_node *node, const char *segment) {
  if (node && node->type == PH_IS_OBJECT) return ph_node_get(node, segment);
  long position = ph_node_position(segment);
  return node && node->type == PH_IS_ARRAY && position >= 0 && (size_t)position < node->count ? node->items[position] : NULL;
}

ph_node *ph_node_at(const ph_node *node, const char *pointer) {
  while (node && *pointer) node = child(node, ph_node_segment(&pointer));
  return (ph_node *)node;
}

void ph_node_put(ph_node *object, const char *pointer, ph_node *value) {
  const char *name = ph_node_segment(&pointer);
  while (*pointer) {
    object = ph_node_ensure(object, name);
    name = ph_node_segment(&pointer);
  }
  ph_node_set(object, name, value);
}

void ph_node_drop(ph_node *object, const char *pointer) {
  const char *name = ph_node_segment(&pointer);
  ph_node *inner = ph_node_get(object, name);
  if (inner && *pointer) {
    ph_node_drop(inner, pointer);
    if (inner->type != PH_IS_OBJECT || inner->count) return;
  }
  ph_node_remove(object, name);
}

/* ---- Patches ---- */

ph_node *ph_node_merge(ph_node *target, const ph_node *patch) {
  if (patch->type != PH_IS_OBJECT) return ph_node_clone(patch);
  ph_node *merged = target && target->type == PH_IS_OBJECT ? target : ph_node_object();
  for (size_t i = 0; i < patch->count; i++) {
    if (patch->items[i]->type == PH_IS_NULL) {
      ph_node_remove(merged, patch->names[i]);
    } else {
      ph_node_set(merged, patch->names[i], ph_node_merge(ph_node_get(merged, patch->names[i]), patch->items[i]));
    }
  }
  return merged;
}

/* Finds the object or array that holds what is at a path, and the path's last segment. */
static ph_node *container(const ph_node *box, const char *path, const char **last) {
  const ph_node *node = box;
  *last = "";
  while (node && *path) {
    node = child(node, *last);
    *last = ph_node_segment(&path);
  }
  return node && (node->type == PH_IS_OBJECT || node->type == PH_IS_ARRAY) ? (ph_node *)node : NULL;
}

static const char *add(ph_node *box, const char *path, ph_node *value) {
  const char *last;
  ph_node *holder = container(box, path, &last);
  if (!holder) return ph_node_text("nothing is at %s", path);
  if (holder->type == PH_IS_OBJECT) {
    ph_node_set(holder, last, value);
    return NULL;
  }
  long position = strcmp(last, "-") == 0 ? (long)holder->count : ph_node_position(last);
  if (position < 0 || (size_t)position > holder->count) return ph_node_text("%s is not a position in the list", path);
  ph_node_insert(holder, (size_t)position, value);
  return NULL;
}

static const char *take(ph_node *box, const char *path) {
  const char *last;
  ph_node *holder = container(box, path, &last);
  if (!holder || !child(holder, last)) return ph_node_text("nothing is at %s", path);
  if (holder->type == PH_IS_OBJECT) {
    ph_node_remove(holder, last);
  } else {
    ph_node_erase(holder, (size_t)ph_node_position(last));
  }
  return NULL;
}

/* Returns what is wrong with the form of an operation; NULL for nothing. */
static const char *malformation(const ph_node *operation) {
  static const char *const arguments[][2] = {{"add", "value"},   {"replace", "value"}, {"test", "value"},
                                             {"remove", "path"}, {"move", "from"},     {"copy", "from"}};
  const char *name = ph_node_member(operation, "op");
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
    if (strcmp(arguments[i][0], name) != 0) continue;
    if (!ph_node_get(operation, "path") || !ph_node_get(operation, arguments[i][1])) {
      return ph_node_text("the operation %s needs path and %s", name, arguments[i][1]);
    }
    const char *path = ph_node_member(operation, "path"), *from = ph_node_member(operation, "from");
    if ((*path && *path != '/') || (*from && *from != '/')) return ph_node_text("%s is not a JSON pointer", *path == '/' ? from : path);
    return NULL;
  }
  return ph_node_text("unknown operation %s", name);
}

static const char *perform(ph_node *box, const ph_node *operation) {
  const char *name = ph_node_member(operation, "op"), *path = ph_node_member(operation, "path"), *from = ph_node_member(operation, "from");
  ph_node *value = ph_node_get(operation, "value");
  if (strcmp(name, "test") == 0) {
    return ph_node_same(ph_node_at(box, ph_node_text("/%s", path)), value) ? NULL : ph_node_text("the test of %s failed", path);
  }
  bool moves = strcmp(name, "move") == 0, removes = strcmp(name, "remove") == 0;
  if (moves || strcmp(name, "copy") == 0) {
    value = ph_node_at(box, ph_node_text("/%s", from));
    if (!value) return ph_node_text("nothing is at %s", from);
  }
  if (moves || removes || strcmp(name, "replace") == 0) {
    const char *problem = take(box, moves ? from : path);
    if (problem || removes) return problem;
  }
  return add(box, path, ph_node_clone(value));
}

ph_node *ph_node_patched(const ph_node *document, const ph_node *operations, const char **problem, bool *malformed) {
  *malformed = true;
  *problem = "a JSON patch is a list of operations";
  if (!operations || operations->type != PH_IS_ARRAY) return NULL;
  /* The document is the member "" of the box, so that the whole document can be replaced as well. */
  ph_node *box = ph_node_object();
  ph_node_set(box, "", ph_node_clone(document));
  for (size_t i = 0; i < operations->count; i++) {
    if ((*problem = malformation(operations->items[i]))) return NULL;
    if ((*problem = perform(box, operations->items[i]))) {
      *malformed = false;
      return NULL;
    }
  }
  return ph_node_get(box, "");
}
