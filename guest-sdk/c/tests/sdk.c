/* Tests of the SDK, run natively by xtask/tests/c_sdk.rs. */
#include <string.h>

#include "../src/internal.h"
#include "../testing/pilothouse_test.h"

/* The plugin of the tests that use the cluster. */
static const ph_plugin clustered = {
  .name = "p", .version = "1",
  .watches = (const ph_watch[]){{.name = "foos", .api_version = "example.com/v1", .kind = "Foo", .trigger = PH_TRIGGERS_ITSELF}, {0}},
  .writes = (const ph_rule[]){
    {.api_groups = PH_LIST("example.com"), .resources = PH_LIST("foos", "foos/status"), .verbs = PH_LIST("create", "update", "patch")},
    {.api_groups = PH_LIST(""), .resources = PH_LIST("configmaps", "pods"), .verbs = PH_LIST("create", "patch", "delete")},
    {0}},
};

static ph_description describe(const char *config) {
  (void)config;
  return ph_describe_as(&clustered);
}

static const ph_type foo_type = {"example.com/v1", "Foo"};

static void json_is_written_with_escapes(void) {
  ph_json json = {0};
  ph_json_object(&json, NULL);
  ph_json_string(&json, "te\"xt", "a \"b\" \\ \n\t\x01 ü");
  ph_json_string(&json, "absent", NULL);
  ph_json_array(&json, "list");
  ph_json_integer(&json, NULL, -3);
  ph_json_number(&json, NULL, 0.5);
  ph_json_bool(&json, NULL, true);
  ph_json_object(&json, NULL);
  ph_json_close(&json);
  ph_json_close(&json);
  ph_json_raw(&json, "raw", "[1]");
  PH_CHECK_TEXT(ph_json_text(&json), "{\"te\\\"xt\":\"a \\\"b\\\" \\\\ \\n\\t\\u0001 ü\",\"list\":[-3,0.5,true,{}],\"raw\":[1]}");
}

static void json_is_read_by_pointers(void) {
  const char *json = " {\"a\": {\"b/c\": [1, {\"d~e\": \"x\\u00fc\\ud83d\\ude00\\n\"}]}, \"n\": null, \"s\": \"}]\\\"\"} ";
  PH_CHECK_TEXT(ph_json_at(json, "/a/b~1c/0"), "1");
  PH_CHECK_TEXT(ph_json_text_at(json, "/a/b~1c/1/d~0e"), "xü😀\n");
  PH_CHECK_TEXT(ph_json_at(json, "/a/b~1c/1/d~0e"), "\"x\\u00fc\\ud83d\\ude00\\n\"");
  PH_CHECK_TEXT(ph_json_at(json, "/n"), "null");
  PH_CHECK_TEXT(ph_json_text_at(json, "/s"), "}]\"");
  PH_CHECK(!ph_json_at(json, "/a/b~1c/2"));
  PH_CHECK(!ph_json_at(json, "/a/b~1c/x"));
  PH_CHECK(!ph_json_at(json, "/a/b"));
  PH_CHECK(!ph_json_at(json, "/n/x"));
  PH_CHECK(!ph_json_at("", "/a"));
}

static void written_json_can_be_read(void) {
  const char *text = "\x01\x1f \"\\/\b\f\r\n\t ü😀";
  PH_CHECK_TEXT(ph_json_text_at(ph_format("{\"a\":%s}", ph_quote(text)), "/a"), text);
}

static void text_grows(void) {
  ph_buffer text = {0};
  for (int i = 0; i < 20000; i++) ph_append(&text, "%d,", i % 10);
  PH_CHECK(text.length == 40000 && strlen(ph_buffer_text(&text)) == 40000);
  PH_CHECK(strncmp(text.text + 39980, "0,1,2,3,4,5,6,7,8,9,", 20) == 0);
}

static void releasing_a_mark_closes_and_frees_what_followed_it(void) {
  ph_object *before = ph_test_object("{\"kind\":\"A\"}");
  ph_mark mark = ph_mark_here();
  ph_test_object("{}");
  memset(ph_alloc(100000), 1, 100000);
  PH_CHECK(ph_test_open() == 2);
  ph_release(mark);
  PH_CHECK(ph_test_open() == 1);
  PH_CHECK_TEXT(ph_object_kind(before), "A");
  ph_object_close(before);
  ph_object_close(before);
  PH_CHECK(ph_test_open() == 0);
}

