package sdktest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/exports/index"
	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

// fake implements the host's functions for the SDK.
type fake struct{ *Host }

// The most objects of a page.
const maxPage = 500

func pageSize(limit uint32) int {
	if limit == 0 {
		return maxPage
	}
	return min(int(limit), maxPage)
}

func (f fake) CacheGet(watch string, key host.Key) host.Object {
	for _, manifest := range f.watched(watch, host.Filter{}) {
		if idOf(manifest).key == sdk.Key(key) {
			return hold(manifest)
		}
	}
	return nil
}

func (f fake) CacheList(watch string, filter host.Filter) ([]host.Object, string) {
	found, next := pageOf(f.watched(watch, filter), pageSize(filter.Limit), filter.Cursor)
	return holdAll(found), next
}

func (f fake) CacheListFields(watch string, filter host.Filter, pointers []string) []host.Row {
	found := f.watched(watch, filter)
	limit := int(filter.Limit)
	if limit == 0 {
		limit = len(found)
	}
	found, _ = pageOf(found, limit, filter.Cursor)
	var rows []host.Row
	for _, manifest := range found {
		rows = append(rows, host.Row{Key: host.Key(idOf(manifest).key), Values: hold(manifest).Fields(pointers)})
	}
	return rows
}

func (f fake) CacheByIndex(watch, index, value string) []host.Object {
	declared := f.index(watch, index)
	var found []host.Object
	for _, manifest := range f.watched(watch, host.Filter{}) {
		if slices.Contains(f.values(declared, manifest), value) {
			found = append(found, hold(manifest))
		}
	}
	return found
}

func (f fake) CacheIndexKeys(watch, index, value string) []host.Key {
	var keys []host.Key
	for _, found := range f.CacheByIndex(watch, index, value) {
		keys = append(keys, found.Key())
	}
	return keys
}

