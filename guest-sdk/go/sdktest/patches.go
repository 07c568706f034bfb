package sdktest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// errMalformed means that a text is not a JSON Patch.
var errMalformed = errors.New("malformed patch")

// same compares JSON values.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// clone returns a copy of a JSON value.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		members := make(map[string]any, len(value))
		for name, inner := range value {
			members[name] = clone(inner)
		}
		return members
	case []any:
		items := make([]any, len(value))
		for i, inner := range value {
			items[i] = clone(inner)
		}
		return items
	default:
		return value
	}
}

func tokensOf(pointer string) []string {
	tokens := strings.Split(pointer, "/")[1:]
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens
}

func pointerOf(tokens ...string) string {
	var pointer strings.Builder
	for _, token := range tokens {
		pointer.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return pointer.String()
}

// position returns the index that a token names in a list, or -1.
func position(token string) int {
	if strings.Trim(token, "0123456789") != "" {
		return -1
	}
	index, err := strconv.Atoi(token)
	if err != nil {
		return -1
	}
	return index
}

// at returns the value at a JSON pointer (RFC 6901).
func at(value any, pointer string) (any, bool) {
	for _, token := range tokensOf(pointer) {
		switch inner := value.(type) {
		case map[string]any:
			next, ok := inner[token]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			index := position(token)
			if index < 0 || index >= len(inner) {
				return nil, false
			}
			value = inner[index]
		default:
			return nil, false
		}
	}
	return value, true
}

// put sets the value at a JSON pointer in nested objects, which are created as needed.
func put(members map[string]any, pointer string, value any) {
	tokens := tokensOf(pointer)
	for _, token := range tokens[:len(tokens)-1] {
		inner, ok := members[token].(map[string]any)
		if !ok {
			inner = map[string]any{}
			members[token] = inner
		}
		members = inner
	}
	members[tokens[len(tokens)-1]] = value
}

// drop removes the value at a JSON pointer in nested objects, with the objects around it that become empty.
func drop(members map[string]any, pointer string) {
	tokens := tokensOf(pointer)
	inner, isObject := members[tokens[0]].(map[string]any)
	if len(tokens) > 1 {
		if !isObject {
			return
		}
		if drop(inner, pointerOf(tokens[1:]...)); len(inner) > 0 {
			return
		}
	}
	delete(members, tokens[0])
}

// leaves returns the values by pointer. Lists and empty objects count as values.
func leaves(value any) map[string]any {
	found := map[string]any{}
	collectLeaves(value, "", found)
	return found
}

func collectLeaves(value any, pointer string, into map[string]any) {
	members, ok := value.(map[string]any)
	if !ok || len(members) == 0 {
		into[pointer] = value
	}
	for name, inner := range members {
		collectLeaves(inner, pointer+pointerOf(name), into)
	}
}

// merge applies a JSON Merge Patch (RFC 7386).
func merge(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged, ok := target.(map[string]any)
	if !ok {
		merged = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], value)
		}
	}
	return merged
}

// patched applies a JSON Patch (RFC 6902) to a copy of the value.
func patched(value, patch any) (any, error) {
	operations, ok := patch.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: a JSON patch is a list of operations", errMalformed)
	}
	// The document is the member "" of box, so that the whole document can be replaced as well.
	box := map[string]any{"": clone(value)}
	for _, one := range operations {
		operation, _ := one.(map[string]any)
		if err := check(operation); err != nil {
			return nil, err
		}
		if err := perform(box, operation); err != nil {
			return nil, err
		}
	}
	return box[""], nil
}

// The member that each operation needs besides op and path.
var arguments = map[string]string{"add": "value", "replace": "value", "test": "value", "remove": "path", "move": "from", "copy": "from"}

func check(operation map[string]any) error {
	name := text(operation, "op")
	argument, ok := arguments[name]
	if !ok {
		return fmt.Errorf("%w: unknown operation %q", errMalformed, name)
	}
	for _, needed := range []string{"path", argument} {
		if _, ok := operation[needed]; !ok {
			return fmt.Errorf("%w: the operation %s needs %s", errMalformed, name, needed)
		}
	}
	for _, pointer := range []string{text(operation, "path"), text(operation, "from")} {
		if pointer != "" && pointer[0] != '/' {
			return fmt.Errorf("%w: %s is not a JSON pointer", errMalformed, pointer)
		}
	}
	return nil
}

func perform(box map[string]any, operation map[string]any) error {
	name, path, from := text(operation, "op"), text(operation, "path"), text(operation, "from")
	value := operation["value"]
	switch name {
	case "test":
		if found, ok := at(box, "/"+path); !ok || !same(found, value) {
			return fmt.Errorf("the test of %s failed", path)
		}
		return nil
	case "move", "copy":
		found, ok := at(box, "/"+from)
		if !ok {
			return fmt.Errorf("nothing is at %s", from)
		}
		value = found
	}
	removed := map[string]string{"move": from, "remove": path, "replace": path}
	if pointer, ok := removed[name]; ok {
		if err := remove(box, pointer); err != nil || name == "remove" {
			return err
		}
	}
	return add(box, path, clone(value))
}

// container returns the object or list that holds what is at a path, and the last token of the path.
func container(box map[string]any, path string) (any, string, string, error) {
	tokens := append([]string{""}, tokensOf(path)...)
	parent, last := pointerOf(tokens[:len(tokens)-1]...), tokens[len(tokens)-1]
	found, _ := at(box, parent)
	switch found.(type) {
	case map[string]any, []any:
		return found, last, parent, nil
	}
	return nil, "", "", fmt.Errorf("nothing is at %s", path)
}

func add(box map[string]any, path string, value any) error {
	found, last, parent, err := container(box, path)
	if err != nil {
		return err
	}
	items, isList := found.([]any)
	if !isList {
		found.(map[string]any)[last] = value
		return nil
	}
	index := position(last)
	if last == "-" {
		index = len(items)
	}
	if index < 0 || index > len(items) {
		return fmt.Errorf("%s is not a position in the list", path)
	}
	return replaceList(box, parent, slices.Insert(slices.Clone(items), index, value))
}

func remove(box map[string]any, path string) error {
	found, last, parent, err := container(box, path)
	if err != nil {
		return err
	}
	if _, ok := at(found, pointerOf(last)); !ok {
		return fmt.Errorf("nothing is at %s", path)
	}
	items, isList := found.([]any)
	if !isList {
		delete(found.(map[string]any), last)
		return nil
	}
	index := position(last)
	return replaceList(box, parent, slices.Delete(slices.Clone(items), index, index+1))
}

// replaceList stores a list whose length changed.
func replaceList(box map[string]any, pointer string, items []any) error {
	tokens := tokensOf(pointer)
	last := tokens[len(tokens)-1]
	holder, _ := at(box, pointerOf(tokens[:len(tokens)-1]...))
	switch holder := holder.(type) {
	case map[string]any:
		holder[last] = items
	case []any:
		holder[position(last)] = items
	}
	return nil
}
