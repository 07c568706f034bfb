package sdktest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/index"
	"pilothouse.dev/sdk/sdktest"
)

// The specification of the fake cluster. guest-sdk/testing/README.md describes its format.
const file = "../../testing/cases.json"

type table struct {
	Plugin map[string]any
	Cases  []struct {
		Name  string
		Steps []json.RawMessage
	}
}

// step is one step, decoded. Which members it has depends on the operation.
type step struct {
	operation string
	argument  json.RawMessage
	options   struct {
		Subresource  string
		Force        bool
		FieldManager string
		Answer       outcome
		Sees         any
		Traps        string
		Error        any
	}
	returns    any
	hasReturns bool
}

type outcome struct {
	Done            bool
	RequeueAfter    int
	Retry, Terminal string
}

func read(t *testing.T) table {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all table
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// plugin returns the plugin of the table.
func plugin(all table) func(sdk.Config) (sdk.Plugin, error) {
	return func(sdk.Config) (sdk.Plugin, error) {
		var writes []sdk.WriteRule
		decode(all.Plugin["writes"], &writes)
		return sdk.Plugin{Name: "cases", Version: "0.1.0", Watches: []sdk.Watch{
			{Name: "foos", APIVersion: "example.com/v1", Kind: "Foo", Trigger: sdk.Self()},
			{Name: "maps", APIVersion: "v1", Kind: "ConfigMap", Indexes: []sdk.Index{
				{Name: "byApp", Label: "app"},
				{Name: "byTeam", Annotation: "example.com/team"},
				{Name: "byMode", Field: "{.data.mode}"},
				{Name: "byOwner", Owner: true},
				{Name: "byWord", Computed: true},
			}},
			{Name: "blue", APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{"a", "b"}, LabelSelector: "team=blue"},
			{Name: "named", APIVersion: "v1", Kind: "ConfigMap", FieldSelector: "metadata.name=settings", Projection: sdk.Metadata},
			{Name: "pods", APIVersion: "v1", Kind: "Pod", Indexes: []sdk.Index{
				{Name: "byImage", Field: "{.spec.containers[*].image}"},
				{Name: "byZone", Field: "{.metadata.labels['example.com/zone']}"},
				{Name: "byFirst", Field: "{.spec.containers[0].name}"},
			}},
		}, Writes: writes, CRDs: all.Plugin["crds"].([]any)}, nil
	}
}

func init() {
	index.Export(func(_ string, object *sdk.Object) []string {
		words, _ := object.Text("/data/words")
		return strings.Fields(words)
	})
}

func TestThePluginIsThatOfTheTable(t *testing.T) {
	all := read(t)
	declared, _ := plugin(all)(sdk.Config("{}"))
	var found map[string]any
	decode(declared, &found)
	if !reflect.DeepEqual(found, all.Plugin) {
		t.Errorf("%v\nwanted %v", found, all.Plugin)
	}
}

func TestCases(t *testing.T) {
	all := read(t)
	for _, one := range all.Cases {
		t.Run(one.Name, func(t *testing.T) {
			run := &testCase{t: t, h: sdktest.New(t, plugin(all)), variables: map[string]string{}}
			for i, text := range one.Steps {
				step := run.parse(text)
				run.where = fmt.Sprintf("step %d, %s", i+1, step.operation)
				run.step(step)
			}
		})
	}
}

// testCase is one case: a host with the plugin of the table, and the variables.
type testCase struct {
	t         *testing.T
	h         *sdktest.Host
	variables map[string]string
	where     string
}

func (c *testCase) parse(text json.RawMessage) step {
	c.t.Helper()
	var members map[string]json.RawMessage
	decode(text, &members)
	// The operation is the first member.
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	_, _ = decoder.Token()
	name, _ := decoder.Token()
	found := step{operation: name.(string)}
	var argument any
	decode(members[found.operation], &argument)
	found.argument, _ = json.Marshal(c.filled(argument))
	decode(text, &found.options)
	if returns, ok := members["returns"]; ok {
		found.hasReturns = true
		decode(returns, &found.returns)
	}
	return found
}

func (c *testCase) step(s step) {
	c.t.Helper()
	operations := map[string]func(step) (any, error){
		"put": c.put, "remove": c.remove, "stored": c.stored, "fail": c.fail, "events": c.events, "queued": c.queued, "writes": c.writes,
		"reconcile": c.reconcile, "create": c.create, "update": c.update, "patch": c.patch, "apply": c.apply, "delete": c.delete,
		"get": c.get, "list": c.list, "cacheGet": c.cacheGet, "cacheList": c.cacheList, "cacheFields": c.cacheFields, "byIndex": c.byIndex,
		"indexKeys": c.indexKeys, "indexValues": c.indexValues, "queueAdd": c.queueAdd, "publish": c.publish,
	}
	operation, ok := operations[s.operation]
	if !ok {
		c.t.Fatalf("%s: the runner does not know this operation", c.where)
	}
	result, err, trap := caught(func() (any, error) { return operation(s) })
	switch {
	case s.options.Traps != "":
		if !strings.Contains(trap, s.options.Traps) {
			c.t.Fatalf("%s: the trap is %q", c.where, trap)
		}
	case trap != "":
		c.t.Fatalf("%s: it trapped: %s", c.where, trap)
	case s.options.Error != nil:
		if err == nil {
			c.t.Fatalf("%s: it returned %v", c.where, result)
		}
		c.expect(s.options.Error, plain(errorOf(err)), "the error")
	case err != nil:
		c.t.Fatalf("%s: %v", c.where, err)
	case s.hasReturns:
		c.expect(s.returns, plain(result), "the result")
	}
}

func caught(work func() (any, error)) (result any, err error, trap string) {
	defer func() {
		if cause := recover(); cause != nil {
			trapped, ok := cause.(sdktest.Trap)
			if !ok {
				panic(cause)
			}
			trap = string(trapped)
		}
	}()
	result, err = work()
	return result, err, ""
}

func (c *testCase) filled(value any) any {
	switch value := value.(type) {
	case string:
		if found, ok := c.variables[value]; ok {
			return found
		}
	case []any:
		for i := range value {
			value[i] = c.filled(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = c.filled(value[name])
		}
	}
	return value
}

func (c *testCase) expect(pattern, found any, where string) {
	c.t.Helper()
	fail := func() {
		c.t.Helper()
		c.t.Fatalf("%s: %s is %v, not %v (%v)", c.where, where, found, pattern, c.variables)
	}
	switch pattern := pattern.(type) {
	case map[string]any:
		members, ok := found.(map[string]any)
		if !ok {
			fail()
		}
		for name, inner := range pattern {
			c.expect(inner, members[name], where+"."+name)
		}
	case []any:
		items, _ := found.([]any)
		if len(items) != len(pattern) || found == nil && len(pattern) > 0 {
			fail()
		}
		for i, inner := range pattern {
			c.expect(inner, items[i], fmt.Sprintf("%s[%d]", where, i))
		}
	case string:
		text, ok := found.(string)
		if other, isOther := strings.CutPrefix(pattern, "!"); isOther {
			if value, ok := c.variables[other]; ok {
				other = value
			}
			if !ok || text == "" || text == other {
				fail()
			}
		} else if strings.HasPrefix(pattern, "$") {
			if value, known := c.variables[pattern]; !ok || known && value != text {
				fail()
			}
			c.variables[pattern] = text
		} else if !ok || text != pattern {
			fail()
		}
	default:
		if !reflect.DeepEqual(pattern, found) {
			fail()
		}
	}
}

// ref names an object, and options of the operations on it.
type ref struct {
	APIVersion, Kind, Key             string
	Watch, Index, Value               string
	Namespace, Labels, Fields, Cursor string
	Limit                             int
	Pointers                          []string
	After                             *int
	Type, Reason, Action, Note        string
	Body                              json.RawMessage
	Propagation, UID, ResourceVersion string
	Reasons                           []string
	Attempt                           int
	Verb                              string
	Times                             int
	Error                             apiError
}

func (s step) ref() ref {
	var found ref
	decode(s.argument, &found)
	return found
}

func (r ref) typed() sdk.Type { return sdk.Type{APIVersion: r.APIVersion, Kind: r.Kind} }

func (r ref) key() sdk.Key {
	if namespace, name, ok := strings.Cut(r.Key, "/"); ok {
		return sdk.Key{Namespace: namespace, Name: name}
	}
	return sdk.Key{Name: r.Key}
}

func (r ref) query() sdk.Query {
	return sdk.Query{Namespace: r.Namespace, Labels: r.Labels, PageSize: r.Limit, After: r.Cursor}
}

// The operations of the test.

func (c *testCase) put(s step) (any, error) {
	c.h.Put(string(s.argument))
	var object struct {
		APIVersion, Kind string
		Metadata         sdk.ObjectMeta
	}
	decode(s.argument, &object)
	return c.find(sdk.Type{APIVersion: object.APIVersion, Kind: object.Kind}, object.Metadata.Key()), nil
}

func (c *testCase) remove(s step) (any, error) {
	c.h.Remove(s.ref().typed(), s.ref().key())
	return nil, nil
}

func (c *testCase) stored(s step) (any, error) { return c.find(s.ref().typed(), s.ref().key()), nil }

func (c *testCase) find(kind sdk.Type, key sdk.Key) any {
	var found map[string]any
	if !c.h.Get(kind, key, &found) {
		return nil
	}
	return found
}

func (c *testCase) fail(s step) (any, error) {
	r := s.ref()
	c.h.Fail(sdktest.Failure{Verb: r.Verb, Kind: r.Kind, Times: r.Times, Err: r.Error.sdk()})
	return nil, nil
}

func (c *testCase) events(s step) (any, error) {
	found := []any{}
	for _, line := range c.h.Events {
		about, note, _ := strings.Cut(line, ": ")
		parts := strings.Fields(about)
		found = append(found, map[string]any{"type": strings.ToLower(parts[0]), "reason": parts[1], "key": parts[2], "note": note})
	}
	return c.compared(s, found)
}

func (c *testCase) queued(s step) (any, error) {
	found := []any{}
	for _, one := range c.h.Queued {
		found = append(found, map[string]any{"watch": one.Watch, "key": one.Key.String(), "after": one.After.Milliseconds()})
	}
	return c.compared(s, found)
}

func (c *testCase) writes(s step) (any, error) { return c.compared(s, c.h.Written) }

func (c *testCase) compared(s step, found any) (any, error) {
	var expected any
	decode(s.argument, &expected)
	c.expect(expected, plain(found), "the list")
	return nil, nil
}

func (c *testCase) reconcile(s step) (any, error) {
	r, answer := s.ref(), s.options.Answer
	var seen sdk.Request
	reconciler := sdk.ReconcilerFunc(func(_ *sdk.Context, req sdk.Request) (sdk.Result, error) {
		seen = req
		switch {
		case answer.Retry != "":
			return sdk.Result{}, errors.New(answer.Retry)
		case answer.Terminal != "":
			return sdk.Result{}, sdk.Terminal(errors.New(answer.Terminal))
		default:
			return sdk.Result{RequeueAfter: time.Duration(answer.RequeueAfter) * time.Millisecond}, nil
		}
	})
	var result sdk.Result
	var err error
	if r.Reasons == nil {
		result, err = c.h.Reconcile(reconciler, r.Watch, r.key())
	} else {
		request := sdk.Request{Watch: r.Watch, Key: r.key(), Attempt: r.Attempt}
		for _, reason := range r.Reasons {
			for known := sdk.Created; known <= sdk.OtherReason; known++ {
				if known.String() == reason {
					request.Reasons = append(request.Reasons, known)
				}
			}
		}
		result, err = c.h.ReconcileRequest(reconciler, request)
	}
	reasons := []string{}
	for _, reason := range seen.Reasons {
		reasons = append(reasons, reason.String())
	}
	if s.options.Sees != nil {
		sees := map[string]any{"watch": seen.Watch, "key": seen.Key.String(), "reasons": reasons, "attempt": seen.Attempt}
		c.expect(s.options.Sees, plain(sees), "the request")
	}
	switch {
	case err != nil && sdk.IsTerminal(err):
		return map[string]any{"terminal": err.Error()}, nil
	case err != nil:
		return map[string]any{"retry": err.Error()}, nil
	case result.RequeueAfter > 0:
		return map[string]any{"requeueAfter": result.RequeueAfter.Milliseconds()}, nil
	default:
		return map[string]any{"done": true}, nil
	}
}

// The operations of the plugin.

func (c *testCase) client() sdk.Client { return c.h.Context().Client() }

func (s step) subresource() sdk.Option { return sdk.Subresource(s.options.Subresource) }

func manifest(object *sdk.Object, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return json.RawMessage(object.JSON()), nil
}

func (c *testCase) create(s step) (any, error) {
	return manifest(c.client().Create(s.argument, s.subresource()))
}

func (c *testCase) update(s step) (any, error) {
	return manifest(c.client().Update(s.argument, s.subresource()))
}

func (c *testCase) patch(s step) (any, error) {
	r := s.ref()
	patch := sdk.MergePatch(r.Body)
	if r.Type == "json" {
		patch = sdk.JSONPatch(r.Body)
	}
	return manifest(c.client().Patch(r.typed(), r.key(), patch, s.subresource()))
}

func (c *testCase) apply(s step) (any, error) {
	options := []sdk.Option{s.subresource(), sdk.FieldManager(s.options.FieldManager)}
	if s.options.Force {
		options = append(options, sdk.Force())
	}
	return manifest(c.client().Apply(s.argument, options...))
}

func (c *testCase) delete(s step) (any, error) {
	r := s.ref()
	propagation := map[string]sdk.Propagation{"": sdk.Background, "foreground": sdk.Foreground, "orphan": sdk.Orphan}[r.Propagation]
	options := sdk.DeleteOptions{Propagation: propagation, UID: r.UID, ResourceVersion: r.ResourceVersion}
	return nil, c.client().Delete(r.typed(), r.key(), options)
}

func (c *testCase) get(s step) (any, error) {
	return manifest(c.client().Get(s.ref().typed(), s.ref().key(), s.subresource()))
}

func (c *testCase) list(s step) (any, error) {
	r := s.ref()
	page, err := c.client().List(r.typed(), sdk.ListOptions{Namespace: r.Namespace, LabelSelector: r.Labels, FieldSelector: r.Fields,
		PageSize: r.Limit, After: r.Cursor})
	return pageOf(page), err
}

func (c *testCase) cache(s step) sdk.Cache { return c.h.Context().Cache(s.ref().Watch) }

func (c *testCase) cacheGet(s step) (any, error) {
	object := c.cache(s).Get(s.ref().key())
	if object == nil {
		return nil, nil
	}
	return manifest(object, nil)
}

func (c *testCase) cacheList(s step) (any, error) {
	return pageOf(c.cache(s).Page(s.ref().query())), nil
}

func (c *testCase) cacheFields(s step) (any, error) {
	rows := []any{}
	for _, row := range c.cache(s).Fields(s.ref().query(), s.ref().Pointers...) {
		values := []any{}
		for i := range s.ref().Pointers {
			value, ok := row.Value(i)
			if !ok {
				value = json.RawMessage("null")
			}
			values = append(values, value)
		}
		rows = append(rows, map[string]any{"key": row.Key.String(), "values": values})
	}
	return rows, nil
}

func (c *testCase) byIndex(s step) (any, error) {
	return keysOf(c.cache(s).ByIndex(s.ref().Index, s.ref().Value)), nil
}

func (c *testCase) indexKeys(s step) (any, error) {
	keys := []string{}
	for _, key := range c.cache(s).IndexKeys(s.ref().Index, s.ref().Value) {
		keys = append(keys, key.String())
	}
	return keys, nil
}

func (c *testCase) indexValues(s step) (any, error) {
	return slices.Concat([]string{}, c.cache(s).IndexValues(s.ref().Index)), nil
}

func (c *testCase) queueAdd(s step) (any, error) {
	r, queue := s.ref(), c.h.Context().Queue(s.ref().Watch)
	if r.After == nil {
		queue.Add(r.key())
	} else {
		queue.AddAfter(r.key(), time.Duration(*r.After)*time.Millisecond)
	}
	return nil, nil
}

func (c *testCase) publish(s step) (any, error) {
	r, ctx := s.ref(), c.h.Context()
	record := ctx.Events().Normal
	if r.Type == "warning" {
		record = ctx.Events().Warning
	}
	record(ctx.Cache(r.Watch).Get(r.key()), r.Reason, r.Action, r.Note)
	return nil, nil
}

func pageOf(page sdk.Page) any { return map[string]any{"keys": keysOf(page.Items), "next": page.Next} }

func keysOf(objects []*sdk.Object) []string {
	keys := []string{}
	for _, object := range objects {
		keys = append(keys, object.Key().String())
	}
	return keys
}

// apiError is an error as the table writes it.
type apiError struct {
	Code            string         `json:"code"`
	Message         string         `json:"message"`
	ResourceVersion string         `json:"resourceVersion"`
	Causes          []cause        `json:"causes"`
	Rule            *sdk.WriteRule `json:"rule,omitempty"`
	RetryAfter      int64          `json:"retryAfter"`
	Status          int            `json:"status"`
	Reason          string         `json:"reason"`
}

type cause struct {
	Field   string `json:"field"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

var sentinels = map[string]error{
	"not-found": sdk.ErrNotFound, "already-exists": sdk.ErrAlreadyExists, "forbidden": sdk.ErrForbidden, "unavailable": sdk.ErrUnavailable,
}

// sdk returns the error of the SDK.
func (e apiError) sdk() error {
	switch e.Code {
	case "conflict":
		return &sdk.ConflictError{Message: e.Message, ResourceVersion: e.ResourceVersion}
	case "invalid":
		invalid := &sdk.InvalidError{}
		for _, one := range e.Causes {
			invalid.Causes = append(invalid.Causes, sdk.Cause(one))
		}
		return invalid
	case "denied":
		return &sdk.DeniedError{Rule: *e.Rule}
	case "too-many-requests":
		return &sdk.TooManyRequestsError{RetryAfter: time.Duration(e.RetryAfter) * time.Millisecond}
	case "other":
		return &sdk.StatusError{Code: e.Status, Reason: e.Reason, Message: e.Message}
	default:
		return fmt.Errorf("%w: %s", sentinels[e.Code], e.Message)
	}
}

// errorOf returns an error of the SDK as the table writes it.
func errorOf(err error) any {
	var (
		conflict  *sdk.ConflictError
		invalid   *sdk.InvalidError
		denied    *sdk.DeniedError
		throttled *sdk.TooManyRequestsError
		status    *sdk.StatusError
	)
	found := apiError{Message: err.Error()}
	switch {
	case errors.As(err, &conflict):
		found.Code, found.ResourceVersion = "conflict", conflict.ResourceVersion
	case errors.As(err, &invalid):
		found.Code = "invalid"
		for _, one := range invalid.Causes {
			found.Causes = append(found.Causes, cause(one))
		}
	case errors.As(err, &denied):
		return map[string]any{"code": "denied", "rule": map[string]any{"apiGroups": denied.Rule.APIGroups, "resources": denied.Rule.Resources,
			"verbs": denied.Rule.Verbs, "namespaces": slices.Concat([]string{}, denied.Rule.Namespaces)}}
	case errors.As(err, &throttled):
		found.Code, found.RetryAfter = "too-many-requests", throttled.RetryAfter.Milliseconds()
	case errors.As(err, &status):
		found.Code, found.Status, found.Reason = "other", status.Code, status.Reason
	default:
		for code, sentinel := range sentinels {
			if errors.Is(err, sentinel) {
				found.Code = code
			}
		}
	}
	return found
}

// plain converts a value to maps, lists and scalars, as the table is read.
func plain(value any) (found any) {
	decode(value, &found)
	return found
}

// decode converts between JSON and values.
func decode(from, into any) {
	text, ok := from.(json.RawMessage)
	if !ok {
		encoded, err := json.Marshal(from)
		if err != nil {
			panic(err)
		}
		text = encoded
	}
	if err := json.Unmarshal(text, into); err != nil {
		panic(err)
	}
}
