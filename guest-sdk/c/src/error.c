/* The error of the last request. */
#include "internal.h"

static ph_error last;

const ph_error *ph_last_error(void) { return &last; }

static const char *joined(const char *const *items) {
  ph_buffer text = {0};
  for (; items && *items; items++) ph_append(&text, "%s%s", text.length ? ", " : "", **items ? *items : "the core group");
  return ph_buffer_text(&text);
}

static const char *denial(const ph_rule *rule) {
  const char *suffix = rule->namespaces && *rule->namespaces ? ph_format(" in %s", joined(rule->namespaces)) : "";
  return ph_format("denied by the host: the descriptor's writes and the grant need %s on %s of %s%s", joined(rule->verbs),
                   joined(rule->resources), joined(rule->api_groups), suffix);
}

static void take_causes(const pilothouse_controller_types_list_cause_t *list) {
  ph_cause *causes = ph_alloc(list->len * sizeof *causes);
  ph_buffer text = {0};
  for (size_t i = 0; i < list->len; i++) {
    causes[i] = (ph_cause){ph_in(list->ptr[i].field), ph_in(list->ptr[i].reason), ph_in(list->ptr[i].message)};
    ph_append(&text, "%s%s%s%s", i ? "; " : "invalid: ", causes[i].field, *causes[i].field ? ": " : "", causes[i].message);
  }
  last.causes = causes;
  last.cause_count = list->len;
  last.message = ph_buffer_text(&text);
}

ph_code ph_failed(const pilothouse_controller_types_api_error_t *error) {
  last = (ph_error){.code = (ph_code)(error->tag + 1), .message = "", .resource_version = "", .reason = ""};
  switch (last.code) {
    case PH_NOT_FOUND: last.message = ph_format("not found: %s", ph_in(error->val.not_found)); break;
    case PH_ALREADY_EXISTS: last.message = ph_format("already exists: %s", ph_in(error->val.already_exists)); break;
    case PH_CONFLICT:
      last.message = ph_format("conflict: %s", ph_in(error->val.conflict.message));
      last.resource_version = ph_in(error->val.conflict.resource_version);
      break;
    case PH_INVALID: take_causes(&error->val.invalid); break;
    case PH_FORBIDDEN: last.message = ph_format("forbidden: %s", ph_in(error->val.forbidden)); break;
    case PH_DENIED: {
      const pilothouse_controller_types_rule_t *rule = &error->val.denied;
      last.rule = (ph_rule){ph_in_list(rule->api_groups.ptr, rule->api_groups.len), ph_in_list(rule->resources.ptr, rule->resources.len),
                            ph_in_list(rule->verbs.ptr, rule->verbs.len), ph_in_list(rule->namespaces.ptr, rule->namespaces.len)};
      last.message = denial(&last.rule);
      break;
    }
    case PH_TOO_MANY_REQUESTS:
      last.retry_after = error->val.too_many_requests;
      last.message = ph_format("too many requests: try again in %u ms", (unsigned)last.retry_after);
      break;
    case PH_UNAVAILABLE: last.message = ph_format("unavailable: %s", ph_in(error->val.unavailable)); break;
    default:
      last.status = error->val.other.code;
      last.reason = ph_in(error->val.other.reason);
      last.message = ph_format("%u %s: %s", (unsigned)last.status, last.reason, ph_in(error->val.other.message));
  }
  return last.code;
}

ph_outcome ph_checked(ph_code code, const char *what) {
  return code == PH_OK ? ph_done() : ph_retry("%s: %s", what, last.message);
}
