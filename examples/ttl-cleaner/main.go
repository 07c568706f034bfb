// A plugin that deletes ConfigMaps with the label cleanup=ttl when the time in their annotation "ttl" has elapsed since their creation.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/reconcile"
)

const annotation = "ttl"

func init() {
	sdk.Describe(describe)
	reconcile.Export(cleaner{now: time.Now})
}

func main() {}

func describe(sdk.Config) (sdk.Plugin, error) {
	return sdk.Plugin{
		Name:    "ttl-cleaner",
		Version: "0.1.0",
		Summary: "Deletes ConfigMaps when their time to live has elapsed",
		Watches: []sdk.Watch{{
			Name: "configmaps", APIVersion: "v1", Kind: "ConfigMap",
			LabelSelector: "cleanup=ttl",
			// The contents of ConfigMaps are not needed and not cached.
			Projection: sdk.Metadata,
			Trigger:    sdk.Self(),
		}},
		Writes: []sdk.WriteRule{sdk.Writes("", "configmaps", "delete")},
	}, nil
}

type cleaner struct {
	now func() time.Time
}

// Reconcile deletes an expired ConfigMap, and requeues others until they expire.
func (c cleaner) Reconcile(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	object := ctx.Cache("configmaps").Get(req.Key)
	if object == nil || object.IsBeingDeleted() {
		return sdk.Result{}, nil
	}
	text, ok := object.Annotation(annotation)
	if !ok {
		return sdk.Result{}, nil
	}
	ttl, err := time.ParseDuration(text)
	if err != nil || ttl < 0 {
		note := fmt.Sprintf("the annotation %s is %q, and must be a duration such as 90s or 12h", annotation, text)
		ctx.Events().Warning(object, "BadTTL", "Clean", note)
		return sdk.Result{}, sdk.Terminal(errors.New(note))
	}
	var created time.Time
	if _, err := object.DecodeField("/metadata/creationTimestamp", &created); err != nil {
		return sdk.Result{}, err
	}
	if left := created.Add(ttl).Sub(c.now()); left > 0 {
		return sdk.Result{RequeueAfter: left}, nil
	}
	// Record the Event first, while the object exists. Delete only the version that was checked, because its time to live may have been extended
	// since.
	ctx.Events().Normal(object, "Expired", "Clean", fmt.Sprintf("deleted, because %s have elapsed since its creation", ttl))
	err = ctx.Client().Delete(object.Type(), req.Key, sdk.DeleteOptions{UID: object.UID(), ResourceVersion: object.ResourceVersion()})
	if err != nil {
		return sdk.Result{}, sdk.IgnoreNotFound(err)
	}
	slog.Info("deleted", "ttl", ttl)
	sdk.Counter("expired", nil, 1)
	return sdk.Result{}, nil
}
