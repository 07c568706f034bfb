package sdk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/sdktest"
)

var (
	configMap  = sdk.Type{APIVersion: "v1", Kind: "ConfigMap"}
	deployment = sdk.Type{APIVersion: "apps/v1", Kind: "Deployment"}
)

func describe(sdk.Config) (sdk.Plugin, error) {
	return sdk.Plugin{Name: "test", Version: "1", Watches: []sdk.Watch{
		{Name: "maps", APIVersion: "v1", Kind: "ConfigMap", Trigger: sdk.Self(), Indexes: []sdk.Index{{Name: "byTier", Label: "tier"}}},
		{Name: "deployments", APIVersion: "apps/v1", Kind: "Deployment"},
		{Name: "foos", APIVersion: "example.com/v1", Kind: "Foo"},
	}, Writes: []sdk.WriteRule{
		sdk.Writes("", "configmaps", "patch", "delete"),
		sdk.Writes("apps", "deployments", "create", "update"),
		sdk.Writes("example.com", "foos", "patch", "delete"),
		sdk.Writes("example.com", "foos/status", "update"),
	}}, nil
}

func mkMap(name, tier, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","labels":{"tier":%q}},"data":{"value":%q}}`,
		name, tier, value)
}

func key(name string) sdk.Key { return sdk.Key{Namespace: "default", Name: name} }

func TestObjectIsReadByFieldOrAsAWhole(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("a", "web", `say "hi"`))
	ctx := h.Context()
	object := ctx.Cache("maps").Get(key("a"))
	text, _ := object.Text("/data/value")
	field, _ := object.Field("/data/value")
	if text != `say "hi"` || string(field) != `"say \"hi\""` {
		t.Errorf("%q %s", text, field)
	}
	if _, ok := object.Text("/data/nothing"); ok {
		t.Error("a value where there is none")
	}
	if label, ok := object.Label("tier"); label != "web" || !ok || object.Labels()["tier"] != "web" || object.IsBeingDeleted() {
		t.Errorf("%v", object)
	}
	var whole struct{ Data map[string]string }
	if found, err := ctx.Cache("maps").Read(key("a"), &whole); !found || err != nil || whole.Data["value"] != `say "hi"` {
		t.Errorf("%v %v %v", whole, found, err)
	}
	if found, err := ctx.Cache("maps").Read(key("b"), &whole); found || err != nil || ctx.Cache("maps").Get(key("b")) != nil {
		t.Errorf("an object that is not there: %v %v", found, err)
	}
	var number int
	_, err := object.DecodeField("/data/value", &number)
	if err == nil || !sdk.IsTerminal(err) || !strings.HasPrefix(err.Error(), "/data/value of v1 ConfigMap default/a cannot be read as int") {
		t.Errorf("%v", err)
	}
}

func TestSeveralValuesAreInTheOrderOfThePointers(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("a", "web", `say "hi"`))
	object := h.Context().Cache("maps").Get(key("a"))
	texts := object.Texts("/data/value", "/data/nothing", "/metadata/name")
	if len(texts) != 3 || *texts[0] != `say "hi"` || texts[1] != nil || *texts[2] != "a" {
		t.Errorf("%v", texts)
	}
	fields := object.Fields("/metadata/labels", "/data/nothing", "/data/value")
	if len(fields) != 3 || string(fields[0]) != `{"tier":"web"}` || fields[1] != nil || string(fields[2]) != `"say \"hi\""` {
		t.Errorf("%s", fields)
	}
}

func TestLoopReadsAllPagesAndMayEndEarly(t *testing.T) {
	h := sdktest.New(t, describe)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		h.Put(mkMap(name, "web", ""))
	}
	cache := h.Context().Cache("maps")
	var names []string
	for key := range cache.All(sdk.Query{PageSize: 2}) {
		names = append(names, key.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("%v", names)
	}
	names = nil
	for key := range cache.All(sdk.Query{PageSize: 2, Labels: "tier=web"}) {
		if names = append(names, key.Name); len(names) == 3 {
			break
		}
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("%v", names)
	}
	page := cache.Page(sdk.Query{PageSize: 4})
	if len(page.Items) != 4 || page.Next != "default/d" {
		t.Errorf("%d %s", len(page.Items), page.Next)
	}
}

