package sdk

import (
	"errors"
	"fmt"
	"slices"
)

// WithFinalizer calls apply while the object exists and cleanup once it is being deleted, and maintains the finalizer: it is added before the
// first apply and removed after a successful cleanup. name has the form of a qualified label key: "example.com/cleanup". The plugin must be
// allowed to patch the object.
//
// Both functions receive the object, with the finalizer. Use this one from then on: adding the finalizer changes the resource version, so an
// update of the argument itself would conflict.
//
// A conflict means that the object changed in the meantime; the retry sees the change.
func WithFinalizer(ctx *Context, object *Object, name string, apply, cleanup func(*Object) (Result, error)) (Result, error) {
	if !object.IsBeingDeleted() {
		held, err := AddFinalizer(ctx, object, name)
		if err != nil {
			return Result{}, err
		}
		return apply(held)
	}
	present, err := hasFinalizer(object, name)
	if err != nil || !present {
		// The object is being deleted without this finalizer: no new work may be started.
		return Result{}, err
	}
	result, err := cleanup(object)
	if err != nil {
		return result, err
	}
	return result, RemoveFinalizer(ctx, object, name)
}

// AddFinalizer adds a finalizer to an object, unless it has it already, and returns the object as stored.
func AddFinalizer(ctx *Context, object *Object, name string) (*Object, error) {
	finalizers, err := finalizersOf(object)
	if err != nil || slices.Contains(finalizers, name) {
		return object, err
	}
	return setFinalizers(ctx, object, append(finalizers, name))
}

// RemoveFinalizer removes a finalizer from an object, if it has it.
func RemoveFinalizer(ctx *Context, object *Object, name string) error {
	finalizers, err := finalizersOf(object)
	if err != nil || !slices.Contains(finalizers, name) {
		return err
	}
	_, err = setFinalizers(ctx, object, slices.DeleteFunc(finalizers, func(present string) bool { return present == name }))
	if errors.Is(err, ErrNotFound) {
		return nil // Another client removed the last finalizer, and the object is gone, as intended.
	}
	return err
}

func hasFinalizer(object *Object, name string) (bool, error) {
	finalizers, err := finalizersOf(object)
	return slices.Contains(finalizers, name), err
}

func finalizersOf(object *Object) (finalizers []string, err error) {
	_, err = object.DecodeField("/metadata/finalizers", &finalizers)
	return finalizers, err
}

// setFinalizers replaces the list by a merge patch, and returns the object as stored. The patch includes the resource version that the list was
// read at, so that a concurrent change causes a conflict instead of being lost.
func setFinalizers(ctx *Context, object *Object, finalizers []string) (*Object, error) {
	patch := MergePatch(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": object.ResourceVersion()}})
	stored, err := ctx.Client().Patch(object.Type(), object.Key(), patch)
	if err != nil {
		return nil, fmt.Errorf("change the finalizers of %s: %w", object.Key(), err)
	}
	return stored, nil
}