func (f fake) CacheIndexValues(watch, index string) []string {
	declared := f.index(watch, index)
	var values []string
	for _, manifest := range f.watched(watch, host.Filter{}) {
		values = append(values, f.values(declared, manifest)...)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func (f fake) CacheHasSynced(watch string) bool {
	f.watch(watch)
	return true
}

// watch returns a declared watch.
func (f fake) watch(name string) sdk.Watch {
	var names []string
	for _, watch := range f.plugin.Watches {
		if watch.Name == name {
			return watch
		}
		names = append(names, watch.Name)
	}
	panic(Trap(fmt.Sprintf("unknown watch %q: the descriptor declares %s", name, orNone(names))))
}

// index returns a declared index of a watch.
func (f fake) index(watch, name string) sdk.Index {
	var names []string
	for _, index := range f.watch(watch).Indexes {
		if index.Name == name {
			return index
		}
		names = append(names, index.Name)
	}
	panic(Trap(fmt.Sprintf("unknown index %q of watch %q: the descriptor declares %s", name, watch, orNone(names))))
}

func orNone(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

// watched returns the objects of a watch that a filter selects, sorted by key.
func (f fake) watched(name string, filter host.Filter) []map[string]any {
	watch := f.watch(name)
	matches, err := labelSelector(filter.LabelSelector)
	if err != nil {
		panic(Trap(err.Error()))
	}
	isWatched, err := labelSelector(watch.LabelSelector)
	if err != nil {
		panic(Trap(err.Error()))
	}
	hasFields := fieldSelector(watch.FieldSelector)
	found := f.cluster.selected(sdk.Type{APIVersion: watch.APIVersion, Kind: watch.Kind}, func(manifest map[string]any) bool {
		namespace := idOf(manifest).key.Namespace
		return (len(watch.Namespaces) == 0 || slices.Contains(watch.Namespaces, namespace)) &&
			(filter.Namespace == "" || filter.Namespace == namespace) && isWatched(manifest) && hasFields(manifest) && matches(manifest)
	})
	if watch.Projection == sdk.Metadata {
		for i, manifest := range found {
			found[i] = map[string]any{"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": manifest["metadata"]}
		}
	}
	return found
}

// values returns the values of an index for an object, without duplicates.
func (f fake) values(declared sdk.Index, manifest map[string]any) []string {
	values := indexValues(declared, manifest)
	if declared.Computed {
		values = f.computed(declared.Name, manifest)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func (f fake) computed(name string, manifest map[string]any) []string {
	if export_pilothouse_controller_index.Handler == nil {
		panic(Trap(fmt.Sprintf("the index %q is computed, but the plugin did not call index.Export; call it in an init function", name)))
	}
	return slices.Clone(export_pilothouse_controller_index.Handler(name, hold(manifest)))
}

func (f fake) ClientGet(target host.Type, key host.Key, subresource string) (host.Object, *host.APIError) {
	of := idIn(target, key)
	if err := f.begin("get", of, subresource); err != nil {
		return nil, err
	}
	found, err := f.cluster.require(of, subresource)
	if err != nil {
		return nil, err
	}
	return hold(found), nil
}

func (f fake) ClientList(target host.Type, options host.ListOptions) ([]host.Object, string, *host.APIError) {
	if err := f.begin("list", idIn(target, host.Key{Namespace: options.Namespace}), ""); err != nil {
		return nil, "", err
	}
	hasLabels, err := labelSelector(options.LabelSelector)
	if err != nil {
		return nil, "", other(400, "BadRequest", err.Error())
	}
	hasFields := fieldSelector(options.FieldSelector)
	found := f.cluster.selected(typeOf(target), func(manifest map[string]any) bool {
		inNamespace := options.Namespace == "" || options.Namespace == idOf(manifest).key.Namespace
		return inNamespace && hasLabels(manifest) && hasFields(manifest)
	})
	page, next := pageOf(found, pageSize(options.Limit), options.Cursor)
	return holdAll(page), next, nil
}

func (f fake) ClientCreate(manifest, subresource string) (host.Object, *host.APIError) {
	created, err := parse(manifest)
	if err != nil {
		return nil, err
	}
	of := idOf(created)
	if err := f.begin("create", of, subresource); err != nil {
		return nil, err
	}
	if subresource != "" {
		// An eviction or a token is an action, and not an object.
		_, err = f.cluster.require(id{parentOf(of.kind, subresource), of.key}, "")
	} else {
		created, err = f.cluster.create(created, f.plugin.Name)
	}
	return f.wrote("create", created, subresource, err)
}

func (f fake) ClientUpdate(manifest, subresource string) (host.Object, *host.APIError) {
	updated, err := parse(manifest)
	if err != nil {
		return nil, err
	}
	if err := f.begin("update", idOf(updated), subresource); err != nil {
		return nil, err
	}
	updated, err = f.cluster.update(updated, subresource, f.plugin.Name)
	return f.wrote("update", updated, subresource, err)
}

func (f fake) ClientPatch(target host.Type, key host.Key, kind host.PatchType, body, subresource string) (host.Object, *host.APIError) {
	of := idIn(target, key)
	if err := f.begin("patch", of, subresource); err != nil {
		return nil, err
	}
	var patch any
	if err := unmarshal(body, &patch); err != nil {
		return nil, other(400, "BadRequest", err.Error())
	}
	switch kind.Tag() {
	case pilothouse_controller_client.PatchType_Strategic:
		panic("sdktest supports merge and JSON patches and server-side apply, but no strategic patches")
	case pilothouse_controller_client.PatchType_Apply:
		config, _ := patch.(map[string]any)
		stored, err := f.apply(of, config, subresource, kind.Apply())
		return f.wrote("apply", stored, subresource, err)
	default:
		isJSON := kind.Tag() == pilothouse_controller_client.PatchType_Json
		stored, err := f.cluster.patch(of, isJSON, patch, subresource, f.plugin.Name)
		return f.wrote("patch", stored, subresource, err)
	}
}

func (f fake) apply(of id, config map[string]any, subresource string, options pilothouse_controller_client.ApplyOptions) (map[string]any, *host.APIError) {
	own := f.plugin.Name
	manager := cmp.Or(options.FieldManager, own)
	if manager != own && !strings.HasPrefix(manager, own+"/") {
		return nil, invalid("fieldManager", "FieldValueInvalid", fmt.Sprintf("write %q, %s/ and a name of your own, or leave it out", own, own))
	}
	if config == nil {
		return nil, other(400, "BadRequest", "the applied manifest is not an object")
	}
	return f.cluster.apply(of, config, subresource, manager+" apply", options.Force)
}

func (f fake) ClientDelete(target host.Type, key host.Key, options host.DeleteOptions) *host.APIError {
	of := idIn(target, key)
	err := f.begin("delete", of, "")
	if err == nil {
		err = f.cluster.delete(of, options.Uid, options.ResourceVersion)
	}
	if err == nil {
		f.record("delete", of, "")
	}
	return err
}

// begin checks a request as the host does before it sends it, and fails it if the test said so.
func (f fake) begin(verb string, of id, subresource string) *host.APIError {
	if of.kind.APIVersion == "" {
		return invalid("apiVersion", "FieldValueInvalid", "the manifest must set it")
	}
	if of.kind.Kind == "" {
		return invalid("kind", "FieldValueInvalid", "the manifest must set it")
	}
	if problem := namespaceProblem(of.key.Namespace); problem != "" {
		return invalid("metadata.namespace", "FieldValueInvalid", problem)
	}
	if problem := nameProblem(of.key.Name); problem != "" && of.key.Name != "" {
		return invalid("metadata.name", "FieldValueInvalid", problem)
	}
	kind := f.cluster.kindOf(parentOf(of.kind, subresource))
	if err := f.allow(verb, kind, of.key.Namespace, subresource); err != nil {
		return err
	}
	switch {
	case kind.scope == namespaced && of.key.Namespace == "" && verb != "list":
		return invalid("metadata.namespace", "FieldValueInvalid",
			fmt.Sprintf("it is empty, but %s are namespaced: name a namespace", kind.plural))
	case kind.scope == clusterScoped && of.key.Namespace != "":
		return invalid("metadata.namespace", "FieldValueInvalid", kind.plural+" are cluster-scoped: leave the namespace out")
	case of.key.Name == "" && verb != "list" && (verb != "create" || subresource != ""):
		return invalid("metadata.name", "FieldValueInvalid", "it is empty")
	case verb != "create" && subresource != "" && subresource != "status":
		panic(fmt.Sprintf("sdktest has no subresource %q: test it with `pilothouse dev`", subresource))
	}
	for _, failure := range f.failures {
		if failure.Times > 0 && (failure.Verb == "" || failure.Verb == verb) && (failure.Kind == "" || failure.Kind == of.kind.Kind) {
			failure.Times--
			return wireError(failure.Err)
		}
	}
	return nil
}

func (f fake) allow(verb string, kind kind, namespace, subresource string) *host.APIError {
	resource := kind.plural
	if subresource != "" {
		resource += "/" + subresource
	}
	if kind.scope == clusterScoped {
		namespace = ""
	}
	for _, rule := range f.plugin.Writes {
		if covers(rule, kind.group, resource, verb, namespace) {
			return nil
		}
	}
	missing := pilothouse_controller_types.Rule{ApiGroups: []string{kind.group}, Resources: []string{resource}, Verbs: []string{verb}}
	if namespace != "" {
		missing.Namespaces = []string{namespace}
	}
	err := pilothouse_controller_types.MakeApiErrorDenied(missing)
	return &err
}

func covers(rule sdk.WriteRule, group, resource, verb, namespace string) bool {
	hasOne := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(wanted, func(one string) bool { return slices.Contains(list, one) })
	}
	_, subresource, isSubresource := strings.Cut(resource, "/")
	pattern := resource
	if isSubresource {
		pattern = "*/" + subresource
	}
	isEverywhere := len(rule.Namespaces) == 0 || slices.Contains(rule.Namespaces, "*")
	return hasOne(rule.APIGroups, "*", group) && hasOne(rule.Resources, "*", resource, pattern) && hasOne(rule.Verbs, "*", verb) &&
		(isEverywhere || namespace != "" && slices.Contains(rule.Namespaces, namespace))
}

// wrote records a write that succeeded, and returns its result.
func (f fake) wrote(verb string, stored map[string]any, subresource string, err *host.APIError) (host.Object, *host.APIError) {
	if err != nil {
		return nil, err
	}
	f.record(verb, idOf(stored), subresource)
	return hold(stored), nil
}

func (f fake) record(verb string, of id, subresource string) {
	line := fmt.Sprintf("%s %s %s", verb, of.kind, of.key)
	if subresource != "" {
		line += " " + subresource
	}
	f.Written = append(f.Written, line)
}

var (
	namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	notInNames       = regexp.MustCompile(`[/%\x00-\x1f\x7f]`)
)

func namespaceProblem(namespace string) string {
	if namespace == "" || namespacePattern.MatchString(namespace) {
		return ""
	}
	return fmt.Sprintf("%q is not the name of a namespace", namespace)
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case name == ".", name == "..", len(name) > 253, notInNames.MatchString(name):
		return fmt.Sprintf("%q is not the name of an object", name)
	}
	return ""
}

func (f fake) Config() string { return cmp.Or(f.Host.Config, "{}") }

func (f fake) QueueAdd(watch string, key host.Key) { f.enqueue("queue.add", watch, key, 0) }

func (f fake) QueueAddAfter(watch string, key host.Key, milliseconds uint32) {
	f.enqueue("queue.add-after", watch, key, time.Duration(milliseconds)*time.Millisecond)
}

func (f fake) enqueue(function, watch string, key host.Key, after time.Duration) {
	if problem := cmp.Or(namespaceProblem(key.Namespace), nameProblem(key.Name)); problem != "" {
		panic(Trap(function + " takes keys of objects: " + problem))
	}
	if jsonOf(f.watch(watch).Trigger) != `"self"` {
		var targets []string
		for _, watch := range f.plugin.Watches {
			if jsonOf(watch.Trigger) == `"self"` {
				targets = append(targets, watch.Name)
			}
		}
		panic(Trap(fmt.Sprintf("watch %q is not a target (its trigger isn't self): targets are %s", watch, orNone(targets))))
	}
	f.Queued = append(f.Queued, Queued{Watch: watch, Key: sdk.Key(key), After: after})
}

func (f fake) PublishEvent(regarding host.Object, warning bool, reason, _, note string) {
	kind := "Normal"
	if warning {
		kind = "Warning"
	}
	f.Events = append(f.Events, fmt.Sprintf("%s %s %s: %s", kind, reason, sdk.Key(regarding.Key()), note))
}

func (f fake) Log(level uint8, message string, fields []host.Pair) {
	line := Line{Level: levels[level], Message: message, Fields: map[string]string{}}
	for _, field := range fields {
		line.Fields[field.Key] = field.Value
	}
	f.Logged = append(f.Logged, line)
}

// levels has the names of the levels in the contract's order.
var levels = [...]string{"debug", "info", "warn", "error"}

func (f fake) Counter(name string, _ []host.Pair, add float64) { f.Metrics[name] += add }
func (f fake) Gauge(name string, _ []host.Pair, value float64) { f.Metrics[name] = value }
func (f fake) Histogram(name string, _ []host.Pair, _ float64) { f.Metrics[name]++ }

func typeOf(target host.Type) sdk.Type {
	return sdk.Type{APIVersion: target.ApiVersion, Kind: target.Kind}
}

func idIn(target host.Type, key host.Key) id { return id{typeOf(target), sdk.Key(key)} }

// parse parses the manifest of a request.
func parse(manifest string) (map[string]any, *host.APIError) {
	var members map[string]any
	if err := unmarshal(manifest, &members); err != nil || members == nil {
		return nil, invalid("", "FieldValueInvalid", fmt.Sprintf("the manifest is not a JSON object: %v", err))
	}
	return members, nil
}

func option(value string, ok bool) types.Option[string] {
	if ok {
		return types.Some(value)
	}
	return types.None[string]()
}
