package sdk

import (
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_client"
	"pilothouse.dev/sdk/internal/host"
)

// Patch is a patch of an object. The body is a value that encoding/json encodes, or json.RawMessage.
type Patch struct {
	kind  host.PatchType
	body  any
	apply bool
}

// JSONPatch returns a JSON Patch (RFC 6902), a list of operations.
func JSONPatch(operations any) Patch {
	return Patch{pilothouse_controller_client.MakePatchTypeJson(), operations, false}
}

// MergePatch returns a JSON Merge Patch (RFC 7386): null removes a member, and lists are replaced as a whole.
func MergePatch(members any) Patch {
	return Patch{pilothouse_controller_client.MakePatchTypeMerge(), members, false}
}

// StrategicPatch returns a strategic merge patch; only for built-in kinds.
func StrategicPatch(members any) Patch {
	return Patch{pilothouse_controller_client.MakePatchTypeStrategic(), members, false}
}

// ApplyPatch returns a server-side apply of a partial manifest, which includes apiVersion and kind. [Client.Apply] takes target and key from the
// manifest.
func ApplyPatch(manifest any) Patch { return Patch{body: manifest, apply: true} }
