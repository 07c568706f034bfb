package sdk

import (
	"encoding/json"
	"testing"
	"time"
)

func written(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func expect(t *testing.T, what, found, wanted string) {
	t.Helper()
	if found != wanted {
		t.Errorf("%s:\nfound  %s\nwanted %s", what, found, wanted)
	}
}

func TestDescriptorIsEncodedAsInTheSchema(t *testing.T) {
	plugin := Plugin{
		Name: "web", Version: "1.0.0",
		Watches: []Watch{{Name: "foos", APIVersion: "example.com/v1", Kind: "Foo", Trigger: Self()}},
		Writes:  []WriteRule{Writes("apps", "deployments", "create", "update")},
		Limits:  Limits{Memory: "32Mi", ReconcileTimeout: 1500 * time.Millisecond, ObserveTimeout: time.Minute, Handles: 7},
	}
	expect(t, "descriptor", written(t, plugin), `{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"web","version":"1.0.0",`+
		`"watches":[{"name":"foos","apiVersion":"example.com/v1","kind":"Foo","trigger":"self"}],`+
		`"writes":[{"apiGroups":["apps"],"resources":["deployments"],"verbs":["create","update"]}],`+
		`"limits":{"memory":"32Mi","reconcileTimeout":"1500ms","observeTimeout":"60s","handles":7}}`)
	expect(t, "an empty one", written(t, Plugin{Name: "web", Version: "1"}),
		`{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"web","version":"1","watches":[]}`)
}

func TestEveryRestrictionOfAWatchIsEncoded(t *testing.T) {
	watch := Watch{Name: "pods", APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaces: []string{"default"}, LabelSelector: "app=web",
		FieldSelector: "spec.nodeName=node-1", Projection: Metadata, Predicate: "generationChanged()", Notify: true,
		Resync: Milliseconds(10 * time.Minute)}
	expect(t, "watch", written(t, watch), `{"name":"pods","apiVersion":"v1","kind":"Pod","resource":"pods","namespaces":["default"],`+
		`"labelSelector":"app=web","fieldSelector":"spec.nodeName=node-1","projection":"metadata","predicate":"generationChanged()",`+
		`"notify":true,"resync":600000}`)
}

func TestTriggersAreEncodedAsInTheSchema(t *testing.T) {
	for wanted, trigger := range map[string]Trigger{
		`"self"`:                                          Self(),
		`{"owner":{"watch":"foos"}}`:                      Owner("foos"),
		`{"ownerAny":{"watch":"foos"}}`:                   EveryOwner("foos"),
		`{"label":{"key":"app","watch":"foos"}}`:          ByLabel("app", "foos"),
		`{"field":{"path":"{.spec.foo}","watch":"foos"}}`: ByField("{.spec.foo}", "foos"),
		`{"field":{"namespacePath":"{.spec.namespace}","path":"{.spec.foo}","watch":"foos"}}`: ByNamespacedField("{.spec.foo}", "{.spec.namespace}", "foos"),
		`{"index":{"index":"bySecret","watch":"ingresses"}}`:                                  ByIndex("ingresses", "bySecret"),
		`{"namespace":{"watch":"foos"}}`:                                                      ByNamespace("foos"),
	} {
		expect(t, "trigger", written(t, trigger), wanted)
	}
}

func TestIndexesAreEncodedAsInTheSchema(t *testing.T) {
	expect(t, "indexes", written(t, []Index{{Name: "a", Label: "app"}, {Name: "b", Annotation: "team"}, {Name: "c", Field: "{.spec.x}"},
		{Name: "d", Owner: true}, {Name: "e", Computed: true}}),
		`[{"name":"a","label":"app"},{"name":"b","annotation":"team"},{"name":"c","field":"{.spec.x}"},{"name":"d","owner":true},`+
			`{"name":"e","computed":true}]`)
}

func TestErrorOfAMismatchedConfigNamesTheConfig(t *testing.T) {
	var settings struct{ Image string }
	if err := Config(`{"image":"nginx"}`).Decode(&settings); err != nil || settings.Image != "nginx" {
		t.Errorf("%v %v", settings, err)
	}
	err := Config(`{"image":7}`).Decode(&settings)
	if err == nil || !IsTerminal(err) {
		t.Fatalf("%v", err)
	}
	expect(t, "error", err.Error()[:len("config cannot be read as ")], "config cannot be read as ")
}
