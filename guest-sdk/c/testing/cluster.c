/* The fake API server. guest-sdk/testing/cases.json specifies it. It follows kube-apiserver, without schemas, defaults, admission and the garbage
 * collector. Stored objects are never changed, only replaced. host.c includes this file. */

typedef pilothouse_controller_client_api_error_t api_error;

/* The time of every creation and deletion. */
static const char now[] = "2026-01-01T00:00:00Z";
/* The field manager of the test's own writes. */
static const char another_client[] = "another client";
/* The metadata that a client may leave out of an update, and cannot change. */
static const char *const server_fields[] = {"uid",           "creationTimestamp", "generation",        "resourceVersion",
                                            "generateName",  "deletionTimestamp", "deletionGracePeriodSeconds", NULL};

/* ---- Errors ---- */

static ph_wit_string wit_text(const char *text) { return ph_out(ph_copy(text, strlen(text))); }

static void fail_with(api_error *error, ph_code code, const char *message) {
  memset(error, 0, sizeof *error);
  error->tag = (uint8_t)(code - 1);
  error->val.not_found = wit_text(message);
}

static void conflict(api_error *error, const char *version, const char *message) {
  fail_with(error, PH_CONFLICT, "");
  error->val.conflict.message = wit_text(message);
  error->val.conflict.resource_version = wit_text(version);
}

static void invalid(api_error *error, const char *field, const char *reason, const char *message) {
  fail_with(error, PH_INVALID, "");
  pilothouse_controller_types_cause_t *cause = ph_alloc(sizeof *cause);
  *cause = (pilothouse_controller_types_cause_t){wit_text(field), wit_text(reason), wit_text(message)};
  error->val.invalid.ptr = cause;
  error->val.invalid.len = 1;
}

static void other_status(api_error *error, uint16_t code, const char *reason, const char *message) {
  fail_with(error, PH_OTHER, "");
  error->val.other.code = code;
  error->val.other.reason = wit_text(reason);
  error->val.other.message = wit_text(message);
}

/* ---- Kinds ---- */

typedef enum { UNKNOWN_SCOPE, NAMESPACED, CLUSTER_SCOPED } scope;

typedef struct {
  const char *group, *plural;
  scope scope; /* unknown for the kind of a CRD that the plugin does not bring */
  bool has_status, has_generation, needs_version;
} kind_info;

/* Returns whether a text is one of the words of a list. */
static bool listed(const char *list, const char *word) {
  const char *found = list;
  size_t length = strlen(word);
  while (length && (found = strstr(found, word))) {
    if ((found == list || found[-1] == ' ') && (found[length] == ' ' || !found[length])) return true;
    found += length;
  }
  return false;
}

static const char built_in_groups[] =
  "apps autoscaling batch extensions policy admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io authentication.k8s.io "
  "authorization.k8s.io certificates.k8s.io coordination.k8s.io discovery.k8s.io events.k8s.io flowcontrol.apiserver.k8s.io "
  "networking.k8s.io node.k8s.io rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io";
static const char cluster_scoped[] =
  "APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding CustomResourceDefinition DeviceClass FlowSchema "
  "IngressClass MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration ResourceSlice "
  "RuntimeClass StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment";
static const char with_status[] =
  "APIService CertificateSigningRequest CronJob CustomResourceDefinition DaemonSet Deployment FlowSchema HorizontalPodAutoscaler Ingress "
  "Job Namespace Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PriorityLevelConfiguration ReplicaSet "
  "ReplicationController ResourceClaim ResourceQuota Service StatefulSet ValidatingAdmissionPolicy VolumeAttachment";
static const char with_generation[] =
  "CSIDriver CronJob CustomResourceDefinition DaemonSet Deployment EndpointSlice FlowSchema Ingress IngressClass Job "
  "MutatingWebhookConfiguration NetworkPolicy Pod PodDisruptionBudget PodTemplate PriorityClass PriorityLevelConfiguration ReplicaSet "
  "ReplicationController StatefulSet ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration";
/* Built-in kinds whose update needs a resource version. */
static const char conditional_update[] = "CustomResourceDefinition Lease PodDisruptionBudget";