func TestCacheIsQueriedByFieldAndIndex(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("a", "web", "1"))
	h.Put(mkMap("b", "db", "2"))
	h.Put(mkMap("c", "web", "3"))
	cache := h.Context().Cache("maps")
	if keys := cache.IndexKeys("byTier", "web"); !slices.Equal(keys, []sdk.Key{key("a"), key("c")}) {
		t.Errorf("%v", keys)
	}
	if values := cache.IndexValues("byTier"); !slices.Equal(values, []string{"db", "web"}) {
		t.Errorf("%v", values)
	}
	rows := cache.Fields(sdk.Query{Labels: "tier=db"}, "/data/value", "/data/nothing")
	var value string
	found, err := rows[0].Decode(0, &value)
	if len(rows) != 1 || !found || err != nil || value != "2" {
		t.Errorf("%v %v", rows, err)
	}
	if _, ok := rows[0].Value(1); ok {
		t.Error("a value where there is none")
	}
	maps, err := sdk.List[struct{ Data map[string]string }](cache, sdk.Query{})
	if err != nil || len(maps) != 3 || maps[2].Data["value"] != "3" {
		t.Errorf("%v %v", maps, err)
	}
}

// partial knows less of a Deployment than there is.
type partial struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas   int `json:"replicas"`
		Containers []struct {
			Image string `json:"image"`
		} `json:"containers,omitempty"`
	} `json:"spec"`
}

func TestCreateOrUpdateKeepsFieldsThatTheStructLacks(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default","managedFields":[1]},
		"spec":{"replicas":1,"paused":true,"big":9007199254740993,"containers":[{"name":"nginx","image":"old"}]}}`)
	ctx := h.Context()
	var web partial
	change, err := sdk.CreateOrUpdate(ctx, ctx.Cache("deployments").Get(key("web")), &web, func() error {
		web.Spec.Containers[0].Image = "new"
		return nil
	})
	var stored struct{ Spec json.RawMessage }
	h.Get(deployment, key("web"), &stored)
	if err != nil || change != sdk.WasUpdated ||
		string(stored.Spec) != `{"big":9007199254740993,"containers":[{"image":"new","name":"nginx"}],"paused":true,"replicas":1}` {
		t.Errorf("%v %v %s", change, err, stored.Spec)
	}
	change, err = sdk.CreateOrUpdate(ctx, ctx.Cache("deployments").Get(key("web")), &web, func() error {
		web.Spec.Replicas = 1
		return nil
	})
	if err != nil || change != sdk.WasUnchanged || len(h.Written) != 1 {
		t.Errorf("%v %v %v", change, err, h.Written)
	}
}

func TestCreateOrUpdateCreatesAnAbsentObject(t *testing.T) {
	h := sdktest.New(t, describe)
	web := partial{TypeMeta: sdk.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, Metadata: sdk.ObjectMeta{Name: "web", Namespace: "default"}}
	change, err := sdk.CreateOrUpdate(h.Context(), nil, &web, func() error {
		web.Spec.Replicas = 3
		return nil
	})
	if err != nil || change != sdk.WasCreated || web.Metadata.UID == "" || web.Spec.Replicas != 3 {
		t.Errorf("%v %v %+v", change, err, web)
	}
	if !slices.Equal(h.Written, []string{"create apps/v1 Deployment default/web"}) {
		t.Errorf("%v", h.Written)
	}
}

func TestApplyOmitsFieldsThatTheServerRejects(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("a", "web", "1"))
	client := h.Context().Client()
	stored, err := client.Apply(json.RawMessage(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","resourceVersion":"0"},"data":{"value":"2"}}`), sdk.Force())
	if err != nil {
		t.Fatal(err)
	}
	if value, _ := stored.Text("/data/value"); value != "2" {
		t.Errorf("%s", stored.JSON())
	}
	if _, err := client.Apply(map[string]any{"kind": "ConfigMap"}); err == nil || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("%v", err)
	}
}