static void several_values_are_in_the_order_of_the_pointers(void) {
  ph_object *pod = ph_test_object("{\"kind\":\"Pod\",\"spec\":{\"nodeName\":\"n \\\"1\\\"\",\"list\":[1,2]}}");
  const char *const *texts = ph_texts(pod, PH_LIST("/spec/nodeName", "/nothing", "/spec/list/1", "/kind"));
  PH_CHECK_TEXT(texts[0], "n \"1\"");
  PH_CHECK(!texts[1]);
  PH_CHECK_TEXT(texts[2], "2");
  PH_CHECK_TEXT(texts[3], "Pod");
  const char *const *fields = ph_fields(pod, PH_LIST("/spec/list", "/kind", "/nothing"));
  PH_CHECK_TEXT(fields[0], "[1,2]");
  PH_CHECK_TEXT(fields[1], "\"Pod\"");
  PH_CHECK(!fields[2]);
}

static ph_outcome look(const ph_request *request) {
  PH_CHECK(ph_cache_get("foos", request->key));
  PH_CHECK(ph_has_reason(request, PH_REASON_RETRY) && !ph_has_reason(request, PH_REASON_CREATED));
  return ph_retry("%s of %s", "none", ph_key_text(request->key));
}

static void a_call_closes_its_objects_and_returns_an_abi_record(void) {
  ph_test_plugin(describe);
  ph_test_put("{\"apiVersion\":\"example.com/v1\",\"kind\":\"Foo\",\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"}}");
  uint8_t reasons[] = {PH_REASON_RETRY};
  const uint8_t *answer = ph_run_reconcile(look, (char *)"foos", 4, (char *)"ns", 2, (char *)"a", 1, reasons, 1, 0, NULL, 0);
  PH_CHECK(ph_test_open() == 0);
  const char *text;
  memcpy(&text, answer + 2 * sizeof(void *), sizeof text);
  PH_CHECK(answer[0] == 1 && answer[sizeof(void *)] == 0);
  PH_CHECK_TEXT(text, "none of ns/a");
}

static ph_outcome watch_changes(const ph_notification *notifications, size_t count, const ph_batch *batch) {
  PH_CHECK(count == 2);
  PH_CHECK_TEXT(notifications[0].watch, "pods");
  PH_CHECK_TEXT(ph_key_text(notifications[0].key), "ns/a");
  PH_CHECK(notifications[0].change == PH_ADDED && notifications[0].initial && !notifications[0].final_state_unknown);
  PH_CHECK(!ph_before(batch, 0) && ph_after(batch, 0) && ph_before(batch, 1) && !ph_after(batch, 1) && !ph_after(batch, 2));
  PH_CHECK_TEXT(ph_after_field(batch, 0, "/x"), "\"y\"");
  PH_CHECK_TEXT(ph_key_text(notifications[1].key), "b");
  PH_CHECK(notifications[1].change == PH_DELETED && !notifications[1].initial && notifications[1].final_state_unknown);
  return ph_terminal("seen");
}

static ph_wit_string wit(const char *text) { return (ph_wit_string){(uint8_t *)text, strlen(text)}; }

static void an_observer_receives_its_notifications(void) {
  struct {
    ph_wit_string watch;
    uint8_t change;
    ph_wit_key key;
    bool initial, final_state_unknown;
  } notifications[] = {{wit("pods"), 0, {wit("ns"), wit("a")}, true, false}, {wit("pods"), 2, {wit(""), wit("b")}, false, true}};
  ph_test_change(NULL, "{\"x\":\"y\"}");
  ph_test_change("{}", NULL);
  const uint8_t *answer = ph_run_observe(watch_changes, notifications, 2, 1);
  PH_CHECK(answer[0] == 1 && answer[sizeof(void *)] == 1);
  PH_CHECK(ph_test_open() == 0);
}

static void two_values(const char *index, ph_object *object, ph_values *values) {
  PH_CHECK_TEXT(index, "i");
  ph_value(values, ph_object_kind(object));
  for (int i = 0; i < 20; i++) ph_value(values, ph_format("%d", i));
}

static void an_index_returns_all_values_and_closes_the_object(void) {
  /* The handle passes to the call. */
  ph_object *pod = ph_test_object("{\"kind\":\"Pod\"}");
  int32_t handle = pod->handle;
  pod->handle = 0;
  struct {
    const ph_wit_string *items;
    size_t count;
  } *answer = ph_run_index(two_values, (char *)"i", 1, handle);
  PH_CHECK(answer->count == 21 && answer->items[0].len == 3 && memcmp(answer->items[0].ptr, "Pod", 3) == 0);
  PH_CHECK(answer->items[20].len == 2 && memcmp(answer->items[20].ptr, "19", 2) == 0);
  PH_CHECK(ph_test_open() == 0);
}