static const char *plural_of(const char *kind) {
  char *lower = (char *)ph_node_text("%s", kind);
  size_t length = strlen(lower);
  for (char *at = lower; *at; at++) *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + ('a' - 'A') : *at);
  if (strcmp(lower, "endpoints") == 0 || !length) return lower;
  char last = lower[length - 1], before = length > 1 ? lower[length - 2] : 0;
  if (last == 'y' && !strchr("aeiou", before)) return ph_node_text("%.*sies", (int)length - 1, lower);
  bool sibilant = last == 's' || last == 'x' || (before == 'c' && last == 'h');
  return ph_node_text(sibilant ? "%ses" : "%ss", lower);
}

/* Returns what is known about a kind, from the plugin's CRDs and the built-in kinds. */
static kind_info kind_of(ph_type type) {
  const char *slash = strrchr(type.api_version, '/'), *version = slash ? slash + 1 : type.api_version;
  const char *group = slash ? ph_node_text("%.*s", (int)(slash - type.api_version), type.api_version) : "";
  const ph_node *crds = ph_node_get(descriptor, "crds");
  for (size_t i = 0; crds && i < crds->count; i++) {
    const ph_node *spec = ph_node_get(crds->items[i], "spec"), *names = ph_node_get(spec, "names"), *versions = ph_node_get(spec, "versions");
    if (!ph_equal(ph_node_member(spec, "group"), group) || !ph_equal(ph_node_member(names, "kind"), type.kind)) continue;
    bool has_status = false;
    for (size_t j = 0; versions && j < versions->count; j++) {
      bool served = ph_equal(ph_node_member(versions->items[j], "name"), version);
      has_status = has_status || (served && ph_node_at(versions->items[j], "/subresources/status"));
    }
    scope scope = ph_equal(ph_node_member(spec, "scope"), "Namespaced") ? NAMESPACED : CLUSTER_SCOPED;
    return (kind_info){group, ph_node_member(names, "plural"), scope, has_status, true, true};
  }
  if (*group && !listed(built_in_groups, group)) return (kind_info){group, plural_of(type.kind), UNKNOWN_SCOPE, true, true, true};
  return (kind_info){group,
                     plural_of(type.kind),
                     listed(cluster_scoped, type.kind) ? CLUSTER_SCOPED : NAMESPACED,
                     listed(with_status, type.kind),
                     listed(with_generation, type.kind),
                     listed(conditional_update, type.kind)};
}

/* Returns the type that a create request for a subresource is sent to. */
static ph_type parent_of(ph_type type, const char *subresource) {
  if (ph_equal(subresource, "eviction") || ph_equal(subresource, "binding")) return (ph_type){"v1", "Pod"};
  return ph_equal(subresource, "token") ? (ph_type){"v1", "ServiceAccount"} : type;
}

/* ---- Objects and the owners of their values ---- */

/* The field managers of the value at a JSON pointer: "NAME apply" for applies, "NAME" for other writes. */
typedef struct {
  const char *pointer;
  texts managers;
} owner;

typedef struct {
  owner *items;
  size_t count;
} owners;

typedef struct {
  ph_type type;
  ph_key key;
  ph_node *object;
  owners owners;
} stored;

static stored *cluster;
static size_t cluster_size;
static unsigned long last_version;

static ph_type type_in(const ph_node *object) {
  return (ph_type){ph_node_member(object, "apiVersion"), ph_node_member(object, "kind")};
}

static ph_key key_in(const ph_node *object) {
  const ph_node *metadata = ph_node_get(object, "metadata");
  return (ph_key){ph_node_member(metadata, "namespace"), ph_node_member(metadata, "name")};
}

static bool same_key(ph_key one, ph_key other) { return ph_equal(one.ns, other.ns) && ph_equal(one.name, other.name); }

static int compare_keys(ph_key one, ph_key other) {
  int order = strcmp(one.ns, other.ns);
  return order ? order : strcmp(one.name, other.name);
}

static stored *find(ph_type type, ph_key key) {
  for (size_t i = 0; i < cluster_size; i++) {
    stored *one = &cluster[i];
    if (ph_equal(one->type.api_version, type.api_version) && ph_equal(one->type.kind, type.kind) && same_key(one->key, key)) return one;
  }
  return NULL;
}

static ph_node *require(ph_type type, ph_key key, const char *subresource, api_error *error) {
  kind_info kind = kind_of(type);
  const stored *found = find(type, key);
  if (found && (!ph_equal(subresource, "status") || kind.has_status)) return found->object;
  fail_with(error, PH_NOT_FOUND, ph_node_text("%s%s%s \"%s\" not found", kind.plural, *kind.group ? "." : "", kind.group, key.name));
  return NULL;
}

