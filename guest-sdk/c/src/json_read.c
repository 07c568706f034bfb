/* Reading JSON by JSON pointers, without building a tree. Assumes valid JSON: it comes from the host or from the plugin's source. */
#include "internal.h"

const char *ph_json_blank(const char *json) { return json + strspn(json, " \t\r\n"); }

static const char *skip_string(const char *json) {
  for (json++; *json && *json != '"'; json++) {
    if (*json == '\\' && !*++json) return NULL;
  }
  return *json ? json + 1 : NULL;
}

const char *ph_json_skip(const char *json) {
  json = ph_json_blank(json);
  if (*json == '"') return skip_string(json);
  if (*json != '{' && *json != '[') {
    const char *end = json + strcspn(json, ",]} \t\r\n");
    return end == json ? NULL : end;
  }
  for (size_t depth = 0; *json;) {
    if (*json == '"') {
      json = skip_string(json);
      if (!json) return NULL;
      continue;
    }
    if (*json == '{' || *json == '[') depth++;
    if (*json == '}' || *json == ']') depth--;
    json++;
    if (!depth) return json;
  }
  return NULL;
}

static unsigned hex(const char *digits) {
  unsigned value = 0;
  for (int at = 0; at < 4; at++) {
    char digit = digits[at];
    value = value * 16 + (unsigned)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  return value;
}

static char *put_utf8(char *out, unsigned code) {
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xc0 | code >> 6);
    *out++ = (char)(0x80 | (code & 0x3f));
  } else {
    if (code < 0x10000) {
      *out++ = (char)(0xe0 | code >> 12);
    } else {
      *out++ = (char)(0xf0 | code >> 18);
      *out++ = (char)(0x80 | (code >> 12 & 0x3f));
    }
    *out++ = (char)(0x80 | (code >> 6 & 0x3f));
    *out++ = (char)(0x80 | (code & 0x3f));
  }
  return out;
}

const char *ph_json_unquote(const char *literal, const char *end) {
  char *text = ph_take((size_t)(end - literal) + 1), *out = text;
  for (const char *at = literal + 1; at + 1 < end; at++) {
    if (*at != '\\') {
      *out++ = *at;
      continue;
    }
    switch (*++at) {
      case 'n': *out++ = '\n'; break;
      case 'r': *out++ = '\r'; break;
      case 't': *out++ = '\t'; break;
      case 'b': *out++ = '\b'; break;
      case 'f': *out++ = '\f'; break;
      case 'u': {
        if (end - at < 6) break;
        unsigned code = hex(at + 1);
        at += 4;
        if (code >= 0xd800 && code < 0xdc00 && end - at > 7 && at[1] == '\\' && at[2] == 'u') {
          code = 0x10000 + ((code - 0xd800) << 10) + (hex(at + 3) - 0xdc00);
          at += 6;
        }
        out = put_utf8(out, code);
        break;
      }
      default: *out++ = *at;
    }
  }
  *out = 0;
  return text;
}

/* Decodes one segment of a JSON pointer. */
static const char *segment(const char **pointer) {
  const char *start = *pointer + 1;
  size_t length = strcspn(start, "/");
  char *text = (char *)ph_copy(start, length), *out = text;
  *pointer = start + length;
  for (const char *at = text; *at; at++) {
    bool escaped = *at == '~' && (at[1] == '0' || at[1] == '1');
    *out++ = escaped ? (*++at == '0' ? '~' : '/') : *at;
  }
  *out = 0;
  return text;
}

static const char *member(const char *json, const char *name) {
  for (json = ph_json_blank(json + 1); *json == '"';) {
    const char *end = skip_string(json);
    if (!end) return NULL;
    bool found = strcmp(ph_json_unquote(json, end), name) == 0;
    json = ph_json_blank(end);
    if (*json != ':') return NULL;
    json = ph_json_blank(json + 1);
    if (found) return json;
    json = ph_json_skip(json);
    if (!json) return NULL;
    json = ph_json_blank(json);
    if (*json == ',') json = ph_json_blank(json + 1);
  }
  return NULL;
}

static const char *element(const char *json, const char *position) {
  if (!*position || strspn(position, "0123456789") != strlen(position)) return NULL;
  json = ph_json_blank(json + 1);
  for (unsigned long remaining = strtoul(position, NULL, 10); *json && *json != ']'; remaining--) {
    if (!remaining) return json;
    json = ph_json_skip(json);
    if (!json) return NULL;
    json = ph_json_blank(json);
    if (*json != ',') return NULL;
    json = ph_json_blank(json + 1);
  }
  return NULL;
}

static const char *find(const char *json, const char *pointer) {
  if (!json || !pointer || (*pointer && *pointer != '/')) return NULL;
  json = ph_json_blank(json);
  while (json && *pointer) {
    const char *name = segment(&pointer);
    json = *json == '{' ? member(json, name) : *json == '[' ? element(json, name) : NULL;
  }
  return json && *json ? json : NULL;
}

const char *ph_json_at(const char *json, const char *pointer) {
  const char *found = find(json, pointer), *end = found ? ph_json_skip(found) : NULL;
  return end ? ph_copy(found, (size_t)(end - found)) : NULL;
}

const char *ph_json_text_at(const char *json, const char *pointer) {
  const char *found = find(json, pointer), *end = found ? ph_json_skip(found) : NULL;
  if (!end) return NULL;
  return *found == '"' ? ph_json_unquote(found, end) : ph_copy(found, (size_t)(end - found));
}
