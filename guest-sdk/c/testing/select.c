/* Selectors and indexes of the fake host. host.c includes this file. */

static bool is_blank(char character) { return character == ' ' || character == '\t'; }

static const char *trimmed(const char *start, const char *end) {
  while (start < end && is_blank(*start)) start++;
  while (start < end && is_blank(end[-1])) end--;
  return ph_node_text("%.*s", (int)(end - start), start);
}

static bool is_alphanumeric(char character) {
  return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
}

/* Returns the length of a label's key at the start of the text; 0 for none. */
static size_t key_length(const char *text) {
  size_t length = strspn(text, "-_./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
  return length && is_alphanumeric(*text) && is_alphanumeric(text[length - 1]) ? length : 0;
}

static bool is_label_value(const char *text) {
  return !*text || (key_length(text) == strlen(text) && !strchr(text, '/'));
}

static bool is_in(const char *list, const char *value) {
  for (;; list++) {
    const char *end = list + strcspn(list, ",");
    if (value && strcmp(trimmed(list, end), value) == 0) return true;
    if (!*end) return false;
    list = end;
  }
}

/* Evaluates one requirement. Returns false if it is malformed. */
static bool requirement(const char *term, const ph_node *labels, bool *fits) {
  bool absent = *term == '!';
  if (absent) term += 1 + strspn(term + 1, " \t");
  size_t length = key_length(term);
  if (!length) return false;
  const char *key = ph_node_text("%.*s", (int)length, term), *rest = term + length, *sign = rest + strspn(rest, " \t");
  const ph_node *found = ph_node_get(labels, key);
  const char *label = found && found->type == PH_IS_STRING ? found->text : NULL;
  if (!*sign || absent) {
    *fits = (label != NULL) != absent;
    return !*sign;
  }
  bool in = strncmp(sign, "in", 2) == 0, notin = strncmp(sign, "notin", 5) == 0;
  if (sign != rest && (in || notin)) {
    const char *open = sign + (in ? 2 : 5);
    open += strspn(open, " \t");
    if (*open != '(' || open[strlen(open) - 1] != ')') return false;
    *fits = is_in(ph_node_text("%.*s", (int)strlen(open) - 2, open + 1), label) == in;
    return true;
  }
  size_t width = strncmp(sign, "==", 2) == 0 || strncmp(sign, "!=", 2) == 0 ? 2 : strchr("=<>", *sign) ? 1 : 0;
  const char *value = sign + width + strspn(sign + width, " \t");
  if (!width || !is_label_value(value)) return false;
  if (*sign == '<' || *sign == '>') {
    long long number = label ? strtoll(label, NULL, 10) : 0, limit = strtoll(value, NULL, 10);
    *fits = label && *label && (*sign == '<' ? number < limit : number > limit);
  } else {
    *fits = (label && strcmp(label, value) == 0) == (*sign != '!');
  }
  return true;
}

/* Evaluates a label selector in kubectl's syntax. Sets the problem if it is malformed. */
static bool selects(const char *selector, const ph_node *object, const char **problem) {
  const ph_node *labels = ph_node_at(object, "/metadata/labels");
  bool all = true;
  if (!selector || !selector[strspn(selector, " \t")]) return true;
  for (const char *start = selector;; start++) {
    size_t length = 0;
    for (bool inside = false; start[length] && (inside || start[length] != ','); length++) {
      inside = start[length] == '(' || (inside && start[length] != ')');
    }
    const char *term = trimmed(start, start + length);
    bool fits;
    if (!requirement(term, labels, &fits)) {
      *problem = ph_node_text("label selector \"%s\" doesn't parse: \"%s\" is not a requirement", selector, term);
      return false;
    }
    all = all && fits;
    start += length;
    if (!*start) return all;
  }
}

/* Returns a string without quotes, other scalars as JSON, and "" for nothing. */
static const char *scalar(const ph_node *node) {
  if (!node || node->type == PH_IS_NULL) return "";
  return node->type == PH_IS_STRING ? node->text : ph_node_json(node);
}

/* Evaluates a field selector. Unlike a server, it accepts every field. */
static bool has_fields(const char *selector, const ph_node *object) {
  while (selector && *selector) {
    size_t length = strcspn(selector, ",");
    const char *term = ph_node_text("%.*s", (int)length, selector), *sign = term + strcspn(term, "=!");
    if (*sign) {
      bool differs = *sign == '!';
      char *pointer = (char *)ph_node_text("/%s", trimmed(term, sign));
      for (char *at = pointer + 1; *at; at++) *at = *at == '.' ? '/' : *at;
      const char *value = sign + strspn(sign, "=!");
      if ((strcmp(scalar(ph_node_at(object, pointer)), trimmed(value, value + strlen(value))) == 0) == differs) return false;
    }
    selector += length + (selector[length] == ',');
  }
  return true;
}

/* Values of an index, without duplicates. */
typedef struct {
  const char **items;
  size_t count;
} texts;

static void add_text(texts *list, const char *text) {
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i], text) == 0) return;
  }
  const char **items = ph_node_alloc((list->count + 1) * sizeof *items);
  if (list->count) memcpy(items, list->items, list->count * sizeof *items);
  items[list->count++] = text;
  list->items = items;
}