static bool is_tracked(const char *pointer) {
  if (!*pointer || listed("/apiVersion /kind /metadata /metadata/name /metadata/namespace", pointer)) return false;
  for (const char *const *field = server_fields; *field; field++) {
    if (strcmp(pointer, ph_node_text("/metadata/%s", *field)) == 0) return false;
  }
  return strncmp(pointer, "/metadata/managedFields", strlen("/metadata/managedFields")) != 0;
}

/* Calls a function with each value that has field managers. Lists and empty objects count as values. */
typedef void leaf_function(void *context, const char *pointer, ph_node *value);

static void each_leaf(ph_node *node, const char *pointer, leaf_function *function, void *context) {
  if (node->type == PH_IS_OBJECT && node->count) {
    for (size_t i = 0; i < node->count; i++) each_leaf(node->items[i], ph_node_below(pointer, node->names[i]), function, context);
  } else if (is_tracked(pointer)) {
    function(context, pointer, node);
  }
}

static owner *owner_of(owners *list, const char *pointer) {
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i].pointer, pointer) == 0) return &list->items[i];
  }
  return NULL;
}

static owner *add_owner(owners *list, const char *pointer) {
  owner *items = ph_node_alloc((list->count + 1) * sizeof *items);
  if (list->count) memcpy(items, list->items, list->count * sizeof *items);
  list->items = items;
  items[list->count] = (owner){pointer, {0}};
  return &items[list->count++];
}

static void remove_owner(owners *list, size_t position) {
  memmove(list->items + position, list->items + position + 1, (--list->count - position) * sizeof *list->items);
}

/* What a write does to the owners: those of unchanged values stay, the others are the writer. */
typedef struct {
  const stored *present;
  const char *manager;
  owners owners;
} ownership;

static void own(void *context, const char *pointer, ph_node *value) {
  ownership *change = context;
  const ph_node *before = change->present ? ph_node_at(change->present->object, pointer) : NULL;
  owner *present = before && ph_node_same(before, value) ? owner_of((owners *)&change->present->owners, pointer) : NULL;
  owner *added = add_owner(&change->owners, pointer);
  if (present) {
    added->managers = present->managers;
  } else {
    add_text(&added->managers, change->manager);
  }
}

static ph_node *store(ph_node *object, const char *manager) {
  ph_node_set(ph_node_ensure(object, "metadata"), "resourceVersion", ph_node_string(ph_node_text("%lu", ++last_version)));
  stored *slot = find(type_in(object), key_in(object));
  ownership change = {slot, manager, {0}};
  each_leaf(object, "", own, &change);
  if (!slot) {
    cluster = realloc(cluster, (cluster_size + 1) * sizeof *cluster);
    slot = &cluster[cluster_size++];
    *slot = (stored){type_in(object), key_in(object), NULL, {0}};
  }
  slot->object = object;
  slot->owners = change.owners;
  return object;
}

/* Removes an object, and returns its last state. */
static ph_node *take_out(const ph_node *object) {
  stored *slot = find(type_in(object), key_in(object));
  *slot = cluster[--cluster_size];
  ph_node *last = ph_node_clone(object);
  ph_node_set(ph_node_ensure(last, "metadata"), "resourceVersion", ph_node_string(ph_node_text("%lu", ++last_version)));
  return last;
}

/* ---- Writes ---- */

/* Returns whether nothing delays the removal of an object that is being deleted. */
static bool is_deleted(const ph_node *object) {
  const ph_node *metadata = ph_node_get(object, "metadata"), *finalizers = ph_node_get(metadata, "finalizers");
  return (!finalizers || !finalizers->count) && !ph_node_integer(metadata, "deletionGracePeriodSeconds");
}

/* Returns whether some member besides the metadata and the status differs. */
static bool spec_differs(kind_info kind, const ph_node *before, const ph_node *after) {
  for (size_t i = 0; i < before->count; i++) {
    const char *name = before->names[i];
    bool ignored = strcmp(name, "metadata") == 0 || (kind.has_status && strcmp(name, "status") == 0);
    if (!ignored && !ph_node_same(before->items[i], ph_node_get(after, name))) return true;
  }
  return false;
}

