package sdk

import (
	"encoding/json"
	"fmt"
	"iter"

	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/host"
)

// Client sends requests to the API server. Each is one round trip, must be covered by the descriptor's Writes and the operator's grant, and
// is not repeated by itself: return the error, and the host tries again with backoff. What it writes is in the plugin's own cache reads at
// once.
//
// Objects to write are anything that encoding/json makes a manifest of: structs of the author's own or of k8s.io/api, maps, or
// json.RawMessage.
type Client struct {
	ctx *Context
}

// An Option narrows a request.
type Option func(*options)

type options struct {
	subresource  string
	force        bool
	fieldManager string
}

func collect(given []Option) options {
	var all options
	for _, option := range given {
		option(&all)
	}
	return all
}

// Subresource addresses "status", "scale", "eviction" … in place of the object.
func Subresource(name string) Option { return func(o *options) { o.subresource = name } }

// Force makes a server-side apply take fields over from other managers, in place of a conflict: what Kubernetes recommends to controllers.
func Force() Option { return func(o *options) { o.force = true } }

// FieldManager applies under this name in place of the plugin's own: NAME/ and more, where NAME is the plugin's. Any other is invalid.
func FieldManager(name string) Option { return func(o *options) { o.fieldManager = name } }

// Get is the object as the server has it now. The cache is free by comparison.
func (c Client) Get(target Type, key Key, options ...Option) (*Object, error) {
	object, err := host.Current.ClientGet(target.wit(), host.Key(key), collect(options).subresource)
	return c.answer(object, err)
}

// ListOptions say which objects of a kind; the zero ListOptions are all of them. The server judges.
type ListOptions struct {
	Namespace     string
	LabelSelector string
	FieldSelector string
	// At most so many in a page; the host never gives more than 500.
	PageSize int
	// The Next of the page before.
	After string
}

func (o ListOptions) wit() host.ListOptions {
	return host.ListOptions{Namespace: o.Namespace, LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector,
		Limit: uint32(o.PageSize), Cursor: o.After}
}

// All is a loop over the objects as the server has them now, a request for each page. Each object is closed at the end of the loop's step.
// An error is the last step, with a nil object; one with code 410 means to begin again.
func (c Client) All(target Type, options ListOptions) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		for {
			handles, next, err := host.Current.ClientList(target.wit(), options.wit())
			if err != nil {
				yield(nil, apiError(err))
				return
			}
			if !each(handles, func(object *Object) bool { return yield(object, nil) }) || next == "" {
				return
			}
			options.After = next
		}
	}
}

// List is one page of objects as the server has them now, which stay open until the end of the call.
func (c Client) List(target Type, options ListOptions) (Page, error) {
	handles, next, err := host.Current.ClientList(target.wit(), options.wit())
	if err != nil {
		return Page{}, apiError(err)
	}
	return Page{Items: c.ctx.holdAll(handles), Next: next}, nil
}

// Create creates an object and returns it as stored. With a subresource, it posts to it.
func (c Client) Create(object any, options ...Option) (*Object, error) {
	manifest, err := encode(object)
	if err != nil {
		return nil, err
	}
	stored, refused := host.Current.ClientCreate(manifest, collect(options).subresource)
	return c.answer(stored, refused)
}

// Update replaces an object, whole: what the struct has no field for is removed. Where the struct knows only a part of the object, use
// [CreateOrUpdate], [Client.Patch] or [Client.Apply]. The resourceVersion in it guards against changes in between.
func (c Client) Update(object any, options ...Option) (*Object, error) {
	manifest, err := encode(object)
	if err != nil {
		return nil, err
	}
	stored, refused := host.Current.ClientUpdate(manifest, collect(options).subresource)
	return c.answer(stored, refused)
}

// UpdateStatus is Update of the status alone; everything else in the object is ignored.
func (c Client) UpdateStatus(object any) (*Object, error) {
	return c.Update(object, Subresource("status"))
}

// Patch changes an object. [Force] and [FieldManager] are for an [ApplyPatch].
func (c Client) Patch(target Type, key Key, patch Patch, options ...Option) (*Object, error) {
	body, err := encode(patch.body)
	if err != nil {
		return nil, err
	}
	wanted, kind := collect(options), patch.kind
	if patch.apply {
		kind = pilothouse_controller_client.MakePatchTypeApply(pilothouse_controller_client.ApplyOptions{
			FieldManager: wanted.fieldManager, Force: wanted.force})
	}
	stored, refused := host.Current.ClientPatch(target.wit(), host.Key(key), kind, body, wanted.subresource)
	return c.answer(stored, refused)
}

// Apply is a server-side apply: states what this plugin wants of the object, and creates it where it is absent. Fields that are left out
// are not this plugin's. Without [Force], a field that another manager owns is an [ErrConflict].
func (c Client) Apply(object any, options ...Option) (*Object, error) {
	manifest, err := tree(object)
	if err != nil {
		return nil, err
	}
	// A version would be a precondition, and the server refuses managed fields in an apply.
	metadata, _ := manifest["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	delete(metadata, "managedFields")
	target, key := Type{text(manifest, "apiVersion"), text(manifest, "kind")}, Key{text(metadata, "namespace"), text(metadata, "name")}
	if target.APIVersion == "" || target.Kind == "" || key.Name == "" {
		return nil, fmt.Errorf("an object to apply needs apiVersion, kind and metadata.name; this one has %q, %q and %q",
			target.APIVersion, target.Kind, key.Name)
	}
	return c.Patch(target, key, ApplyPatch(manifest), options...)
}

// Propagation says what happens to the objects that a deleted one owns.
type Propagation uint8

// The propagations.
const (
	// Background: they are deleted afterwards.
	Background Propagation = iota
	// Foreground: they are deleted first.
	Foreground
	// Orphan: they stay.
	Orphan
)

// DeleteOptions say how an object is deleted, and which state of it.
type DeleteOptions struct {
	Propagation Propagation
	// Only the object that was read, not a later one of the same name.
	UID string
	// Only the state that was read.
	ResourceVersion string
}

// Delete asks for an object's deletion; finalizers may hold it afterwards. An ErrConflict: it is not the state that was named.
func (c Client) Delete(target Type, key Key, options DeleteOptions) error {
	return apiError(host.Current.ClientDelete(target.wit(), host.Key(key), host.DeleteOptions{
		Propagation: uint8(options.Propagation), Uid: options.UID, ResourceVersion: options.ResourceVersion}))
}

func (c Client) answer(handle host.Object, err *host.APIError) (*Object, error) {
	if err != nil {
		return nil, apiError(err)
	}
	return c.ctx.hold(handle), nil
}

func encode(object any) (string, error) {
	manifest, err := json.Marshal(object)
	if err != nil {
		return "", Terminal(fmt.Errorf("%T cannot be written as JSON: %w", object, err))
	}
	return string(manifest), nil
}

// tree is a manifest as maps, lists and values.
func tree(object any) (map[string]any, error) {
	manifest, err := encode(object)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	if err := unmarshalNumbers(manifest, &members); err != nil {
		return nil, Terminal(fmt.Errorf("%T is no object in JSON: %w", object, err))
	}
	return members, nil
}

func text(members map[string]any, name string) string {
	value, _ := members[name].(string)
	return value
}
