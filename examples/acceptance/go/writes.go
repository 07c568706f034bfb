package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"pilothouse.dev/sdk"
)

var configMap = sdk.Type{APIVersion: "v1", Kind: "ConfigMap"}

func ownWrite(s *script) (string, error) {
	key := s.req.Key.Sibling(s.data["a"])
	patch := sdk.MergePatch(map[string]any{"data": map[string]any{"value": s.data["b"]}})
	if _, err := s.ctx.Client().Patch(configMap, key, patch); err != nil {
		return "", err
	}
	object := s.ctx.Cache("items").Get(key)
	if object == nil {
		return "none", nil
	}
	return textOr(object, "/data/value", "absent"), nil
}

func clientGet(s *script) (string, error) {
	object, err := s.ctx.Client().Get(s.target(), s.key("c", "d"), sdk.Subresource(s.data["e"]))
	if err != nil {
		return "", err
	}
	return textOr(object, s.data["f"], "absent"), nil
}

func clientList(s *script) (string, error) {
	options := sdk.ListOptions{Namespace: s.data["c"], LabelSelector: s.data["d"], FieldSelector: s.data["e"], PageSize: s.number("f")}
	var pages []string
	for {
		page, err := s.ctx.Client().List(s.target(), options)
		if err != nil {
			return "", err
		}
		pages = append(pages, keysOf(page.Items))
		if page.Next == "" {
			return strings.Join(pages, " | "), nil
		}
		options.After = page.Next
	}
}

func create(s *script) (string, error) {
	return nameOf(s.ctx.Client().Create(s.body(), sdk.Subresource(s.data["a"])))
}

func update(s *script) (string, error) {
	return nameOf(s.ctx.Client().Update(s.body(), sdk.Subresource(s.data["a"])))
}

func patch(s *script) (string, error) {
	options := []sdk.Option{sdk.Subresource(s.data["f"])}
	var patch sdk.Patch
	switch kind := s.data["e"]; kind {
	case "json":
		patch = sdk.JSONPatch(s.body())
	case "merge":
		patch = sdk.MergePatch(s.body())
	case "strategic":
		patch = sdk.StrategicPatch(s.body())
	case "apply-force":
		options = append(options, sdk.Force())
		fallthrough
	case "apply":
		patch = sdk.ApplyPatch(s.body())
	default:
		return "", sdk.Terminal(fmt.Errorf("no patch type %s", kind))
	}
	return nameOf(s.ctx.Client().Patch(s.target(), s.key("c", "d"), patch, options...))
}

func remove(s *script) (string, error) {
	propagation := map[string]sdk.Propagation{"foreground": sdk.Foreground, "orphan": sdk.Orphan}[s.data["e"]]
	options := sdk.DeleteOptions{Propagation: propagation, UID: s.data["f"], ResourceVersion: s.data["g"]}
	return "deleted", s.ctx.Client().Delete(s.target(), s.key("c", "d"), options)
}

func denied(s *script) (string, error) {
	return nameOf(s.ctx.Client().Create(map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata":   map[string]any{"namespace": s.namespace(), "name": "denied"},
	}))
}

func (s *script) body() json.RawMessage { return json.RawMessage(s.data["body"]) }

func nameOf(object *sdk.Object, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return object.Key().Name, nil
}
