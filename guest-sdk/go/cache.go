package sdk

import (
	"encoding/json"
	"fmt"
	"iter"

	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

// Cache is the objects of one watch, in the host's memory. No read here reaches the API server. Reads include this plugin's own writes at
// once; everything else is as fresh as the watch.
type Cache struct {
	ctx   *Context
	watch string
}

// Query says which objects of a watch; the zero Query is all of them.
type Query struct {
	// Empty for all namespaces.
	Namespace string
	// In kubectl's syntax: "app=web,tier in (a, b)".
	Labels string
	// At most so many in a page; the host never gives more than 500.
	PageSize int
	// The Next of the page before.
	After string
}

func (q Query) wit() host.Filter {
	return host.Filter{Namespace: q.Namespace, LabelSelector: q.Labels, Limit: uint32(q.PageSize), Cursor: q.After}
}

// Page is a part of a list.
type Page struct {
	// In the order of namespace and name.
	Items []*Object
	// Where to go on; empty after the last page.
	Next string
}

// Row is values of one object, one per pointer asked for.
type Row struct {
	Key    Key
	values []types.Option[string]
}

// Value is the JSON at the pointer that was given at this position.
func (r Row) Value(position int) (value json.RawMessage, ok bool) {
	text, ok := r.values[position].Get()
	return json.RawMessage(text), ok
}

// Decode reads the value at the pointer that was given at this position; found is false when nothing is there.
func (r Row) Decode(position int, into any) (found bool, err error) {
	text, ok := r.values[position].Get()
	if !ok {
		return false, nil
	}
	return true, decode(text, into, func() string { return fmt.Sprintf("value %d of %s", position, r.Key) })
}

// Get is the object with this key; nil when the watch does not have it.
func (c Cache) Get(key Key) *Object {
	return c.ctx.hold(host.Current.CacheGet(c.watch, host.Key(key)))
}

// Read reads the object with this key into a struct; found is false when the watch does not have it.
func (c Cache) Read(key Key, into any) (found bool, err error) {
	object := c.Get(key)
	if object == nil {
		return false, nil
	}
	return true, object.Decode(into)
}

// All is a loop over the objects of a query, page by page behind the scenes. Each object is closed at the end of the loop's step.
func (c Cache) All(query Query) iter.Seq2[Key, *Object] {
	return func(yield func(Key, *Object) bool) {
		for {
			handles, next := host.Current.CacheList(c.watch, query.wit())
			if !each(handles, func(object *Object) bool { return yield(object.Key(), object) }) || next == "" {
				return
			}
			query.After = next
		}
	}
}

// Page is one page of objects, which stay open until the end of the call.
func (c Cache) Page(query Query) Page {
	handles, next := host.Current.CacheList(c.watch, query.wit())
	return Page{Items: c.ctx.holdAll(handles), Next: next}
}

// Fields are values at RFC 6901 pointers (at most 64) of many objects in one call: no object is copied.
func (c Cache) Fields(query Query, pointers ...string) []Row {
	rows := host.Current.CacheListFields(c.watch, query.wit(), pointers)
	all := make([]Row, len(rows))
	for i, row := range rows {
		all[i] = Row{Key: Key(row.Key), values: row.Values}
	}
	return all
}

// ByIndex is all objects with this value in a declared index.
func (c Cache) ByIndex(index, value string) []*Object {
	return c.ctx.holdAll(host.Current.CacheByIndex(c.watch, index, value))
}

// IndexKeys are the keys of the objects with this index value: no object is read.
func (c Cache) IndexKeys(index, value string) []Key {
	keys := host.Current.CacheIndexKeys(c.watch, index, value)
	all := make([]Key, len(keys))
	for i, key := range keys {
		all[i] = Key(key)
	}
	return all
}

// IndexValues are the values that at least one object has, in order.
func (c Cache) IndexValues(index string) []string {
	return host.Current.CacheIndexValues(c.watch, index)
}

// HasSynced says whether the watch's first list has been taken in whole. Always true inside Reconcile.
func (c Cache) HasSynced() bool { return host.Current.CacheHasSynced(c.watch) }

// List reads all objects of a query into structs.
func List[T any](cache Cache, query Query) ([]T, error) {
	var all []T
	for _, object := range cache.All(query) {
		var value T
		if err := object.Decode(&value); err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}