static const ph_plugin plugin = {
  .name = "p", .version = "1",
  .watches = (const ph_watch[]){
    {.name = "a", .api_version = "v1", .kind = "Pod", .trigger = PH_TRIGGERS_ITSELF, .predicate = "generationChanged()"},
    {.name = "b", .api_version = "apps/v1", .kind = "Deployment", .namespaces = PH_LIST("x", "y"), .metadata_only = true, .notify = true,
     .trigger = PH_TRIGGERS_OWNER("a"), .indexes = (const ph_index[]){{.name = "i", .computed = true}, {.name = "o", .owner = true}, {0}}},
    {.name = "c", .api_version = "v1", .kind = "Secret", .trigger = PH_TRIGGERS_BY_INDEX("a", "i")},
    {.name = "d", .api_version = "v1", .kind = "Namespace", .trigger = PH_TRIGGERS_NAMESPACE("a")},
    {0}},
  .writes = (const ph_rule[]){{.api_groups = PH_LIST(""), .resources = PH_LIST("pods"), .verbs = PH_LIST("get")}, {0}},
  .crds = PH_LIST("{\"kind\":\"X\"}"),
  .limits = {.memory = "16MiB"},
};

static void the_descriptor_has_only_the_declared_fields(void) {
  PH_CHECK_TEXT(ph_describe_as(&plugin).text,
    "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"p\",\"version\":\"1\",\"watches\":["
    "{\"name\":\"a\",\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"trigger\":\"self\",\"predicate\":\"generationChanged()\"},"
    "{\"name\":\"b\",\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"namespaces\":[\"x\",\"y\"],\"projection\":\"metadata\","
    "\"trigger\":{\"owner\":{\"watch\":\"a\"}},\"notify\":true,"
    "\"indexes\":[{\"name\":\"i\",\"computed\":true},{\"name\":\"o\",\"owner\":true}]},"
    "{\"name\":\"c\",\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"trigger\":{\"index\":{\"watch\":\"a\",\"index\":\"i\"}}},"
    "{\"name\":\"d\",\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"trigger\":{\"namespace\":{\"watch\":\"a\"}}}],"
    "\"writes\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\"]}],\"crds\":[{\"kind\":\"X\"}],"
    "\"limits\":{\"memory\":\"16MiB\"}}");
}

static void create_or_update_writes_only_differences(void) {
  ph_test_plugin(describe);
  ph_test_put("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"n\",\"name\":\"a\"}}");
  ph_object *present = ph_test_object(
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"n\",\"name\":\"a\",\"uid\":\"1\"},\"data\":{\"k/~\":\"\\u003c\"},"
    "\"list\":[{\"x\":1,\"y\":2}]}");
  ph_change_made change;
  ph_object *result;
  PH_CHECK(ph_create_or_update(present, "{ \"data\": {\"k/~\": \"<\"}, \"list\" : [ {\"x\": 1} ] }", &change, &result) == PH_OK);
  PH_CHECK(change == PH_UNCHANGED && result == present);
  PH_CHECK_TEXT(ph_test_done(), "");
  const char *const differing[] = {"{\"data\":{\"k\":\"<\"}}", "{\"list\":[]}", "{\"list\":[{\"x\":1},{}]}", "{\"list\":[{\"x\":\"1\"}]}", "{\"data\":null}"};
  for (size_t i = 0; i < sizeof differing / sizeof *differing; i++) {
    PH_CHECK(ph_create_or_update(present, differing[i], &change, NULL) == PH_OK && change == PH_UPDATED);
  }
  PH_CHECK(strstr(ph_test_done(), "patch ConfigMap n/a merge {\"list\":[]}\n"));
  const char *absent = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"n\",\"name\":\"b\"}}";
  PH_CHECK(ph_create_or_update(NULL, absent, &change, NULL) == PH_OK && change == PH_CREATED);
  PH_CHECK(strstr(ph_test_writes(), "create v1 ConfigMap n/b\n"));
}

static ph_outcome work(ph_phase phase, ph_object *object, void *context) {
  (void)object;
  *(const char **)context = phase == PH_PHASE_APPLY ? "apply" : "cleanup";
  return ph_done();
}

