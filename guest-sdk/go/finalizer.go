package sdk

import (
	"errors"
	"fmt"
	"slices"
)

// WithFinalizer runs the part of the work that the object's state asks for, and keeps the finalizer accordingly: it is there before the
// first run of apply, and goes after cleanup has succeeded. name looks like a qualified label key: "example.com/cleanup". The plugin must be
// allowed to patch the object.
//
// A conflict means that the object changed meanwhile; the retry sees it.
func WithFinalizer(ctx *Context, object *Object, name string, apply, cleanup func() (Result, error)) (Result, error) {
	held, err := hasFinalizer(object, name)
	if err != nil {
		return Result{}, err
	}
	if !object.IsBeingDeleted() {
		if !held {
			if err := AddFinalizer(ctx, object, name); err != nil {
				return Result{}, err
			}
		}
		return apply()
	}
	if !held {
		// Nothing may be started any more.
		return Result{}, nil
	}
	result, err := cleanup()
	if err != nil {
		return result, err
	}
	return result, RemoveFinalizer(ctx, object, name)
}

// AddFinalizer adds the finalizer to an object that does not have it.
func AddFinalizer(ctx *Context, object *Object, name string) error {
	finalizers, err := finalizersOf(object)
	if err != nil || slices.Contains(finalizers, name) {
		return err
	}
	return setFinalizers(ctx, object, append(finalizers, name))
}

// RemoveFinalizer removes the finalizer from an object that has it.
func RemoveFinalizer(ctx *Context, object *Object, name string) error {
	finalizers, err := finalizersOf(object)
	if err != nil || !slices.Contains(finalizers, name) {
		return err
	}
	err = setFinalizers(ctx, object, slices.DeleteFunc(finalizers, func(present string) bool { return present == name }))
	if errors.Is(err, ErrNotFound) {
		return nil // Somebody else removed the last finalizer: it is gone, as intended.
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

// setFinalizers sends a merge patch, which replaces the list whole, so it names the version that the list was read from: a change by
// somebody else in between is a conflict, not lost.
func setFinalizers(ctx *Context, object *Object, finalizers []string) error {
	patch := MergePatch(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": object.ResourceVersion()}})
	if _, err := ctx.Client().Patch(object.Type(), object.Key(), patch); err != nil {
		return fmt.Errorf("change the finalizers of %s: %w", object.Key(), err)
	}
	return nil
}
