// Package shrink is case 21: the end depends on the path.
//
// A Queue cannot shrink, and the plugin refuses to do so: the wrong twin compares the wanted replicas with those that run. When a user goes from
// 1 to 3 and on to 2, the end is 3 if the plugin saw the 3, and 2 if the watch merged the two changes. A reconciler cannot refuse what it may
// never see; a rule of the CRD can. The right twin therefore does what the Queue says.
//
// Sources: https://github.com/rabbitmq/cluster-operator/issues/758, https://github.com/Orange-OpenSource/casskop/issues/342,
// https://github.com/pravega/zookeeper-operator/issues/453
package shrink

import (
	_ "embed"
	"log/slog"

	"pilothouse.dev/examples/catalogue/kit"
	"pilothouse.dev/sdk"
)

const (
	queues = "queues"
	sets   = "sets"
)

//go:embed queue.json
var definition []byte

// Case has both twins.
var Case = kit.Case{
	Name: "refused-shrink",
	Plugin: sdk.Plugin{
		CRDs: []any{kit.Definition(definition)},
		Watches: []sdk.Watch{
			{Name: queues, APIVersion: kit.APIVersion, Kind: "Queue", Trigger: sdk.Self()},
			{Name: sets, APIVersion: "apps/v1", Kind: "StatefulSet", Trigger: sdk.Owner(queues)},
		},
		Writes: []sdk.WriteRule{sdk.Writes("apps", "statefulsets", "create", "patch")},
	},
	Wrong: wrong,
	Right: right,
}

func wrong(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	return scale(ctx, req, func(wanted, running int) bool { return wanted > running })
}

func right(ctx *sdk.Context, req sdk.Request) (sdk.Result, error) {
	return scale(ctx, req, func(wanted, running int) bool { return wanted != running })
}

// scale creates the StatefulSet of a Queue, or changes its replicas if that is allowed.
func scale(ctx *sdk.Context, req sdk.Request, isAllowed func(wanted, running int) bool) (sdk.Result, error) {
	queue := ctx.Cache(queues).Get(req.Key)
	if queue == nil || queue.IsBeingDeleted() {
		return sdk.Result{}, nil
	}
	wanted, err := kit.Integer(queue, "/spec/replicas")
	if err != nil {
		return sdk.Result{}, err
	}
	set := ctx.Cache(sets).Get(req.Key)
	if set == nil {
		_, err := ctx.Client().Create(kit.StatefulSet(queue, wanted, nil))
		return sdk.Result{}, err
	}
	running, err := kit.Integer(set, "/spec/replicas")
	if err != nil || wanted == running {
		return sdk.Result{}, err
	}
	if !isAllowed(wanted, running) {
		slog.Warn("a queue cannot shrink", "wanted", wanted, "running", running)
		return sdk.Result{}, nil
	}
	change := kit.Map{"spec": kit.Map{"replicas": wanted}}
	_, err = ctx.Client().Patch(set.Type(), req.Key, sdk.MergePatch(change))
	return sdk.Result{}, err
}
