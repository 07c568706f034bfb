package sdk

import (
	"encoding/json"
	"fmt"
	"iter"

	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/types"
)

// Cache reads the objects of one watch from the host's memory: see [Context.Cache]. No method sends a request to the API server. The plugin's
// own writes are visible immediately; everything else is as fresh as the watch.
type Cache struct {
	ctx   *Context
	watch string
}

// Query selects objects of a watch; the zero Query selects all of them.
type Query struct {
	// Only objects in this namespace; empty for all namespaces.
	Namespace string
	// A label selector in kubectl's syntax: "app=web,tier in (a, b)"; empty for all.
	Labels string
	// The maximum number of objects per page: never more than 500, which is also the default.
	PageSize int
	// Where to continue: empty for the start, otherwise the Next of the previous page.
	After string
}

func (q Query) wit() host.Filter {
	return host.Filter{Namespace: q.Namespace, LabelSelector: q.Labels, Limit: uint32(q.PageSize), Cursor: q.After}
}

// Page is one page of a list.
type Page struct {
	// The objects, ordered by namespace, then name.
	Items []*Object
	// The cursor of the next page; empty after the last page.
	Next string
}

// Row has the values that [Cache.Fields] read from one object, one per pointer.
type Row struct {
	Key    Key
	values []types.Option[string]
}

// Value returns the JSON at the pointer with this index.
func (r Row) Value(position int) (value json.RawMessage, ok bool) {
	text, ok := r.values[position].Get()
	return json.RawMessage(text), ok
}

// Decode reads the value at the pointer with this index into a variable; found is false when nothing is there.
func (r Row) Decode(position int, into any) (found bool, err error) {
	text, ok := r.values[position].Get()
	if !ok {
		return false, nil
	}
	return true, decode(text, into, func() string { return fmt.Sprintf("value %d of %s", position, r.Key) })
}

// Get returns the object with this key, or nil when the watch does not contain it.
func (c Cache) Get(key Key) *Object {
	return c.ctx.hold(host.Current.CacheGet(c.watch, host.Key(key)))
}

// Read reads the object with this key into a struct; found is false when the watch does not contain it.
func (c Cache) Read(key Key, into any) (found bool, err error) {
	object := c.Get(key)
	if object == nil {
		return false, nil
	}
	return true, object.Decode(into)
}

// All iterates over the objects of a query, reading page by page. Each object is closed at the end of its iteration.
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

// Page returns one page of objects, which stay open until the end of the call.
func (c Cache) Page(query Query) Page {
	handles, next := host.Current.CacheList(c.watch, query.wit())
	return Page{Items: c.ctx.holdAll(handles), Next: next}
}

// Fields returns the values at JSON pointers (RFC 6901, at most 64) of many objects in one call, without copying the objects.
func (c Cache) Fields(query Query, pointers ...string) []Row {
	rows := host.Current.CacheListFields(c.watch, query.wit(), pointers)
	all := make([]Row, len(rows))
	for i, row := range rows {
		all[i] = Row{Key: Key(row.Key), values: row.Values}
	}
	return all
}

// ByIndex returns all objects with this value in a declared index.
func (c Cache) ByIndex(index, value string) []*Object {
	return c.ctx.holdAll(host.Current.CacheByIndex(c.watch, index, value))
}

// IndexKeys returns the keys of the objects with this index value, without reading the objects.
func (c Cache) IndexKeys(index, value string) []Key {
	keys := host.Current.CacheIndexKeys(c.watch, index, value)
	all := make([]Key, len(keys))
	for i, key := range keys {
		all[i] = Key(key)
	}
	return all
}

// IndexValues returns all values of an index that at least one object has, sorted.
func (c Cache) IndexValues(index string) []string {
	return host.Current.CacheIndexValues(c.watch, index)
}

// HasSynced returns whether the watch's initial list is complete in the cache. Always true in Reconcile; an observer may see it become true.
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
