package sdktest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pilothouse.dev/sdk"
)

const (
	keyPattern   = `([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)`
	valuePattern = `((?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?)`
)

var (
	termPattern     = regexp.MustCompile(`(?:[^,(]|\([^)]*\)?)+`)
	presencePattern = regexp.MustCompile(`^(!?)\s*` + keyPattern + `$`)
	equalityPattern = regexp.MustCompile(`^` + keyPattern + `\s*(==|=|!=|>|<)\s*` + valuePattern + `$`)
	setPattern      = regexp.MustCompile(`^` + keyPattern + `\s+(in|notin)\s*\(([^()]*)\)$`)
)

// labelSelector compiles a selector in kubectl's syntax to a function of an object.
func labelSelector(selector string) (func(map[string]any) bool, error) {
	var tests []func(map[string]any) bool
	for _, term := range termPattern.FindAllString(selector, -1) {
		if strings.TrimSpace(selector) == "" {
			break
		}
		test := requirement(strings.TrimSpace(term))
		if test == nil {
			return nil, fmt.Errorf("label selector %q doesn't parse: %q is not a requirement", selector, strings.TrimSpace(term))
		}
		tests = append(tests, test)
	}
	return func(manifest map[string]any) bool {
		labels := object(object(manifest, "metadata"), "labels")
		return !slices.ContainsFunc(tests, func(test func(map[string]any) bool) bool { return !test(labels) })
	}, nil
}

// requirement returns the test of one term, or nil if the term is malformed.
func requirement(term string) func(labels map[string]any) bool {
	if found := presencePattern.FindStringSubmatch(term); found != nil {
		return func(labels map[string]any) bool {
			_, present := labels[found[2]]
			return present == (found[1] == "")
		}
	}
	if found := setPattern.FindStringSubmatch(term); found != nil {
		values := strings.Split(found[3], ",")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		return func(labels map[string]any) bool {
			label, present := labels[found[1]].(string)
			return (present && slices.Contains(values, label)) == (found[2] == "in")
		}
	}
	found := equalityPattern.FindStringSubmatch(term)
	if found == nil {
		return nil
	}
	return func(labels map[string]any) bool {
		label, present := labels[found[1]].(string)
		number, err := strconv.Atoi(label)
		limit, err2 := strconv.Atoi(found[3])
		switch found[2] {
		case ">":
			return err == nil && err2 == nil && number > limit
		case "<":
			return err == nil && err2 == nil && number < limit
		case "!=":
			return !present || label != found[3]
		default:
			return present && label == found[3]
		}
	}
}

var fieldPattern = regexp.MustCompile(`^\s*([^=!]+?)\s*(!=|==|=)\s*(.*?)\s*$`)

// fieldSelector compiles a field selector to a function of an object. Unlike a server, it accepts every field.
func fieldSelector(selector string) func(map[string]any) bool {
	return func(manifest map[string]any) bool {
		for term := range strings.SplitSeq(selector, ",") {
			found := fieldPattern.FindStringSubmatch(term)
			if found == nil {
				continue
			}
			value, _ := at(manifest, "/"+strings.ReplaceAll(found[1], ".", "/"))
			if (scalar(value) == found[3]) != (found[2] != "!=") {
				return false
			}
		}
		return true
	}
}

// scalar returns a string without quotes, other values as JSON, and "" for nothing.
func scalar(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		return jsonOf(value)
	}
}

// pageOf returns a page of sorted objects after the cursor, and the next cursor.
func pageOf(found []map[string]any, limit int, cursor string) ([]map[string]any, string) {
	namespace, name, hasNamespace := strings.Cut(cursor, "/")
	last := sdk.Key{Namespace: namespace, Name: name}
	if !hasNamespace {
		last = sdk.Key{Name: cursor}
	}
	found = slices.DeleteFunc(slices.Clone(found), func(manifest map[string]any) bool {
		return cursor != "" && compareKeys(idOf(manifest).key, last) <= 0
	})
	if len(found) <= limit {
		return found, ""
	}
	return found[:limit], idOf(found[limit-1]).key.String()
}

// indexValues returns the values of an index that the host computes.
func indexValues(index sdk.Index, manifest map[string]any) []string {
	metadata := object(manifest, "metadata")
	var values []any
	switch {
	case index.Label != "":
		values = append(values, object(metadata, "labels")[index.Label])
	case index.Annotation != "":
		values = append(values, object(metadata, "annotations")[index.Annotation])
	case index.Owner:
		for _, owner := range list(metadata, "ownerReferences") {
			members, _ := owner.(map[string]any)
			values = append(values, members["uid"])
		}
	default:
		values = jsonPath(manifest, index.Field)
	}
	var texts []string
	for _, value := range values {
		switch value.(type) {
		case nil, map[string]any, []any:
		default:
			texts = append(texts, scalar(value))
		}
	}
	return texts
}

var (
	stepPattern   = regexp.MustCompile(`^(?:\.?\[(?:(\*)|(\d+)|'([^']*)'|"([^"]*)")\]|\.((?:\\.|[^.\[\]{}'" \\])+))`)
	escapePattern = regexp.MustCompile(`\\(.)`)
)

// jsonPath returns the values at a JSONPath of members, positions and [*], which are all that the host supports.
func jsonPath(value any, path string) []any {
	rest := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), "$")
	found := []any{value}
	for rest != "" {
		step := stepPattern.FindStringSubmatch(rest)
		if step == nil {
			panic(Trap(fmt.Sprintf("%q is not a JSONPath that the host evaluates, at %q", path, rest)))
		}
		rest = rest[len(step[0]):]
		member := step[3] + step[4] + escapePattern.ReplaceAllString(step[5], "$1")
		var next []any
		for _, value := range found {
			switch inner := value.(type) {
			case map[string]any:
				if step[1] != "" || step[5] == "*" {
					for _, name := range slices.Sorted(maps.Keys(inner)) {
						next = append(next, inner[name])
					}
				} else if member, ok := inner[member]; ok && step[2] == "" {
					next = append(next, member)
				}
			case []any:
				if step[1] != "" || step[5] == "*" {
					next = append(next, inner...)
				} else if index := position(step[2]); step[2] != "" && index >= 0 && index < len(inner) {
					next = append(next, inner[index])
				}
			}
		}
		found = next
	}
	return found
}
