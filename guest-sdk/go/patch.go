package sdk

import (
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/host"
)

// Patch is a change of an object. The body is anything that encoding/json writes; json.RawMessage for a text.
type Patch struct {
	kind  host.PatchType
	body  any
	apply bool
}

// JSONPatch is a list of operations, RFC 6902.
func JSONPatch(operations any) Patch {
	return Patch{pilothouse_controller_client.MakePatchTypeJson(), operations, false}
}

// MergePatch is the members to change, RFC 7386: null removes, lists are replaced whole.
func MergePatch(members any) Patch {
	return Patch{pilothouse_controller_client.MakePatchTypeMerge(), members, false}
}

// StrategicPatch is a strategic merge patch: built-in kinds only.
func StrategicPatch(members any) Patch {
	return Patch{pilothouse_controller_client.MakePatchTypeStrategic(), members, false}
}

// ApplyPatch is a server-side apply of a partial manifest, apiVersion and kind included. [Client.Apply] finds target and key in the
// manifest itself.
func ApplyPatch(manifest any) Patch { return Patch{body: manifest, apply: true} }