func TestFinalizerIsKeptUntilTheCleanupSucceeds(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("a", "web", "1"))
	var ran []string
	cleanupFails := true
	run := func() error {
		ctx := h.Context()
		_, err := sdk.WithFinalizer(ctx, ctx.Cache("maps").Get(key("a")), "example.com/cleanup",
			func(*sdk.Object) (sdk.Result, error) { ran = append(ran, "apply"); return sdk.Result{}, nil },
			func(*sdk.Object) (sdk.Result, error) {
				ran = append(ran, "cleanup")
				if cleanupFails {
					return sdk.Result{}, errors.New("not yet")
				}
				return sdk.Result{}, nil
			})
		return err
	}
	var found struct{ Metadata sdk.ObjectMeta }
	if err := run(); err != nil || !h.Get(configMap, key("a"), &found) || !slices.Equal(found.Metadata.Finalizers, []string{"example.com/cleanup"}) {
		t.Fatalf("%v %v", err, found)
	}
	if err := h.Context().Client().Delete(configMap, key("a"), sdk.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || !h.Get(configMap, key("a"), &found) {
		t.Errorf("the object went before its cleanup: %v", err)
	}
	cleanupFails = false
	if err := run(); err != nil || h.Get(configMap, key("a"), &found) {
		t.Errorf("the object stays after its cleanup: %v", err)
	}
	if !slices.Equal(ran, []string{"apply", "cleanup", "cleanup"}) {
		t.Errorf("%v", ran)
	}
}

