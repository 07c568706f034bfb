package sdktest

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"pilothouse.dev/sdk"
)

// manifestOf parses a manifest, given as a JSON string or as a value that encoding/json encodes. It must have a kind and a name.
func manifestOf(object any) (map[string]any, error) {
	given, ok := object.(string)
	if !ok {
		encoded, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		given = string(encoded)
	}
	var manifest map[string]any
	if err := unmarshal(given, &manifest); err != nil {
		return nil, err
	}
	if of := idOf(manifest); of.kind.APIVersion == "" || of.kind.Kind == "" || of.key.Name == "" {
		return nil, errors.New("an object needs apiVersion, kind and metadata.name")
	}
	return manifest, nil
}

func unmarshal(text string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
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

// object returns a member that is an object, or nil.
func object(members map[string]any, name string) map[string]any {
	value, _ := members[name].(map[string]any)
	return value
}

// ensureObject returns a member that is an object, which is added if it is missing.
func ensureObject(members map[string]any, name string) map[string]any {
	value, ok := members[name].(map[string]any)
	if !ok {
		value = map[string]any{}
		members[name] = value
	}
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

// integer returns a member that is an integer, or 0.
func integer(members map[string]any, name string) int {
	value, _ := members[name].(json.Number)
	found, _ := strconv.Atoi(string(value))
	return found
}

func number(value int) json.Number { return json.Number(strconv.Itoa(value)) }