static void add_scalar(texts *list, const ph_node *node) {
  if (node && node->type != PH_IS_NULL && node->type < PH_IS_OBJECT) add_text(list, scalar(node));
}

/* Adds the values at a JSONPath of members, positions and [*], which are all that the host supports. */
static void add_at_path(texts *list, const ph_node *node, const char *path) {
  if (!*path || strcmp(path, "}") == 0) {
    add_scalar(list, node);
    return;
  }
  bool dotted = *path == '.';
  path += dotted;
  char *name = ph_node_alloc(strlen(path) + 1), *out = name;
  bool every = false;
  if (*path == '[') {
    const char quote = path[1], *end = quote == '\'' || quote == '"' ? strchr(path + 2, quote) : strchr(path, ']');
    PH_CHECK(end);
    const char *start = path + (*end == ']' ? 1 : 2);
    sprintf(name, "%.*s", (int)(end - start), start);
    every = *end == ']' && strcmp(name, "*") == 0;
    path = *end == ']' ? end + 1 : end + 2;
  } else {
    PH_CHECK(dotted);
    for (; *path && !strchr(".[]{}'\" ", *path); path++) {
      if (*path == '\\' && path[1]) path++;
      *out++ = *path;
    }
    every = strcmp(name, "*") == 0;
  }
  for (size_t i = 0; every && node && i < node->count; i++) add_at_path(list, node->items[i], path);
  const ph_node *next = every || !node ? NULL : ph_node_at(node, ph_node_below("", name));
  if (next) add_at_path(list, next, path);
}

/* Returns the values of an index that the host computes. */
static texts declared_values(const ph_node *index, const ph_node *object) {
  texts values = {0};
  const ph_node *metadata = ph_node_get(object, "metadata"), *owners = ph_node_get(metadata, "ownerReferences");
  if (ph_node_get(index, "label")) {
    add_scalar(&values, ph_node_get(ph_node_get(metadata, "labels"), ph_node_member(index, "label")));
  } else if (ph_node_get(index, "annotation")) {
    add_scalar(&values, ph_node_get(ph_node_get(metadata, "annotations"), ph_node_member(index, "annotation")));
  } else if (ph_node_get(index, "owner")) {
    for (size_t i = 0; owners && i < owners->count; i++) add_scalar(&values, ph_node_get(owners->items[i], "uid"));
  } else {
    const char *path = ph_node_member(index, "field");
    path += *path == '{';
    path += *path == '$';
    add_at_path(&values, object, path);
  }
  return values;
}
