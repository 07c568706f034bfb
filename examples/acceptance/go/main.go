// The acceptance plugin in Go, as specified by examples/acceptance/README.md.
package main

import (
	"errors"
	"log/slog"
	"strings"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/index"
	"pilothouse.dev/sdk/observe"
	"pilothouse.dev/sdk/reconcile"
)

func init() {
	sdk.Describe(describe)
	reconcile.Export(sdk.ReconcilerFunc(runScript))
	observe.Export(sdk.ObserverFunc(logChanges))
	index.Export(words)
}

func main() {}

func describe(config sdk.Config) (sdk.Plugin, error) {
	var settings struct{ Fail string }
	if err := config.Decode(&settings); err != nil {
		return sdk.Plugin{}, err
	}
	if settings.Fail != "" {
		return sdk.Plugin{}, errors.New(settings.Fail)
	}
	verbs := []string{"get", "list", "create", "update", "patch", "delete"}
	return sdk.Plugin{
		Name:    "acceptance-go",
		Version: "0.1.0",
		Summary: "Performs the operations of ConfigMaps",
		Watches: []sdk.Watch{
			{Name: "scripts", APIVersion: "v1", Kind: "ConfigMap", LabelSelector: "test=acceptance", Trigger: sdk.Self()},
			{
				Name: "items", APIVersion: "v1", Kind: "ConfigMap", LabelSelector: "test=acceptance-item", Notify: true,
				Indexes: []sdk.Index{{Name: "byGroup", Field: "{.data.group}"}, {Name: "byWord", Computed: true}},
			},
			{Name: "namespaces", APIVersion: "v1", Kind: "Namespace"},
			{Name: "deployments", APIVersion: "apps/v1", Kind: "Deployment", LabelSelector: "test=acceptance-item"},
		},
		Writes: []sdk.WriteRule{
			sdk.Writes("", "configmaps", verbs...),
			{APIGroups: []string{"apps"}, Resources: []string{"deployments", "deployments/status", "deployments/scale"}, Verbs: verbs},
		},
	}, nil
}

// words returns the values of the index byWord.
func words(_ string, object *sdk.Object) []string {
	text, _ := object.Text("/data/words")
	words := strings.Fields(text)
	for _, word := range words {
		if word == "trap" {
			panic("an item with the word trap")
		}
	}
	return words
}

func logChanges(_ *sdk.Context, notifications []sdk.Notification) error {
	for _, notification := range notifications {
		before, after := "-", "-"
		if object := notification.Before(); object != nil {
			if text, ok := object.Text("/data/value"); ok {
				before = text
			}
			object.Close()
		}
		if json, ok := notification.AfterField("/data/value"); ok {
			after = string(json)
		}
		if after == `"trap"` {
			panic("an item with the value trap")
		}
		slog.Info("observed", "watch", notification.Watch, "key", notification.Key, "change", notification.Change, "initial", notification.Initial,
			"unknown", notification.FinalStateUnknown, "before", before, "after", after)
	}
	return nil
}