static ph_node *generation(kind_info kind, const ph_node *before, const ph_node *after) {
  bool differs = spec_differs(kind, before, after) || spec_differs(kind, after, before);
  return ph_node_number(ph_node_integer(ph_node_get(before, "metadata"), "generation") + differs);
}

static void copy_member(const ph_node *source, ph_node *target, const char *name) {
  const ph_node *value = ph_node_get(source, name);
  if (value) {
    ph_node_set(target, name, ph_node_clone(value));
  } else {
    ph_node_remove(target, name);
  }
}

static ph_node *new_uid(void) { return ph_node_string(ph_node_text("uid-%lu", last_version + 1)); }

/* Stores an object as another client's write. Keeps what the test gives, and adds the metadata that it leaves out. */
static ph_node *put(ph_node *object) {
  kind_info kind = kind_of(type_in(object));
  const stored *slot = find(type_in(object), key_in(object));
  const ph_node *present = slot ? slot->object : NULL, *before = ph_node_get(present, "metadata");
  ph_node *metadata = ph_node_ensure(object, "metadata");
  if (!ph_node_get(metadata, "uid")) ph_node_set(metadata, "uid", before ? ph_node_clone(ph_node_get(before, "uid")) : new_uid());
  const ph_node *created = ph_node_get(before, "creationTimestamp");
  if (!ph_node_get(metadata, "creationTimestamp")) {
    ph_node_set(metadata, "creationTimestamp", created ? ph_node_clone(created) : ph_node_string(now));
  }
  if (kind.has_generation && before && ph_node_same(ph_node_get(before, "uid"), ph_node_get(metadata, "uid"))) {
    ph_node_set(metadata, "generation", generation(kind, present, object));
  } else if (kind.has_generation && !ph_node_get(metadata, "generation")) {
    ph_node_set(metadata, "generation", ph_node_number(1));
  }
  if (ph_node_get(before, "deletionTimestamp") && is_deleted(object)) return take_out(object);
  return store(object, another_client);
}

static bool is_subdomain(const char *name) {
  bool starts = true;
  for (const char *at = name; *at; at++) {
    bool edge = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9');
    if (!edge && (starts || (*at != '-' && *at != '.') || (*at == '.' && at[-1] == '-'))) return false;
    starts = *at == '.';
  }
  return strlen(name) <= 253 && !starts && name[strlen(name) - 1] != '-';
}

static ph_node *create(ph_node *object, const char *manager, api_error *error) {
  kind_info kind = kind_of(type_in(object));
  ph_node *metadata = ph_node_ensure(object, "metadata");
  if (*ph_node_member(metadata, "resourceVersion")) {
    other_status(error, 500, "", "resourceVersion should not be set on objects to be created");
    return NULL;
  }
  const char *prefix = ph_node_member(metadata, "generateName");
  if (!*ph_node_member(metadata, "name")) {
    if (!*prefix) {
      invalid(error, "metadata.name", "FieldValueRequired", "Required value: name or generateName is required");
      return NULL;
    }
    ph_node_set(metadata, "name", ph_node_string(ph_node_text("%s%05lu", prefix, last_version + 1)));
  }
  const char *name = ph_node_member(metadata, "name");
  if (!ph_equal(kind.group, "rbac.authorization.k8s.io") && !is_subdomain(name)) {
    invalid(error, "metadata.name", "FieldValueInvalid",
            ph_node_text("Invalid value: \"%s\": a lowercase RFC 1123 subdomain consists of lower case letters, digits, '-' and '.'", name));
    return NULL;
  }
  if (find(type_in(object), key_in(object))) {
    fail_with(error, PH_ALREADY_EXISTS, ph_node_text("%s \"%s\" already exists", kind.plural, name));
    return NULL;
  }
  ph_node_remove(metadata, "deletionTimestamp");
  ph_node_remove(metadata, "deletionGracePeriodSeconds");
  ph_node_set(metadata, "uid", new_uid());
  ph_node_set(metadata, "creationTimestamp", ph_node_string(now));
  if (kind.has_generation) ph_node_set(metadata, "generation", ph_node_number(1));
  if (kind.has_status) ph_node_remove(object, "status");
  return store(object, manager);
}

