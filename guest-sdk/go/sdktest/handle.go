package sdktest

import (
	"maps"
	"slices"

	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

// handle is a handle to the state that an object had when it was read.
type handle struct{ manifest map[string]any }

func hold(manifest map[string]any) host.Object { return handle{clone(manifest).(map[string]any)} }

func holdOrNil(manifest map[string]any) host.Object {
	if manifest == nil {
		return nil
	}
	return hold(manifest)
}

func holdAll(manifests []map[string]any) []host.Object {
	handles := make([]host.Object, len(manifests))
	for i, manifest := range manifests {
		handles[i] = hold(manifest)
	}
	return handles
}

func (h handle) metadata() map[string]any { return object(h.manifest, "metadata") }

func (h handle) Key() host.Key           { return host.Key(idOf(h.manifest).key) }
func (h handle) ApiVersion() string      { return text(h.manifest, "apiVersion") }
func (h handle) Kind() string            { return text(h.manifest, "kind") }
func (h handle) Uid() string             { return text(h.metadata(), "uid") }
func (h handle) ResourceVersion() string { return text(h.metadata(), "resourceVersion") }
func (h handle) Json() string            { return jsonOf(h.manifest) }
func (h handle) Drop()                   {}

func (h handle) Generation() uint32 {
	return uint32(integer(h.metadata(), "generation"))
}

func (h handle) Labels() []host.Pair {
	labels := object(h.metadata(), "labels")
	var pairs []host.Pair
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, host.Pair{Key: key, Value: text(labels, key)})
	}
	return pairs
}

func (h handle) Label(key string) types.Option[string] { return h.member("labels", key) }

func (h handle) Annotation(key string) types.Option[string] { return h.member("annotations", key) }

func (h handle) member(group, key string) types.Option[string] {
	value, ok := object(h.metadata(), group)[key].(string)
	return option(value, ok)
}

func (h handle) DeletionTimestamp() types.Option[string] {
	return h.Text("/metadata/deletionTimestamp")
}

func (h handle) Controller() types.Option[host.Owner] {
	for _, reference := range list(h.metadata(), "ownerReferences") {
		owner, _ := reference.(map[string]any)
		if owner["controller"] == true {
			return types.Some(host.Owner{ApiVersion: text(owner, "apiVersion"), Kind: text(owner, "kind"),
				Name: text(owner, "name"), Uid: text(owner, "uid")})
		}
	}
	return types.None[host.Owner]()
}

func (h handle) Field(pointer string) types.Option[string] {
	value, ok := at(h.manifest, pointer)
	if !ok {
		return types.None[string]()
	}
	return types.Some(jsonOf(value))
}

func (h handle) Text(pointer string) types.Option[string] {
	value, _ := at(h.manifest, pointer)
	if text, ok := value.(string); ok {
		return types.Some(text)
	}
	return h.Field(pointer)
}

func (h handle) Fields(pointers []string) []types.Option[string] { return each(pointers, h.Field) }
func (h handle) Texts(pointers []string) []types.Option[string]  { return each(pointers, h.Text) }

func each(pointers []string, read func(string) types.Option[string]) []types.Option[string] {
	values := make([]types.Option[string], len(pointers))
	for i, pointer := range pointers {
		values[i] = read(pointer)
	}
	return values
}
