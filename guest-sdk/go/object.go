package sdk

import (
	"encoding/json"
	"fmt"
	"strings"

	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/runtime"
)

// Object is a handle to one immutable state of an object that the host holds: what you read never changes while you hold the handle.
//
// Reading a field copies only that field. The handle is closed at the end of the call that opened it or, in a loop over an iterator, at the
// end of the iteration; [Object.Close] closes it earlier.
type Object struct {
	handle host.Object
}

// OwnerInfo is the owner that controls an object.
type OwnerInfo struct {
	APIVersion string
	Kind       string
	// The owner is in the object's namespace, or cluster-scoped.
	Name string
	UID  string
}

// Key returns the object's namespace and name.
func (o *Object) Key() Key {
	defer runtime.Unpin()
	return Key(o.handle.Key())
}

// APIVersion returns the API version, spelled as in a manifest: "apps/v1".
func (o *Object) APIVersion() string {
	defer runtime.Unpin()
	return o.handle.ApiVersion()
}

// Kind returns the kind, spelled as in a manifest: "Deployment".
func (o *Object) Kind() string {
	defer runtime.Unpin()
	return o.handle.Kind()
}

// Type returns the API version and the kind.
func (o *Object) Type() Type { return Type{o.APIVersion(), o.Kind()} }

// UID returns metadata.uid; empty when it is missing.
func (o *Object) UID() string {
	defer runtime.Unpin()
	return o.handle.Uid()
}

// ResourceVersion returns metadata.resourceVersion, an opaque string.
func (o *Object) ResourceVersion() string {
	defer runtime.Unpin()
	return o.handle.ResourceVersion()
}

// Generation returns metadata.generation; 0 when it is missing.
func (o *Object) Generation() uint32 { return o.handle.Generation() }

// Labels returns all labels.
func (o *Object) Labels() map[string]string {
	defer runtime.Unpin()
	labels := map[string]string{}
	for _, pair := range o.handle.Labels() {
		labels[pair.Key] = pair.Value
	}
	return labels
}

// Label returns the value of one label.
func (o *Object) Label(key string) (value string, ok bool) {
	defer runtime.Unpin()
	return o.handle.Label(key).Get()
}

// Annotation returns the value of one annotation.
func (o *Object) Annotation(key string) (value string, ok bool) {
	defer runtime.Unpin()
	return o.handle.Annotation(key).Get()
}

// DeletionTimestamp returns metadata.deletionTimestamp (RFC 3339). It is present once deletion was requested while finalizers keep the object.
func (o *Object) DeletionTimestamp() (timestamp string, ok bool) {
	defer runtime.Unpin()
	return o.handle.DeletionTimestamp().Get()
}

// IsBeingDeleted returns whether deletion was requested while finalizers keep the object.
func (o *Object) IsBeingDeleted() bool {
	_, deleted := o.DeletionTimestamp()
	return deleted
}

// Controller returns the owner that controls the object.
func (o *Object) Controller() (owner OwnerInfo, ok bool) {
	defer runtime.Unpin()
	info, ok := o.handle.Controller().Get()
	return OwnerInfo{APIVersion: info.ApiVersion, Kind: info.Kind, Name: info.Name, UID: info.Uid}, ok
}

// Field returns the JSON at a JSON pointer (RFC 6901): `3`, `"web"` (with the quotes). Only this value is copied.
func (o *Object) Field(pointer string) (value json.RawMessage, ok bool) {
	defer runtime.Unpin()
	text, ok := o.handle.Field(pointer).Get()
	return json.RawMessage(text), ok
}

// Text is like Field, but returns a string without quotes and escapes: `web`.
func (o *Object) Text(pointer string) (value string, ok bool) {
	defer runtime.Unpin()
	return o.handle.Text(pointer).Get()
}

// Fields is like Field for several pointers (at most 64) in one call; nil where nothing is.
func (o *Object) Fields(pointers ...string) []json.RawMessage {
	defer runtime.Unpin()
	values := make([]json.RawMessage, len(pointers))
	for i, value := range o.handle.Fields(pointers) {
		if text, ok := value.Get(); ok {
			values[i] = json.RawMessage(text)
		}
	}
	return values
}

// Texts is like Text for several pointers (at most 64) in one call; nil where nothing is.
func (o *Object) Texts(pointers ...string) []*string {
	defer runtime.Unpin()
	values := make([]*string, len(pointers))
	for i, value := range o.handle.Texts(pointers) {
		if text, ok := value.Get(); ok {
			values[i] = &text
		}
	}
	return values
}

// DecodeField reads the value at a JSON pointer (RFC 6901) into a variable; found is false, and the variable unchanged, when nothing is there.
func (o *Object) DecodeField(pointer string, into any) (found bool, err error) {
	defer runtime.Unpin()
	text, ok := o.handle.Field(pointer).Get()
	if !ok {
		return false, nil
	}
	return true, decode(text, into, func() string { return pointer + " of " + o.String() })
}

// JSON returns the whole object as JSON. Copies all of it; to read a few values, prefer [Object.Text] and [Object.DecodeField].
func (o *Object) JSON() string {
	defer runtime.Unpin()
	return o.handle.Json()
}

// Decode reads the whole object into a struct with json tags: your own, or one of k8s.io/api.
func (o *Object) Decode(into any) error { return decode(o.JSON(), into, o.String) }

// String returns "apps/v1 Deployment default/web".
func (o *Object) String() string { return fmt.Sprintf("%s %s", o.Type(), o.Key()) }

// WrapObject returns the object of a handle. It is for the SDK's own packages.
func WrapObject(handle host.Object) *Object { return &Object{handle} }

// Close closes the handle. The SDK does this at the end of the call.
func (o *Object) Close() { o.handle.Drop() }

func decode(text string, into any, what func() string) error {
	err := json.Unmarshal([]byte(text), into)
	if err == nil {
		return nil
	}
	return &DecodeError{What: what(), Into: strings.TrimPrefix(fmt.Sprintf("%T", into), "*"), Err: err}
}