static bool adds_finalizer(const ph_node *before, const ph_node *after) {
  const ph_node *present = ph_node_get(before, "finalizers"), *proposed = ph_node_get(after, "finalizers");
  for (size_t i = 0; proposed && i < proposed->count; i++) {
    bool found = false;
    for (size_t j = 0; present && j < present->count; j++) found = found || ph_node_same(present->items[j], proposed->items[i]);
    if (!found) return true;
  }
  return false;
}

/* Replaces an object, or its status, by what a client proposes. */
static ph_node *replace(ph_node *present, ph_node *proposed, const char *subresource, const char *manager, api_error *error) {
  kind_info kind = kind_of(type_in(present));
  const ph_node *before = ph_node_get(present, "metadata"), *after = ph_node_get(proposed, "metadata");
  const char *current = ph_node_member(before, "resourceVersion"), *given = ph_node_member(after, "resourceVersion");
  if (*given && strcmp(given, current) != 0) {
    conflict(error, current, "the object has been modified; please apply your changes to the latest version and try again");
    return NULL;
  }
  const char *uid = ph_node_member(after, "uid");
  if (*uid && strcmp(uid, ph_node_member(before, "uid")) != 0) {
    conflict(error, current, ph_node_text("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, ph_node_member(before, "uid")));
    return NULL;
  }
  bool going = ph_node_get(before, "deletionTimestamp") != NULL;
  if (going && !*subresource && adds_finalizer(before, after)) {
    invalid(error, "metadata.finalizers", "FieldValueForbidden", "Forbidden: no new finalizers can be added if the object is being deleted");
    return NULL;
  }
  ph_node *result = ph_node_clone(*subresource ? present : proposed);
  if (*subresource || kind.has_status) copy_member(*subresource ? proposed : present, result, "status");
  ph_node *metadata = ph_node_ensure(result, "metadata");
  for (const char *const *field = server_fields; *field; field++) copy_member(before, metadata, *field);
  if (!*subresource && kind.has_generation) ph_node_set(metadata, "generation", generation(kind, present, result));
  if (ph_node_same(result, present)) return present;
  return going && is_deleted(result) ? take_out(result) : store(result, manager);
}

static ph_node *update(ph_node *object, const char *subresource, const char *manager, api_error *error) {
  ph_node *present = require(type_in(object), key_in(object), subresource, error);
  if (!present) return NULL;
  if (kind_of(type_in(object)).needs_version && !*ph_node_member(ph_node_get(object, "metadata"), "resourceVersion")) {
    invalid(error, "metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0x0: must be specified for an update");
    return NULL;
  }
  return replace(present, object, subresource, manager, error);
}

static ph_node *patch(ph_type type, ph_key key, bool is_json, const ph_node *body, const char *subresource, const char *manager,
                      api_error *error) {
  ph_node *present = require(type, key, subresource, error), *result;
  if (!present) return NULL;
  if (is_json) {
    const char *problem;
    bool malformed;
    result = ph_node_patched(present, body, &problem, &malformed);
    if (!result && malformed) other_status(error, 400, "BadRequest", problem);
    if (!result && !malformed) invalid(error, "", "Invalid", problem);
    if (!result) return NULL;
  } else {
    result = ph_node_merge(ph_node_clone(present), body);
  }
  ph_type changed = type_in(result);
  if (!ph_equal(changed.api_version, type.api_version) || !ph_equal(changed.kind, type.kind) || !same_key(key_in(result), key)) {
    other_status(error, 400, "BadRequest", "a patch cannot change the type, the namespace or the name of an object");
    return NULL;
  }
  return replace(present, result, subresource, manager, error);
}

/* A server-side apply: the values that it sets, the owners that result, and the values that it changes or takes from others. */
typedef struct {
  kind_info kind;
  const char *subresource, *manager;
  const ph_node *present;
  ph_node *result;
  owners owners;
  texts wanted, changed, contested;
} application;

static bool is_applied(const application *apply, const char *pointer) {
  bool is_status = strcmp(pointer, "/status") == 0 || strncmp(pointer, "/status/", strlen("/status/")) == 0;
  return !apply->kind.has_status || is_status == ph_equal(apply->subresource, "status");
}

static bool has_text(const texts *list, const char *text) {
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i], text) == 0) return true;
  }
  return false;
}

