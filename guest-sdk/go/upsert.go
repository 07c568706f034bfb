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
	// WasCreated: the object was not there.
	WasCreated Change = "created"
	// WasUpdated: it was there and different.
	WasUpdated Change = "updated"
	// WasUnchanged: it was there as wanted, so no request was made.
	WasUnchanged Change = "unchanged"
)

// CreateOrUpdate makes an object as mutate wants it, like the function of this name in controller-runtime. present is what the cache has,
// or nil; into is a pointer to a struct. Where nothing is present, mutate starts from what is in the struct (a type, a name, a namespace);
// else from the present object, read into it. Nothing is sent when mutate changes nothing.
//
// The struct may know only a part of the object: what it has no field for stays as it is, also in the elements of a list, as long as
// mutate neither adds nor removes elements of it.
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

// overlay is whole with what differs between before and after, which are what a struct knows of it.
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
			if _, stays := after[name]; !stays {
				delete(whole, name)
			}
		}
		for name, value := range after {
			present, isThere := whole[name]
			old, wasThere := before[name]
			switch {
			case isThere:
				whole[name] = overlay(present, old, value)
			case !wasThere || !reflect.DeepEqual(old, value):
				// A zero value that the struct writes and the object never had is no change.
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

// unmarshalNumbers keeps numbers as they are written: a large integer must not come back as a float.
func unmarshalNumbers(text string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("there is more after the end of the JSON")
	}
	return nil
}
