package sdktest

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"pilothouse.dev/sdk"
)

// parse parses a manifest, which must have a kind and a name.
func parse(text string) (map[string]any, error) {
	var manifest map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&manifest); err != nil {
		return nil, err
	}
	objectID := idOf(manifest)
	if objectID.kind.APIVersion == "" || objectID.kind.Kind == "" || objectID.key.Name == "" {
		return nil, errors.New("an object needs apiVersion, kind and metadata.name")
	}
	return manifest, nil
}

func idOf(manifest map[string]any) id {
	metadata := object(manifest, "metadata")
	return id{
		sdk.Type{APIVersion: text(manifest, "apiVersion"), Kind: text(manifest, "kind")},
		sdk.Key{Namespace: text(metadata, "namespace"), Name: text(metadata, "name")},
	}
}

func compareKeys(a, b sdk.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // It came from JSON.
	}
	return string(text)
}

func copyOf(manifest map[string]any) map[string]any {
	copied, err := parse(jsonOf(manifest))
	if err != nil {
		panic(err) // It was parsed before.
	}
	return copied
}

// object returns a member that is an object, or nil.
func object(members map[string]any, name string) map[string]any {
	value, _ := members[name].(map[string]any)
	return value
}

func text(members map[string]any, name string) string {
	value, _ := members[name].(string)
	return value
}

func list(members map[string]any, name string) []any {
	value, _ := members[name].([]any)
	return value
}

// at returns the value at a JSON pointer (RFC 6901).
func at(value any, pointer string) (any, bool) {
	if pointer == "" {
		return value, true
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch inner := value.(type) {
		case map[string]any:
			next, ok := inner[part]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			var position int
			if err := json.Unmarshal([]byte(part), &position); err != nil || position < 0 || position >= len(inner) {
				return nil, false
			}
			value = inner[position]
		default:
			return nil, false
		}
	}
	return value, true
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

// selects evaluates the label selectors that tests need: "a=b", "a!=b", "a" and "!a", joined by commas.
func selects(selector string, manifest map[string]any) bool {
	labels := object(object(manifest, "metadata"), "labels")
	for term := range strings.SplitSeq(selector, ",") {
		term = strings.TrimSpace(term)
		name, value, equals := strings.Cut(term, "=")
		negated := strings.HasPrefix(term, "!") || strings.HasSuffix(name, "!")
		name = strings.Trim(name, "!= ")
		_, present := labels[name]
		matches := present
		if equals {
			matches = present && text(labels, name) == strings.TrimLeft(value, "= ")
		}
		if name != "" && matches == negated {
			return false
		}
	}
	return true
}