static void apply_leaf(void *context, const char *pointer, ph_node *value) {
  application *apply = context;
  if (!is_applied(apply, pointer)) return;
  add_text(&apply->wanted, pointer);
  if (ph_node_same(ph_node_at(apply->present, pointer), value)) return;
  add_text(&apply->changed, pointer);
  const owner *present = owner_of(&apply->owners, pointer);
  if (present && (present->managers.count > 1 || !has_text(&present->managers, apply->manager))) add_text(&apply->contested, pointer);
  ph_node_put(apply->result, pointer, ph_node_clone(value));
}

/* Gives up the values that the manager applied before and leaves out now. */
static void give_up(application *apply) {
  for (size_t i = apply->owners.count; i-- > 0;) {
    owner *present = &apply->owners.items[i];
    if (!has_text(&present->managers, apply->manager) || !is_applied(apply, present->pointer) || has_text(&apply->wanted, present->pointer)) continue;
    texts rest = {0};
    for (size_t j = 0; j < present->managers.count; j++) {
      if (strcmp(present->managers.items[j], apply->manager) != 0) add_text(&rest, present->managers.items[j]);
    }
    present->managers = rest;
    if (rest.count) continue;
    ph_node_drop(apply->result, present->pointer);
    remove_owner(&apply->owners, i);
  }
}

static ph_node *server_side_apply(ph_type type, ph_key key, ph_node *config, const char *subresource, const char *manager, bool force,
                                  api_error *error) {
  ph_node *metadata = ph_node_ensure(config, "metadata");
  ph_node_set(metadata, "name", ph_node_string(key.name));
  if (*key.ns) ph_node_set(metadata, "namespace", ph_node_string(key.ns));
  ph_type given = type_in(config);
  if (!ph_equal(given.api_version, type.api_version) || !ph_equal(given.kind, type.kind)) {
    other_status(error, 400, "BadRequest", "the applied manifest has another type");
    return NULL;
  }
  stored *slot = find(type, key);
  if (!slot && !*subresource) return create(config, manager, error);
  ph_node *present = require(type, key, subresource, error);
  if (!present) return NULL;
  application apply = {kind_of(type), subresource, manager, present, ph_node_clone(present), {0}, {0}, {0}, {0}};
  for (size_t i = 0; i < slot->owners.count; i++) add_owner(&apply.owners, slot->owners.items[i].pointer)->managers = slot->owners.items[i].managers;
  each_leaf(config, "", apply_leaf, &apply);
  if (apply.contested.count && !force) {
    conflict(error, ph_node_member(ph_node_get(present, "metadata"), "resourceVersion"),
             ph_node_text("Apply failed with %zu conflicts with other field managers, the first at %s", apply.contested.count, apply.contested.items[0]));
    return NULL;
  }
  give_up(&apply);
  ph_node *written = replace(present, apply.result, subresource, manager, error);
  slot = find(type, key);
  if (!written || !slot) return written;
  for (size_t i = 0; i < apply.wanted.count; i++) {
    const char *pointer = apply.wanted.items[i];
    owner *found = owner_of(&apply.owners, pointer);
    if (!found) found = add_owner(&apply.owners, pointer);
    if (has_text(&apply.changed, pointer)) found->managers = (texts){0};
    add_text(&found->managers, manager);
  }
  slot->owners = apply.owners;
  return written;
}

static bool delete_object(ph_type type, ph_key key, const char *uid, const char *version, api_error *error) {
  ph_node *present = require(type, key, "", error);
  if (!present) return false;
  const ph_node *metadata = ph_node_get(present, "metadata"), *finalizers = ph_node_get(metadata, "finalizers");
  const char *current = ph_node_member(metadata, "resourceVersion");
  if ((*uid && strcmp(uid, ph_node_member(metadata, "uid")) != 0) || (*version && strcmp(version, current) != 0)) {
    conflict(error, current, "Precondition failed: the object has another UID or resource version");
    return false;
  }
  if (!finalizers || !finalizers->count) {
    take_out(present);
  } else if (!ph_node_get(metadata, "deletionTimestamp")) {
    ph_node *marked = ph_node_clone(present), *changed = ph_node_ensure(marked, "metadata");
    ph_node_set(changed, "deletionTimestamp", ph_node_string(now));
    ph_node_set(changed, "deletionGracePeriodSeconds", ph_node_number(0));
    long long count = ph_node_integer(metadata, "generation");
    if (count) ph_node_set(changed, "generation", ph_node_number(count + 1));
    store(marked, another_client);
  }
  return true;
}
