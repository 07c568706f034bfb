package sdktest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

// fake implements the host's functions for the SDK.
type fake struct{ *Host }

func (f fake) CacheGet(watch string, key host.Key) host.Object {
	for _, manifest := range f.watched(watch) {
		if idOf(manifest).key == sdk.Key(key) {
			return hold(manifest)
		}
	}
	return nil
}

func (f fake) CacheList(watch string, filter host.Filter) ([]host.Object, string) {
	var found []host.Object
	limit := int(filter.Limit)
	if limit == 0 || limit > 500 {
		limit = 500
	}
	matches := f.matching(watch, filter)
	for i, manifest := range matches {
		if i == limit {
			return found, idOf(matches[i-1]).key.String()
		}
		found = append(found, hold(manifest))
	}
	return found, ""
}

func (f fake) CacheListFields(watch string, filter host.Filter, pointers []string) []host.Row {
	var rows []host.Row
	for _, manifest := range f.matching(watch, filter) {
		row := host.Row{Key: host.Key(idOf(manifest).key)}
		for _, pointer := range pointers {
			row.Values = append(row.Values, hold(manifest).Field(pointer))
		}
		rows = append(rows, row)
	}
	return rows
}

func (f fake) matching(watch string, filter host.Filter) []map[string]any {
	return slices.DeleteFunc(f.watched(watch), func(manifest map[string]any) bool {
		key := idOf(manifest).key
		return filter.Namespace != "" && key.Namespace != filter.Namespace || !selects(filter.LabelSelector, manifest) ||
			filter.Cursor != "" && key.String() <= filter.Cursor
	})
}

