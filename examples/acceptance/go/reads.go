package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"pilothouse.dev/sdk"
)

func get(s *script) (string, error) {
	object := s.ctx.Cache(s.data["a"]).Get(s.key("b", "c"))
	if object == nil {
		return "none", nil
	}
	return textOr(object, s.data["d"], "absent"), nil
}

func jsonLength(s *script) (string, error) {
	object := s.ctx.Cache(s.data["a"]).Get(s.key("b", "c"))
	if object == nil {
		return "none", nil
	}
	return strconv.Itoa(len(object.JSON())), nil
}

func object(s *script) (string, error) {
	object := s.ctx.Cache(s.data["a"]).Get(s.key("b", "c"))
	if object == nil {
		return "none", nil
	}
	var lines []string
	line := func(name string, value any) { lines = append(lines, fmt.Sprintf("%s=%v", name, value)) }
	line("key", object.Key())
	line("api-version", object.APIVersion())
	line("kind", object.Kind())
	line("uid", isSet(object.UID(), ""))
	line("resource-version", isSet(object.ResourceVersion(), ""))
	line("generation", object.Generation())
	line("labels", pairs(object.Labels()))
	line("label", or(object.Label("tier")))
	line("annotation", or(object.Annotation("note")))
	deleted, _ := object.DeletionTimestamp()
	line("deletion-timestamp", isSet(deleted, "-"))
	controller := "-"
	if owner, ok := object.Controller(); ok {
		controller = owner.Kind + "/" + owner.Name
	}
	line("controller", controller)
	field, ok := object.Field("/data/value")
	line("field", or(string(field), ok))
	line("text", textOr(object, "/data/value", "-"))
	several := []string{"/data/value", "/data/nothing", "/kind"}
	var fields, texts []string
	for _, field := range object.Fields(several...) {
		fields = append(fields, or(string(field), field != nil))
	}
	for _, text := range object.Texts(several...) {
		if text != nil {
			texts = append(texts, *text)
		} else {
			texts = append(texts, "-")
		}
	}
	line("fields", strings.Join(fields, ","))
	line("texts", strings.Join(texts, ","))
	return strings.Join(lines, "\n"), nil
}

func list(s *script) (string, error) {
	query := sdk.Query{Namespace: s.data["b"], Labels: s.data["c"], PageSize: s.number("d")}
	var pages []string
	for {
		page := s.ctx.Cache(s.data["a"]).Page(query)
		pages = append(pages, keysOf(page.Items))
		if page.Next == "" {
			return strings.Join(pages, " | "), nil
		}
		query.After = page.Next
	}
}

func listFields(s *script) (string, error) {
	rows := s.ctx.Cache(s.data["a"]).Fields(sdk.Query{Namespace: s.data["b"], Labels: s.data["c"]}, s.data["d"])
	var texts []string
	for _, row := range rows {
		value, ok := row.Value(0)
		texts = append(texts, row.Key.String()+"="+or(string(value), ok))
	}
	return strings.Join(texts, " "), nil
}

func byIndex(s *script) (string, error) {
	return keysOf(s.ctx.Cache(s.data["a"]).ByIndex(s.data["b"], s.data["c"])), nil
}

func indexKeys(s *script) (string, error) {
	return join(s.ctx.Cache(s.data["a"]).IndexKeys(s.data["b"], s.data["c"])), nil
}

func indexValues(s *script) (string, error) {
	return strings.Join(s.ctx.Cache(s.data["a"]).IndexValues(s.data["b"]), " "), nil
}

func hasSynced(s *script) (string, error) {
	return strconv.FormatBool(s.ctx.Cache(s.data["a"]).HasSynced()), nil
}

func keysOf(objects []*sdk.Object) string {
	keys := make([]sdk.Key, len(objects))
	for i, object := range objects {
		keys[i] = object.Key()
		object.Close()
	}
	return join(keys)
}

func join(keys []sdk.Key) string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = key.String()
	}
	return strings.Join(texts, " ")
}

func pairs(labels map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, key+"="+labels[key])
	}
	return strings.Join(texts, ",")
}

func textOr(object *sdk.Object, pointer, absent string) string {
	if text, ok := object.Text(pointer); ok {
		return text
	}
	return absent
}

func or(value string, ok bool) string {
	if ok {
		return value
	}
	return "-"
}

func isSet(value, otherwise string) string {
	if value != "" {
		return "set"
	}
	return otherwise
}
