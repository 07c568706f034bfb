package sdk

import (
	"encoding/json"
	"fmt"
	"strings"

	"pilothouse.dev/sdk/internal/host"
	"pilothouse.dev/sdk/internal/wit/runtime"
)

// Object is one state of one object, held by the host: immutable, so what is read never changes while it is held.
//
// Reading a field copies that field and nothing else. It is closed at the end of the call that got it, or, in a loop over an iterator, at
// the end of the loop's step; [Object.Close] does so earlier.
type Object struct {
	handle host.Object
}

// OwnerInfo is the owner that controls an object.
type OwnerInfo struct {
	APIVersion string
	Kind       string
	// It lives in the object's namespace, or in none.
	Name string
	UID  string
}

// Key is its namespace and name.
func (o *Object) Key() Key {
	defer runtime.Unpin()
	return Key(o.handle.Key())
}

// APIVersion is as in a manifest: "apps/v1".
func (o *Object) APIVersion() string {
	defer runtime.Unpin()
	return o.handle.ApiVersion()
}

// Kind is as in a manifest: "Deployment".
func (o *Object) Kind() string {
	defer runtime.Unpin()
	return o.handle.Kind()
}

// Type is its API version and kind.
func (o *Object) Type() Type { return Type{o.APIVersion(), o.Kind()} }

// UID is metadata.uid; empty for an object that has none.
func (o *Object) UID() string {
	defer runtime.Unpin()
	return o.handle.Uid()
}

// ResourceVersion is metadata.resourceVersion: opaque.
func (o *Object) ResourceVersion() string {
	defer runtime.Unpin()
	return o.handle.ResourceVersion()
}

// Generation is metadata.generation; 0 for an object that has none.
func (o *Object) Generation() uint32 { return o.handle.Generation() }

// Labels are all labels.
func (o *Object) Labels() map[string]string {
	defer runtime.Unpin()
	labels := map[string]string{}
	for _, pair := range o.handle.Labels() {
		labels[pair.Key] = pair.Value
	}
	return labels
}

// Label is the value of one label.
func (o *Object) Label(key string) (value string, ok bool) {
	defer runtime.Unpin()
	return o.handle.Label(key).Get()
}

// Annotation is the value of one annotation.
func (o *Object) Annotation(key string) (value string, ok bool) {
	defer runtime.Unpin()
	return o.handle.Annotation(key).Get()
}

// DeletionTimestamp is metadata.deletionTimestamp, in RFC 3339: deletion was asked for, and finalizers hold the object.
func (o *Object) DeletionTimestamp() (timestamp string, ok bool) {
	defer runtime.Unpin()
	return o.handle.DeletionTimestamp().Get()
}

// IsBeingDeleted says whether deletion was asked for.
func (o *Object) IsBeingDeleted() bool {
	_, deleted := o.DeletionTimestamp()
	return deleted
}

// Controller is the owner that controls it.
func (o *Object) Controller() (owner OwnerInfo, ok bool) {
	defer runtime.Unpin()
	info, ok := o.handle.Controller().Get()
	return OwnerInfo{APIVersion: info.ApiVersion, Kind: info.Kind, Name: info.Name, UID: info.Uid}, ok
}

// Field is the JSON at an RFC 6901 pointer: `3`, `"web"` with its quotes. Only this value is copied.
func (o *Object) Field(pointer string) (value json.RawMessage, ok bool) {
	defer runtime.Unpin()
	text, ok := o.handle.Field(pointer).Get()
	return json.RawMessage(text), ok
}

// Text is like Field, but a string comes without quotes and escapes: `web`.
func (o *Object) Text(pointer string) (value string, ok bool) {
	defer runtime.Unpin()
	return o.handle.Text(pointer).Get()
}

// Fields is like Field at several pointers (at most 64), in one call in place of many; nil where nothing is.
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

// Texts is like Text at several pointers (at most 64), in one call in place of many; nil where nothing is.
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

// DecodeField reads the value at an RFC 6901 pointer; found is false, and the variable untouched, when nothing is there.
func (o *Object) DecodeField(pointer string, into any) (found bool, err error) {
	defer runtime.Unpin()
	text, ok := o.handle.Field(pointer).Get()
	if !ok {
		return false, nil
	}
	return true, decode(text, into, func() string { return pointer + " of " + o.String() })
}

// JSON is the whole object. Copies it all: prefer [Object.Text] and [Object.DecodeField] for a few values.
func (o *Object) JSON() string {
	defer runtime.Unpin()
	return o.handle.Json()
}

// Decode reads the whole object into a struct with json tags: the author's own, or one of k8s.io/api.
func (o *Object) Decode(into any) error { return decode(o.JSON(), into, o.String) }

// String is "apps/v1 Deployment default/web".
func (o *Object) String() string { return fmt.Sprintf("%s %s", o.Type(), o.Key()) }

// WrapObject is for the SDK's own packages: it makes an object of a handle.
func WrapObject(handle host.Object) *Object { return &Object{handle} }

// Close gives the object back to the host. The SDK does it at the end of the call.
func (o *Object) Close() { o.handle.Drop() }

func decode(text string, into any, what func() string) error {
	err := json.Unmarshal([]byte(text), into)
	if err == nil {
		return nil
	}
	return &DecodeError{What: what(), Into: strings.TrimPrefix(fmt.Sprintf("%T", into), "*"), Err: err}
}