/* Runs the work for a Foo with this metadata. Returns the phase, the outcome, and the Foo's finalizers afterwards. */
static const char *finalized(const char *metadata, ph_code failure) {
  ph_test_begin();
  ph_test_plugin(describe);
  const char *foo = ph_format("{\"apiVersion\":\"example.com/v1\",\"kind\":\"Foo\",\"metadata\":{\"namespace\":\"n\",\"name\":\"a\"%s}}", metadata);
  ph_object *object = ph_test_object(ph_test_put(foo));
  const char *worked = "nothing";
  ph_test_fail(failure);
  ph_outcome outcome = ph_with_finalizer(object, "x/y", work, &worked);
  const char *stored = ph_test_stored(foo_type, (ph_key){"n", "a"});
  const char *finalizers = stored ? ph_json_at(stored, "/metadata/finalizers") : "gone";
  return ph_format("%s %d %s", worked, outcome.kind, finalizers ? finalizers : "none");
}

static void a_finalizer_is_added_before_the_work_and_removed_after_the_cleanup(void) {
  PH_CHECK_TEXT(finalized(",\"finalizers\":[\"other\"]", PH_OK), "apply 0 [\"other\",\"x/y\"]");
  PH_CHECK_TEXT(finalized(",\"finalizers\":[\"x/y\"]", PH_OK), "apply 0 [\"x/y\"]");
  PH_CHECK_TEXT(finalized(",\"deletionTimestamp\":\"t\",\"finalizers\":[\"x/y\",\"other\"]", PH_OK), "cleanup 0 [\"other\"]");
  PH_CHECK_TEXT(finalized(",\"deletionTimestamp\":\"t\",\"finalizers\":[\"x/y\"]", PH_OK), "cleanup 0 gone");
  PH_CHECK_TEXT(finalized(",\"deletionTimestamp\":\"t\"", PH_OK), "nothing 0 none");
  PH_CHECK_TEXT(finalized("", PH_CONFLICT), "nothing 2 none");
  PH_CHECK_TEXT(finalized(",\"deletionTimestamp\":\"t\",\"finalizers\":[\"x/y\"]", PH_NOT_FOUND), "cleanup 0 [\"x/y\"]");
}

static void the_finalizers_of_others_are_protected_by_the_resource_version(void) {
  ph_test_plugin(describe);
  const char *foo = "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Foo\",\"metadata\":{\"namespace\":\"n\",\"name\":\"a\",\"finalizers\":%s}}";
  ph_object *read = ph_test_object(ph_test_put(ph_format(foo, "[]")));
  ph_test_put(ph_format(foo, "[\"their/own\"]"));
  const char *worked = "nothing";
  PH_CHECK(ph_with_finalizer(read, "x/y", work, &worked).kind == PH_OUTCOME_RETRY);
  PH_CHECK_TEXT(worked, "nothing");
  PH_CHECK(ph_last_error()->code == PH_CONFLICT);
}

/* Updates the status of the object that it receives. */
static ph_outcome set_ready(ph_phase phase, ph_object *object, void *context) {
  (void)context;
  PH_CHECK(phase == PH_PHASE_APPLY);
  PH_CHECK_TEXT(ph_text(object, "/metadata/finalizers/0"), "x/y");
  const char *body = ph_format("{\"metadata\":{\"resourceVersion\":%s},\"status\":{\"ready\":true}}", ph_quote(ph_object_resource_version(object)));
  return ph_checked(ph_client_patch(foo_type, ph_object_key(object), PH_MERGE_PATCH, body, "status", NULL), "set the status");
}

static void the_work_receives_the_object_with_its_finalizer_and_can_update_its_status(void) {
  ph_test_plugin(describe);
  ph_object *read = ph_test_object(
    ph_test_put("{\"apiVersion\":\"example.com/v1\",\"kind\":\"Foo\",\"metadata\":{\"namespace\":\"n\",\"name\":\"a\"}}"));
  ph_outcome outcome = ph_with_finalizer(read, "x/y", set_ready, NULL);
  PH_CHECK_TEXT(outcome.text ? outcome.text : "done", "done");
  PH_CHECK_TEXT(ph_json_at(ph_test_stored(foo_type, (ph_key){"n", "a"}), "/status/ready"), "true");
}

