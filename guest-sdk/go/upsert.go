package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Change is what [CreateOrUpdate] did.
type Change string

// The changes.
const (
	// WasCreated: the object did not exist and was created.
	WasCreated Change = "created"
	// WasUpdated: the object existed, differed and was updated.
	WasUpdated Change = "updated"
	// WasUnchanged: the object was already as desired; no request was sent.
	WasUnchanged Change = "unchanged"
)

// CreateOrUpdate creates or updates an object, like the function of this name in controller-runtime. present is the object that the cache holds,
// or nil; into is a pointer to a struct. mutate brings the struct to its desired state: without a present object it starts from the struct's
// contents (at least a type, a name and a namespace), otherwise from the present object, which is read into the struct. Nothing is sent when
// mutate changes nothing in a present object. Afterwards the struct has the object as stored.
//
// The struct may have only some of the object's fields. The others are kept, also in the elements of a list, as long as mutate neither adds
// nor removes elements of that list.
func CreateOrUpdate[T any](ctx *Context, present *Object, into *T, mutate func() error) (Change, error) {
	if present == nil {
		if err := mutate(); err != nil {
			return WasUnchanged, err
		}
		stored, err := ctx.Client().Create(into)
		if err != nil {
			return WasUnchanged, err
		}
		return WasCreated, stored.Decode(into)
	}
	var fresh T
	*into = fresh
	whole := present.JSON()
	if err := decode(whole, into, present.String); err != nil {
		return WasUnchanged, err
	}
	before, err := tree(into)
	if err != nil {
		return WasUnchanged, err
	}
	if err := mutate(); err != nil {
		return WasUnchanged, err
	}
	after, err := tree(into)
	if err != nil {
		return WasUnchanged, err
	}
	if reflect.DeepEqual(before, after) {
		return WasUnchanged, nil
	}
	var manifest any
	if err := unmarshalNumbers(whole, &manifest); err != nil {
		return WasUnchanged, err
	}
	stored, err := ctx.Client().Update(overlay(manifest, before, after))
	if err != nil {
		return WasUnchanged, err
	}
	return WasUpdated, stored.Decode(into)
}

// overlay returns whole with the changes from before to after, which have the fields of whole that a struct has.
func overlay(whole, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return whole
	}
	switch after := after.(type) {
	case map[string]any:
		whole, isMap := whole.(map[string]any)
		before, wasMap := before.(map[string]any)
		if !isMap || !wasMap {
			return after
		}
		for name := range before {
			if _, remains := after[name]; !remains {
				delete(whole, name)
			}
		}
		for name, value := range after {
			present, isPresent := whole[name]
			old, wasPresent := before[name]
			switch {
			case isPresent:
				whole[name] = overlay(present, old, value)
			case !wasPresent || !reflect.DeepEqual(old, value):
				// A zero value that the struct encodes but the object never had is not a change.
				whole[name] = value
			}
		}
		return whole
	case []any:
		whole, isList := whole.([]any)
		before, wasList := before.([]any)
		if !isList || !wasList || len(before) != len(after) || len(whole) != len(after) {
			return after
		}
		for i := range after {
			whole[i] = overlay(whole[i], before[i], after[i])
		}
		return whole
	default:
		return after
	}
}

// unmarshalNumbers decodes JSON and keeps numbers as they are written, so that a large integer does not become a float.
func unmarshalNumbers(text string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("unexpected data after the end of the JSON")
	}
	return nil
}