func TestWorkReceivesTheObjectWithItsFinalizerAndCanUpdateItsStatus(t *testing.T) {
	const name = "example.com/cleanup"
	foo := sdk.Type{APIVersion: "example.com/v1", Kind: "Foo"}
	h := sdktest.New(t, describe)
	h.Put(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"f","namespace":"default"}}`)
	run := func(apply, cleanup func(*sdk.Object) (sdk.Result, error)) error {
		ctx := h.Context()
		_, err := sdk.WithFinalizer(ctx, ctx.Cache("foos").Get(key("f")), name, apply, cleanup)
		return err
	}
	never := func(*sdk.Object) (sdk.Result, error) { return sdk.Result{}, errors.New("the wrong phase") }
	err := run(func(object *sdk.Object) (sdk.Result, error) {
		var members map[string]any
		if err := object.Decode(&members); err != nil {
			return sdk.Result{}, err
		}
		members["status"] = map[string]any{"ready": true}
		stored, err := h.Context().Client().UpdateStatus(members)
		if err == nil {
			if finalizer, _ := stored.Text("/metadata/finalizers/0"); finalizer != name {
				t.Error(stored.JSON())
			}
		}
		return sdk.Result{}, err
	}, never)
	if err != nil {
		t.Fatal(err)
	}
	h.Remove(foo, key("f"))
	var ready string
	err = run(never, func(object *sdk.Object) (sdk.Result, error) {
		ready, _ = object.Text("/status/ready")
		return sdk.Result{}, nil
	})
	if err != nil || ready != "true" {
		t.Errorf("%v %s", err, ready)
	}
}

func TestRetryOnConflictGivesUpAfterFiveAttempts(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("a", "web", "1"))
	h.FailNext("changed")
	runs := 0
	err := sdk.RetryOnConflict(func() error {
		runs++
		_, err := h.Context().Client().Patch(configMap, key("a"), sdk.MergePatch(map[string]any{"data": nil}))
		return err
	})
	if err != nil || runs != 2 {
		t.Errorf("%v after %d", err, runs)
	}
	runs = 0
	err = sdk.RetryOnConflict(func() error { runs++; return &sdk.ConflictError{} })
	if !errors.Is(err, sdk.ErrConflict) || runs != 5 {
		t.Errorf("%v after %d", err, runs)
	}
	runs = 0
	if err := sdk.RetryOnConflict(func() error { runs++; return sdk.ErrForbidden }); err != sdk.ErrForbidden || runs != 1 {
		t.Errorf("%v after %d", err, runs)
	}
}

func TestSecondControllerIsRejected(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("owner", "web", ""))
	h.Put(mkMap("other", "web", ""))
	ctx := h.Context()
	owner, other := ctx.Cache("maps").Get(key("owner")), ctx.Cache("maps").Get(key("other"))
	owned := partial{TypeMeta: sdk.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, Metadata: sdk.ObjectMeta{Name: "web", Namespace: "default"}}
	for range 2 {
		if err := sdk.SetController(&owned.Metadata, owner); err != nil || len(owned.Metadata.OwnerReferences) != 1 {
			t.Fatalf("%v %v", err, owned.Metadata.OwnerReferences)
		}
	}
	var taken *sdk.AlreadyControlledError
	if err := sdk.SetController(&owned.Metadata, other); !errors.As(err, &taken) || err.Error() != "web is already controlled by ConfigMap owner" {
		t.Errorf("%v", err)
	}
	h.Put(owned)
	stored := ctx.Cache("deployments").Get(key("web"))
	if !stored.IsControlledBy(owner) || stored.IsControlledBy(other) {
		t.Errorf("%s", stored.JSON())
	}
}

func TestTransitionTimeChangesOnlyWithTheStatus(t *testing.T) {
	var conditions []sdk.Condition
	at := func(second int) time.Time { return time.Unix(int64(second), 5).UTC() }
	ready := func(holds bool, message string) sdk.Condition {
		return sdk.Condition{Type: "Ready", Status: sdk.ConditionStatus(holds), Reason: "Checked", Message: message}
	}
	changed := []bool{
		sdk.SetCondition(&conditions, ready(false, "starting"), at(10)),
		sdk.SetCondition(&conditions, ready(false, "still starting"), at(20)),
		sdk.SetCondition(&conditions, ready(false, "still starting"), at(30)),
	}
	if !slices.Equal(changed, []bool{true, true, false}) || !conditions[0].LastTransitionTime.Equal(time.Unix(10, 0)) {
		t.Errorf("%v %v", changed, conditions)
	}
	sdk.SetCondition(&conditions, ready(true, "up"), at(40))
	if len(conditions) != 1 || !conditions[0].LastTransitionTime.Equal(time.Unix(40, 0)) || !sdk.IsConditionTrue(conditions, "Ready") {
		t.Errorf("%v", conditions)
	}
	if !sdk.RemoveCondition(&conditions, "Ready") || sdk.RemoveCondition(&conditions, "Ready") || sdk.FindCondition(conditions, "Ready") != nil {
		t.Errorf("%v", conditions)
	}
}

func TestLogTakesFieldsAndGroups(t *testing.T) {
	h := sdktest.New(t, describe)
	logger := slog.New(sdk.LogHandler()).With("colour", "blue").WithGroup("size")
	logger.Info("scaled", "replicas", 3, slog.Group("at", "hour", 7))
	wanted := sdktest.Line{Level: "info", Message: "scaled", Fields: map[string]string{"colour": "blue", "size.replicas": "3", "size.at.hour": "7"}}
	if len(h.Logged) != 1 || !reflect.DeepEqual(h.Logged[0], wanted) {
		t.Errorf("%v", h.Logged)
	}
}

func TestDefaultLoggersWriteToTheHostDuringATest(t *testing.T) {
	handler, writer, flags := slog.Default(), log.Writer(), log.Flags()
	t.Run("with a host", func(t *testing.T) {
		h := sdktest.New(t, describe)
		slog.Warn("scaled", "replicas", 3)
		log.Print("plain")
		wanted := []sdktest.Line{
			{Level: "warn", Message: "scaled", Fields: map[string]string{"replicas": "3"}},
			{Level: "info", Message: "plain", Fields: map[string]string{}},
		}
		if !reflect.DeepEqual(h.Logged, wanted) {
			t.Errorf("%v", h.Logged)
		}
	})
	if slog.Default() != handler || log.Writer() != writer || log.Flags() != flags {
		t.Error("the default loggers are not restored")
	}
}

func TestQueueEventsAndMetricsAreRecorded(t *testing.T) {
	h := sdktest.New(t, describe)
	h.Put(mkMap("a", "web", ""))
	ctx := h.Context()
	ctx.Events().Warning(ctx.Cache("maps").Get(key("a")), "Broken", "Sync", "it is")
	ctx.Queue("maps").AddAfter(key("a"), 1500*time.Microsecond)
	sdk.Counter("seen", sdk.Labels{"colour": "red"}, 2)
	sdk.Counter("seen", nil, 1)
	var settings struct{ Image string }
	h.Config = `{"image":"nginx"}`
	if err := sdk.CurrentConfig().Decode(&settings); err != nil || settings.Image != "nginx" {
		t.Errorf("%v %v", settings, err)
	}
	queued := []sdktest.Queued{{Watch: "maps", Key: key("a"), After: 2 * time.Millisecond}}
	if h.Events[0] != "Warning Broken default/a: it is" || !slices.Equal(h.Queued, queued) || h.Metrics["seen"] != 3 {
		t.Errorf("%v %v %v", h.Events, h.Queued, h.Metrics)
	}
}