func (f fake) CacheByIndex(watch, index, value string) []host.Object {
	var found []host.Object
	for _, manifest := range f.watched(watch) {
		if slices.Contains(f.values(watch, index, manifest), value) {
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
	var values []string
	for _, manifest := range f.watched(watch) {
		values = append(values, f.values(watch, index, manifest)...)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func (f fake) values(watch, name string, manifest map[string]any) []string {
	metadata := object(manifest, "metadata")
	for _, index := range f.watches[watch].Indexes {
		if index.Name != name {
			continue
		}
		switch {
		case index.Label != "":
			return present(object(metadata, "labels"), index.Label)
		case index.Annotation != "":
			return present(object(metadata, "annotations"), index.Annotation)
		case index.Owner:
			var uids []string
			for _, owner := range list(metadata, "ownerReferences") {
				uids = append(uids, text(owner.(map[string]any), "uid"))
			}
			return uids
		default:
			panic(fmt.Sprintf("sdktest does not support indexes by field and computed indexes such as %q", name))
		}
	}
	panic(fmt.Sprintf("unknown index %q of the watch %q", name, watch))
}

func present(members map[string]any, name string) []string {
	if value, ok := members[name].(string); ok {
		return []string{value}
	}
	return nil
}

func (f fake) CacheHasSynced(watch string) bool {
	f.watched(watch)
	return true
}

func (f fake) ClientGet(target host.Type, key host.Key, _ string) (host.Object, *host.APIError) {
	objectID := idIn(target, key)
	if manifest, ok := f.objects[objectID]; ok {
		return hold(manifest), nil
	}
	return nil, notFound(objectID)
}

func (f fake) ClientList(target host.Type, options host.ListOptions) ([]host.Object, string, *host.APIError) {
	var found []map[string]any
	for objectID, manifest := range f.objects {
		inNamespace := options.Namespace == "" || objectID.key.Namespace == options.Namespace
		if objectID.kind == kindOf(target) && inNamespace && selects(options.LabelSelector, manifest) {
			found = append(found, manifest)
		}
	}
	slices.SortFunc(found, func(a, b map[string]any) int { return compareKeys(idOf(a).key, idOf(b).key) })
	handles := make([]host.Object, len(found))
	for i, manifest := range found {
		handles[i] = hold(manifest)
	}
	return handles, "", nil
}

func (f fake) ClientCreate(manifest, subresource string) (host.Object, *host.APIError) {
	created, err := parse(manifest)
	if err != nil {
		return nil, invalid(err)
	}
	objectID := idOf(created)
	if _, ok := f.objects[objectID]; ok && subresource == "" {
		err := pilothouse_controller_types.MakeApiErrorAlreadyExists(fmt.Sprintf("%s %s", objectID.kind, objectID.key))
		return nil, &err
	}
	return f.write("create", objectID, subresource, created)
}

func (f fake) ClientUpdate(manifest, subresource string) (host.Object, *host.APIError) {
	updated, err := parse(manifest)
	if err != nil {
		return nil, invalid(err)
	}
	objectID := idOf(updated)
	stored, ok := f.objects[objectID]
	if !ok {
		return nil, notFound(objectID)
	}
	if apiErr := checkVersion(stored, updated); apiErr != nil {
		return nil, apiErr
	}
	if subresource == "status" {
		status := updated["status"]
		updated = copyOf(stored)
		updated["status"] = status
	} else if _, ok := stored["status"]; ok {
		updated["status"] = stored["status"]
	}
	return f.write("update", objectID, subresource, updated)
}

func (f fake) ClientPatch(target host.Type, key host.Key, kind host.PatchType, body, subresource string) (host.Object, *host.APIError) {
	objectID := idIn(target, key)
	stored, ok := f.objects[objectID]
	isApply := kind.Tag() == pilothouse_controller_client.PatchType_Apply
	switch {
	case !isApply && kind.Tag() != pilothouse_controller_client.PatchType_Merge:
		panic("sdktest supports merge patches and server-side apply, but no JSON or strategic patches")
	case !ok && !isApply:
		return nil, notFound(objectID)
	case !ok:
		stored = map[string]any{"apiVersion": target.ApiVersion, "kind": target.Kind}
	default:
		stored = copyOf(stored)
	}
	change := map[string]any{}
	if err := unmarshal(body, &change); err != nil {
		return nil, invalid(err)
	}
	if apiErr := checkVersion(stored, change); apiErr != nil {
		return nil, apiErr
	}
	verb := "patch"
	if isApply {
		verb = "apply"
	}
	return f.write(verb, objectID, subresource, merge(stored, change).(map[string]any))
}

func (f fake) ClientDelete(target host.Type, key host.Key, options host.DeleteOptions) *host.APIError {
	objectID := idIn(target, key)
	stored, ok := f.objects[objectID]
	if !ok {
		return notFound(objectID)
	}
	metadata := object(stored, "metadata")
	if options.Uid != "" && options.Uid != text(metadata, "uid") ||
		options.ResourceVersion != "" && options.ResourceVersion != text(metadata, "resourceVersion") {
		return conflict("the precondition does not hold")
	}
	if apiErr := f.takeFailure(); apiErr != nil {
		return apiErr
	}
	f.Written = append(f.Written, fmt.Sprintf("delete %s %s", objectID.kind, objectID.key))
	if len(list(metadata, "finalizers")) == 0 {
		delete(f.objects, objectID)
		return nil
	}
	metadata["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	f.store(stored)
	return nil
}

func (f fake) write(verb string, objectID id, subresource string, manifest map[string]any) (host.Object, *host.APIError) {
	if apiErr := f.takeFailure(); apiErr != nil {
		return nil, apiErr
	}
	line := fmt.Sprintf("%s %s %s", verb, objectID.kind, objectID.key)
	if subresource != "" {
		line += " " + subresource
	}
	f.Written = append(f.Written, line)
	return hold(f.store(manifest)), nil
}

// takeFailure returns the failure that the test requested, once.
func (f fake) takeFailure() *host.APIError {
	apiErr := f.failure
	f.failure = nil
	return apiErr
}

func (f fake) Config() string { return cmp.Or(f.Host.Config, "{}") }

func (f fake) QueueAdd(watch string, key host.Key) { f.QueueAddAfter(watch, key, 0) }

func (f fake) QueueAddAfter(watch string, key host.Key, milliseconds uint32) {
	after := time.Duration(milliseconds) * time.Millisecond
	f.Queued = append(f.Queued, Queued{Watch: watch, Key: sdk.Key(key), After: after})
}

func (f fake) PublishEvent(regarding host.Object, warning bool, reason, _, note string) {
	kind := "Normal"
	if warning {
		kind = "Warning"
	}
	f.Events = append(f.Events, fmt.Sprintf("%s %s %s: %s", kind, reason, sdk.Key(regarding.Key()), note))
}

func (f fake) Log(_ uint8, message string, fields []host.Pair) {
	line := Line{Message: message, Fields: map[string]string{}}
	for _, field := range fields {
		line.Fields[field.Key] = field.Value
	}
	f.Logged = append(f.Logged, line)
}

func (f fake) Counter(name string, _ []host.Pair, add float64) { f.Metrics[name] += add }
func (f fake) Gauge(name string, _ []host.Pair, value float64) { f.Metrics[name] = value }
func (f fake) Histogram(name string, _ []host.Pair, _ float64) { f.Metrics[name]++ }

func kindOf(target host.Type) sdk.Type {
	return sdk.Type{APIVersion: target.ApiVersion, Kind: target.Kind}
}

func idIn(target host.Type, key host.Key) id { return id{kindOf(target), sdk.Key(key)} }

func option(value string, ok bool) types.Option[string] {
	if ok {
		return types.Some(value)
	}
	return types.None[string]()
}

// checkVersion rejects a change that was made from another version than the stored one.
func checkVersion(stored, changed map[string]any) *host.APIError {
	base := text(object(changed, "metadata"), "resourceVersion")
	if current := text(object(stored, "metadata"), "resourceVersion"); base != "" && base != current {
		return conflict(fmt.Sprintf("the change is based on version %s, but version %s is stored", base, current))
	}
	return nil
}

func notFound(objectID id) *host.APIError {
	err := pilothouse_controller_types.MakeApiErrorNotFound(fmt.Sprintf("%s %s", objectID.kind, objectID.key))
	return &err
}

func conflict(message string) *host.APIError {
	err := pilothouse_controller_types.MakeApiErrorConflict(pilothouse_controller_types.ConflictInfo{Message: message})
	return &err
}

func invalid(reason error) *host.APIError {
	cause := pilothouse_controller_types.Cause{Reason: "FieldValueInvalid", Message: strings.TrimSpace(reason.Error())}
	err := pilothouse_controller_types.MakeApiErrorInvalid([]pilothouse_controller_types.Cause{cause})
	return &err
}
