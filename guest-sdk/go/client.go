package sdk

import (
	"encoding/json"
	"fmt"
	"iter"

	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/host"
)

// Client sends requests to the API server: see [Context.Client].
//
// Each method sends one request and waits for the answer. The request must be covered by the descriptor's Writes and by the operator's grant.
// No method retries: return the error, and the host retries with backoff. What the plugin writes is visible in its cache reads immediately.
//
// Objects to write are values that encoding/json encodes as a manifest: your own structs, those of k8s.io/api, maps, or json.RawMessage.
type Client struct {
	ctx *Context
}

// An Option modifies a request.
type Option func(*options)

type options struct {
	subresource  string
	force        bool
	fieldManager string
}

func collect(list []Option) options {
	var all options
	for _, option := range list {
		option(&all)
	}
	return all
}

// Subresource addresses a subresource instead of the object: "status", "scale", "eviction".
func Subresource(name string) Option { return func(o *options) { o.subresource = name } }

// Force makes a server-side apply take over fields that other managers own, instead of failing with a conflict. Kubernetes recommends it for
// controllers.
func Force() Option { return func(o *options) { o.force = true } }

// FieldManager sets the field manager of a server-side apply instead of the plugin's name. It must be the plugin's name, a slash and a suffix;
// any other is an ErrInvalid.
func FieldManager(name string) Option { return func(o *options) { o.fieldManager = name } }

// Get returns the current object from the server. [Cache.Get] sends no request.
func (c Client) Get(target Type, key Key, options ...Option) (*Object, error) {
	object, err := host.Current.ClientGet(target.wit(), host.Key(key), collect(options).subresource)
	return c.result(object, err)
}

// ListOptions selects objects of a kind; the zero ListOptions selects all of them. The server evaluates the selectors.
type ListOptions struct {
	Namespace     string
	LabelSelector string
	FieldSelector string
	// The maximum number of objects per page: never more than 500, which is also the default.
	PageSize int
	// Where to continue: empty for the start, otherwise the Next of the previous page.
	After string
}

func (o ListOptions) wit() host.ListOptions {
	return host.ListOptions{Namespace: o.Namespace, LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector,
		Limit: uint32(o.PageSize), Cursor: o.After}
}

// All iterates over the current objects on the server, with one request per page. Each object is closed at the end of its iteration. An error
// ends the loop: it comes with a nil object. After a [StatusError] with code 410 start again without a cursor.
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

// List returns one page of the current objects from the server, which stay open until the end of the call.
func (c Client) List(target Type, options ListOptions) (Page, error) {
	handles, next, err := host.Current.ClientList(target.wit(), options.wit())
	if err != nil {
		return Page{}, apiError(err)
	}
	return Page{Items: c.ctx.holdAll(handles), Next: next}, nil
}

// Create creates an object and returns it as stored. With [Subresource], it posts the object to the subresource.
func (c Client) Create(object any, options ...Option) (*Object, error) {
	manifest, err := encode(object)
	if err != nil {
		return nil, err
	}
	stored, apiErr := host.Current.ClientCreate(manifest, collect(options).subresource)
	return c.result(stored, apiErr)
}

// Update replaces the whole object and returns it as stored. Fields that the struct does not have are removed: if the struct has only some of
// the object's fields, use [CreateOrUpdate], [Client.Patch] or [Client.Apply]. The object's resourceVersion protects concurrent changes.
func (c Client) Update(object any, options ...Option) (*Object, error) {
	manifest, err := encode(object)
	if err != nil {
		return nil, err
	}
	stored, apiErr := host.Current.ClientUpdate(manifest, collect(options).subresource)
	return c.result(stored, apiErr)
}

// UpdateStatus is like Update, but replaces only the status; the server ignores the rest of the object.
func (c Client) UpdateStatus(object any) (*Object, error) {
	return c.Update(object, Subresource("status"))
}

// Patch patches an object and returns it as stored. [Force] and [FieldManager] apply to an [ApplyPatch].
func (c Client) Patch(target Type, key Key, patch Patch, options ...Option) (*Object, error) {
	body, err := encode(patch.body)
	if err != nil {
		return nil, err
	}
	given, kind := collect(options), patch.kind
	if patch.apply {
		kind = pilothouse_controller_client.MakePatchTypeApply(pilothouse_controller_client.ApplyOptions{
			FieldManager: given.fieldManager, Force: given.force})
	}
	stored, apiErr := host.Current.ClientPatch(target.wit(), host.Key(key), kind, body, given.subresource)
	return c.result(stored, apiErr)
}

// Apply applies an object server-side and returns it as stored: the plugin owns the fields that are set, and gives up those that it leaves out.
// Creates the object when it does not exist. Without [Force], a field that another manager owns causes an [ErrConflict].
func (c Client) Apply(object any, options ...Option) (*Object, error) {
	manifest, err := tree(object)
	if err != nil {
		return nil, err
	}
	// A version would be a precondition, and the server rejects managed fields in an apply.
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

// Propagation says how the garbage collector treats the dependents of a deleted object.
type Propagation uint8

// The propagation policies.
const (
	// Background deletes the dependents after the object.
	Background Propagation = iota
	// Foreground deletes the dependents before the object.
	Foreground
	// Orphan keeps the dependents.
	Orphan
)

// DeleteOptions has the propagation policy and the preconditions of a deletion.
type DeleteOptions struct {
	Propagation Propagation
	// Delete only the object with this UID, not a later one of the same name; empty for any.
	UID string
	// Delete only this version of the object; empty for any.
	ResourceVersion string
}

// Delete requests an object's deletion; finalizers may keep it in existence afterwards. When a precondition of the options does not hold, the
// error is an ErrConflict.
func (c Client) Delete(target Type, key Key, options DeleteOptions) error {
	return apiError(host.Current.ClientDelete(target.wit(), host.Key(key), host.DeleteOptions{
		Propagation: uint8(options.Propagation), Uid: options.UID, ResourceVersion: options.ResourceVersion}))
}

func (c Client) result(handle host.Object, err *host.APIError) (*Object, error) {
	if err != nil {
		return nil, apiError(err)
	}
	return c.ctx.hold(handle), nil
}

func encode(object any) (string, error) {
	manifest, err := json.Marshal(object)
	if err != nil {
		return "", Terminal(fmt.Errorf("%T cannot be encoded as JSON: %w", object, err))
	}
	return string(manifest), nil
}

// tree converts an object to a manifest of maps, lists and values.
func tree(object any) (map[string]any, error) {
	manifest, err := encode(object)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	if err := unmarshalNumbers(manifest, &members); err != nil {
		return nil, Terminal(fmt.Errorf("%T is not a JSON object: %w", object, err))
	}
	return members, nil
}

func text(members map[string]any, name string) string {
	value, _ := members[name].(string)
	return value
}