static void a_transition_sets_its_time(void) {
  const char *conditions = NULL;
  ph_condition ready = {"Ready", false, "Starting", "not \"yet\""};
  ph_test_clock(1767268800);
  PH_CHECK(ph_conditions_set(&conditions, &ready, 2));
  const char *begun = "[{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Starting\",\"message\":\"not \\\"yet\\\"\","
                      "\"lastTransitionTime\":\"2026-01-01T12:00:00Z\",\"observedGeneration\":2}]";
  PH_CHECK_TEXT(conditions, begun);
  ph_test_clock(1767268860);
  PH_CHECK(!ph_conditions_set(&conditions, &ready, 2));
  ready.reason = "Waiting";
  PH_CHECK(ph_conditions_set(&conditions, &ready, 2));
  PH_CHECK_TEXT(ph_json_text_at(conditions, "/0/lastTransitionTime"), "2026-01-01T12:00:00Z");
  ready.status = true;
  PH_CHECK(ph_conditions_set(&conditions, &ready, 2));
  PH_CHECK_TEXT(ph_json_text_at(conditions, "/0/lastTransitionTime"), "2026-01-01T12:01:00Z");
  ph_condition other = {"Other", true, "R", NULL};
  PH_CHECK(ph_conditions_set(&conditions, &other, 0));
  PH_CHECK_TEXT(ph_json_text_at(conditions, "/1/type"), "Other");
}

static void owners_are_compared_by_uid(void) {
  ph_object *owner = ph_test_object("{\"apiVersion\":\"v1\",\"kind\":\"Foo\",\"metadata\":{\"name\":\"f\",\"uid\":\"u\"}}");
  const char *reference = ph_owner_reference(owner);
  PH_CHECK_TEXT(reference, "{\"apiVersion\":\"v1\",\"kind\":\"Foo\",\"name\":\"f\",\"uid\":\"u\",\"controller\":true,\"blockOwnerDeletion\":true}");
  ph_object *owned = ph_test_object(ph_format("{\"metadata\":{\"ownerReferences\":[{\"uid\":\"v\"},%s]}}", reference));
  PH_CHECK(ph_is_controlled_by(owned, owner));
  PH_CHECK(!ph_is_controlled_by(owner, owner));
}

static ph_code conflicting(void *context) { return ++*(int *)context < 3 ? PH_CONFLICT : PH_OK; }

static ph_code always_conflicting(void *context) {
  ++*(int *)context;
  return PH_CONFLICT;
}

static void conflicts_are_retried_five_times(void) {
  int attempts = 0;
  PH_CHECK(ph_retry_on_conflict(conflicting, &attempts) == PH_OK && attempts == 3);
  attempts = 0;
  PH_CHECK(ph_retry_on_conflict(always_conflicting, &attempts) == PH_CONFLICT && attempts == 5);
}

static void errors_describe_what_happened(void) {
  const char *const texts[] = {"", "not found: ", "already exists: ", "conflict: ", "", "forbidden: ",
                               "denied by the host: the descriptor's writes and the grant need  on  of ",
                               "too many requests: try again in 0 ms", "unavailable: ", "500 : "};
  ph_test_plugin(describe);
  for (int code = PH_NOT_FOUND; code <= PH_OTHER; code++) {
    ph_test_fail((ph_code)code);
    PH_CHECK(ph_client_delete((ph_type){"v1", "Pod"}, (ph_key){"ns", "a"}, (ph_delete_options){0}) == (ph_code)code);
    PH_CHECK(ph_last_error()->code == (ph_code)code);
    PH_CHECK_TEXT(ph_last_error()->message, texts[code]);
  }
  ph_outcome outcome = ph_checked(PH_OTHER, "delete it");
  PH_CHECK(outcome.kind == PH_OUTCOME_RETRY);
  PH_CHECK_TEXT(outcome.text, "delete it: 500 : ");
}

#define RUN(test)                        \
  do {                                   \
    ph_test_begin();                     \
    test();                              \
    printf("ok %s\n", #test);            \
  } while (0)

int main(void) {
  RUN(json_is_written_with_escapes);
  RUN(json_is_read_by_pointers);
  RUN(written_json_can_be_read);
  RUN(text_grows);
  RUN(releasing_a_mark_closes_and_frees_what_followed_it);
  RUN(several_values_are_in_the_order_of_the_pointers);
  RUN(a_call_closes_its_objects_and_returns_an_abi_record);
  RUN(an_observer_receives_its_notifications);
  RUN(an_index_returns_all_values_and_closes_the_object);
  RUN(the_descriptor_has_only_the_declared_fields);
  RUN(create_or_update_writes_only_differences);
  RUN(a_finalizer_is_added_before_the_work_and_removed_after_the_cleanup);
  RUN(the_finalizers_of_others_are_protected_by_the_resource_version);
  RUN(the_work_receives_the_object_with_its_finalizer_and_can_update_its_status);
  RUN(a_transition_sets_its_time);
  RUN(owners_are_compared_by_uid);
  RUN(conflicts_are_retried_five_times);
  RUN(errors_describe_what_happened);
  return 0;
}
