// Package storage is case 3: acts on any difference, not on growth.
//
// The storage of a StatefulSet cannot be changed, so the plugin deletes and creates it again when a Store wants more. The wrong twin does so
// whenever the two differ. After a restart, the first list of Stores may contain the size before the last change: the StatefulSet is replaced
// by a smaller one, and then by the larger one again.
//
// Source: https://github.com/rabbitmq/cluster-operator/issues/653
package storage

import (
	_ "embed"
	"strconv"

	"pilothouse.dev/examples/catalogue/kit"
	"pilothouse.dev/sdk"
)

const (
	stores = "stores"
	sets   = "sets"
	// size is the annotation of a StatefulSet with its storage in gigabytes.
	size = "catalogue.pilothouse.dev/gigabytes"
)

//go:embed store.json
var definition []byte

// Case has both twins.
var Case = kit.Case{
	Name: "storage-change",
	Plugin: sdk.Plugin{
		CRDs: []any{kit.Definition(definition)},
		Watches: []sdk.Watch{
			{Name: stores, APIVersion: kit.APIVersion, Kind: "Store", Trigger: sdk.Self()},
			{Name: sets, APIVersion: "apps/v1", Kind: "StatefulSet", Trigger: sdk.Owner(stores)},
		},
		Writes: []sdk.WriteRule{
			sdk.Writes("apps", "statefulsets", "create", "delete"),
			sdk.Writes(kit.Group, "stores", "get"),
		},
	},
	Wrong: wrong,
	Right: right,
}

func wrong(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	store := ctx.Cache(stores).Get(req.Key)
	if store == nil || store.IsBeingDeleted() {
		return sdk.Result{}, nil
	}
	set := ctx.Cache(sets).Get(req.Key)
	if set != nil {
		if wanted, err := gigabytes(store); err != nil || wanted == current(set) {
			return sdk.Result{}, err
		}
		if err := remove(ctx, set); err != nil {
			return sdk.Result{}, err
		}
	}
	return sdk.Result{}, create(ctx, store)
}

func right(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	// The size in the cache may be an older one, and a StatefulSet of an older size must not be created either.
	store, err := kit.Live(ctx, kit.Own("Store"), req.Key)
	if err != nil || store == nil || store.IsBeingDeleted() {
		return sdk.Result{}, err
	}
	set := ctx.Cache(sets).Get(req.Key)
	if set != nil {
		if wanted, err := gigabytes(store); err != nil || wanted <= current(set) {
			return sdk.Result{}, err
		}
		if err := remove(ctx, set); err != nil {
			return sdk.Result{}, err
		}
	}
	return sdk.Result{}, create(ctx, store)
}

func gigabytes(store *sdk.Object) (int, error) { return kit.Integer(store, "/spec/gigabytes") }

// current returns the storage of a StatefulSet; 0 if it is not known.
func current(set *sdk.Object) int {
	text, _ := set.Annotation(size)
	value, _ := strconv.Atoi(text)
	return value
}

func remove(ctx *sdk.Context, set *sdk.Object) error {
	return sdk.IgnoreNotFound(ctx.Client().Delete(set.Type(), set.Key(), sdk.DeleteOptions{UID: set.UID()}))
}

func create(ctx *sdk.Context, store *sdk.Object) error {
	wanted, err := gigabytes(store)
	if err != nil {
		return err
	}
	_, err = ctx.Client().Create(kit.StatefulSet(store, 1, kit.Map{size: strconv.Itoa(wanted)}))
	return err
}
