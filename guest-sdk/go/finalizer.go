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
// A conflict means that the object changed in the meantime; the retry sees the change.
func WithFinalizer(ctx *Context, object *Object, name string, apply, cleanup func() (Result, error)) (Result, error) {
	present, err := hasFinalizer(object, name)
	if err != nil {
		return Result{}, err
	}
	if !object.IsBeingDeleted() {
		if !present {
			if err := AddFinalizer(ctx, object, name); err != nil {
				return Result{}, err
			}
		}
		return apply()
	}
	if !present {
		// The object is being deleted without this finalizer: no new work may be started.
		return Result{}, nil
	}
	result, err := cleanup()
	if err != nil {
		return result, err
	}
	return result, RemoveFinalizer(ctx, object, name)
}

// AddFinalizer adds a finalizer to an object, unless it has it already.
func AddFinalizer(ctx *Context, object *Object, name string) error {
	finalizers, err := finalizersOf(object)
	if err != nil || slices.Contains(finalizers, name) {
		return err
	}
	return setFinalizers(ctx, object, append(finalizers, name))
}

// RemoveFinalizer removes a finalizer from an object, if it has it.
func RemoveFinalizer(ctx *Context, object *Object, name string) error {
	finalizers, err := finalizersOf(object)
	if err != nil || !slices.Contains(finalizers, name) {
		return err
	}
	err = setFinalizers(ctx, object, slices.DeleteFunc(finalizers, func(present string) bool { return present == name }))
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

// setFinalizers replaces the list by a merge patch. The patch includes the resource version that the list was read at, so that a concurrent
// change causes a conflict instead of being lost.
func setFinalizers(ctx *Context, object *Object, finalizers []string) error {
	patch := MergePatch(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": object.ResourceVersion()}})
	if _, err := ctx.Client().Patch(object.Type(), object.Key(), patch); err != nil {
		return fmt.Errorf("change the finalizers of %s: %w", object.Key(), err)
	}
	return nil
}
