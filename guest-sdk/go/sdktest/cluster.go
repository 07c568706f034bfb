package sdktest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pilothouse.dev/sdk"
	"pilothouse.dev/sdk/internal/bindings/imports/pilothouse_controller_types"
	"pilothouse.dev/sdk/internal/host"
)

const (
	// The time of every creation and deletion.
	now = "2026-01-01T00:00:00Z"
	// The field manager of the test's own writes.
	anotherClient = "another client"
)

// serverFields is the metadata that a client may leave out of an update, and cannot change.
var serverFields = words("uid creationTimestamp generation resourceVersion generateName deletionTimestamp deletionGracePeriodSeconds")

// id identifies an object in the cluster.
type id struct {
	kind sdk.Type
	key  sdk.Key
}

// set is a set of field managers: "NAME apply" for applies, "NAME" for other writes.
type set map[string]bool

// cluster is the fake API server. guest-sdk/testing/cases.json specifies it. It follows kube-apiserver, without schemas, defaults, admission and
// the garbage collector. Stored objects are never changed, only replaced.
type cluster struct {
	crds    []map[string]any
	objects map[id]map[string]any
	// The owners of each value, by JSON pointer.
	owners  map[id]map[string]set
	version int
}

func newCluster() *cluster {
	return &cluster{objects: map[id]map[string]any{}, owners: map[id]map[string]set{}}
}

// require returns an object, or the error that there is none.
func (c *cluster) require(of id, subresource string) (map[string]any, *host.APIError) {
	kind := c.kindOf(of.kind)
	if found, ok := c.objects[of]; ok && (subresource != "status" || kind.hasStatus) {
		return found, nil
	}
	resource := kind.plural
	if kind.group != "" {
		resource += "." + kind.group
	}
	err := pilothouse_controller_types.MakeApiErrorNotFound(fmt.Sprintf("%s %q not found", resource, of.key.Name))
	return nil, &err
}

// selected returns the objects of a type that a function selects, sorted by key.
func (c *cluster) selected(of sdk.Type, isSelected func(map[string]any) bool) []map[string]any {
	var found []map[string]any
	for objectID, manifest := range c.objects {
		if objectID.kind == of && isSelected(manifest) {
			found = append(found, manifest)
		}
	}
	slices.SortFunc(found, func(a, b map[string]any) int { return compareKeys(idOf(a).key, idOf(b).key) })
	return found
}

// put stores an object as another client's write. Keeps what the test gives, and adds the metadata that it leaves out.
func (c *cluster) put(manifest map[string]any) map[string]any {
	of := idOf(manifest)
	present := c.objects[of]
	metadata, before := ensureObject(manifest, "metadata"), object(present, "metadata")
	if text(metadata, "uid") == "" {
		metadata["uid"] = cmp.Or(text(before, "uid"), c.newUID())
	}
	if text(metadata, "creationTimestamp") == "" {
		metadata["creationTimestamp"] = cmp.Or(text(before, "creationTimestamp"), now)
	}
	if kind := c.kindOf(of.kind); kind.hasGeneration {
		if present != nil && text(before, "uid") == text(metadata, "uid") {
			metadata["generation"] = generation(kind, present, manifest)
		} else if _, ok := metadata["generation"]; !ok {
			metadata["generation"] = number(1)
		}
	}
	if present != nil && text(before, "deletionTimestamp") != "" && isDeleted(manifest) {
		return c.remove(of, manifest)
	}
	return c.store(of, manifest, anotherClient)
}

func (c *cluster) create(manifest map[string]any, manager string) (map[string]any, *host.APIError) {
	metadata := ensureObject(manifest, "metadata")
	kind := c.kindOf(idOf(manifest).kind)
	if text(metadata, "resourceVersion") != "" {
		return nil, other(500, "", "resourceVersion should not be set on objects to be created")
	}
	if text(metadata, "name") == "" {
		prefix := text(metadata, "generateName")
		if prefix == "" {
			return nil, invalid("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
		}
		metadata["name"] = fmt.Sprintf("%s%05d", prefix, c.version+1)
	}
	of := idOf(manifest)
	if err := checkNewName(kind, of.key.Name); err != nil {
		return nil, err
	}
	if _, ok := c.objects[of]; ok {
		err := pilothouse_controller_types.MakeApiErrorAlreadyExists(fmt.Sprintf("%s %q already exists", kind.plural, of.key.Name))
		return nil, &err
	}
	for _, field := range words("deletionTimestamp deletionGracePeriodSeconds") {
		delete(metadata, field)
	}
	metadata["uid"], metadata["creationTimestamp"] = c.newUID(), now
	if kind.hasGeneration {
		metadata["generation"] = number(1)
	}
	if kind.hasStatus {
		delete(manifest, "status")
	}
	return c.store(of, manifest, manager), nil
}

func (c *cluster) update(manifest map[string]any, subresource, manager string) (map[string]any, *host.APIError) {
	of := idOf(manifest)
	present, err := c.require(of, subresource)
	if err != nil {
		return nil, err
	}
	if c.kindOf(of.kind).needsVersion && text(object(manifest, "metadata"), "resourceVersion") == "" {
		return nil, invalid("metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0x0: must be specified for an update")
	}
	return c.replace(of, present, manifest, subresource, manager)
}

func (c *cluster) patch(of id, isJSON bool, body any, subresource, manager string) (map[string]any, *host.APIError) {
	present, apiErr := c.require(of, subresource)
	if apiErr != nil {
		return nil, apiErr
	}
	result := clone(present)
	if isJSON {
		var err error
		result, err = patched(present, body)
		if errors.Is(err, errMalformed) {
			return nil, other(400, "BadRequest", err.Error())
		}
		if err != nil {
			return nil, invalid("", "Invalid", err.Error())
		}
	} else {
		result = merge(result, body)
	}
	changed, _ := result.(map[string]any)
	if idOf(changed) != of {
		return nil, other(400, "BadRequest", "a patch cannot change the type, the namespace or the name of an object")
	}
	return c.replace(of, present, changed, subresource, manager)
}

func (c *cluster) apply(of id, config map[string]any, subresource, manager string, force bool) (map[string]any, *host.APIError) {
	metadata := ensureObject(config, "metadata")
	metadata["name"] = of.key.Name
	if of.key.Namespace != "" {
		metadata["namespace"] = of.key.Namespace
	}
	if idOf(config) != of {
		return nil, other(400, "BadRequest", "the applied manifest has another type")
	}
	kind := c.kindOf(of.kind)
	isApplied := func(pointer string) bool { return !kind.hasStatus || isStatus(pointer) == (subresource == "status") }
	wanted := tracked(config)
	maps.DeleteFunc(wanted, func(pointer string, _ any) bool { return !isApplied(pointer) })
	if _, ok := c.objects[of]; !ok && subresource == "" {
		created, err := c.create(config, manager)
		if err == nil {
			c.owners[of] = map[string]set{}
			for pointer := range wanted {
				c.owners[of][pointer] = set{manager: true}
			}
		}
		return created, err
	}
	present, err := c.require(of, subresource)
	if err != nil {
		return nil, err
	}
	owners := map[string]set{}
	for pointer, managers := range c.owners[of] {
		owners[pointer] = maps.Clone(managers)
	}
	changed, contested := set{}, []string{}
	for pointer, value := range wanted {
		if found, ok := at(present, pointer); ok && same(found, value) {
			continue
		}
		changed[pointer] = true
		if others := owners[pointer]; len(others) > 1 || len(others) == 1 && !others[manager] {
			contested = append(contested, pointer)
		}
	}
	if len(contested) > 0 && !force {
		slices.Sort(contested)
		return nil, conflict(fmt.Sprintf("Apply failed with %d conflicts with other field managers: %s", len(contested),
			strings.Join(contested, ", ")), text(object(present, "metadata"), "resourceVersion"))
	}
	result := clone(present).(map[string]any)
	for pointer, managers := range owners {
		if _, ok := wanted[pointer]; ok || !managers[manager] || !isApplied(pointer) {
			continue
		}
		if delete(managers, manager); len(managers) == 0 {
			delete(owners, pointer)
			drop(result, pointer)
		}
	}
	for pointer := range changed {
		put(result, pointer, wanted[pointer])
	}
	stored, err := c.replace(of, present, result, subresource, manager)
	if _, ok := c.objects[of]; err == nil && ok {
		for pointer := range wanted {
			if changed[pointer] || owners[pointer] == nil {
				owners[pointer] = set{}
			}
			owners[pointer][manager] = true
		}
		c.owners[of] = owners
	}
	return stored, err
}

func (c *cluster) delete(of id, uid, version string) *host.APIError {
	present, err := c.require(of, "")
	if err != nil {
		return err
	}
	metadata := object(present, "metadata")
	current := text(metadata, "resourceVersion")
	if uid != "" && uid != text(metadata, "uid") || version != "" && version != current {
		return conflict("Precondition failed: the object has another UID or resource version", current)
	}
	if len(list(metadata, "finalizers")) == 0 {
		c.remove(of, present)
	} else if text(metadata, "deletionTimestamp") == "" {
		marked := clone(present).(map[string]any)
		metadata := object(marked, "metadata")
		metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = now, number(0)
		if generation := integer(metadata, "generation"); generation > 0 {
			metadata["generation"] = number(generation + 1)
		}
		c.store(of, marked, anotherClient)
	}
	return nil
}

// replace replaces an object, or its status, by what a client proposes.
func (c *cluster) replace(of id, present, proposed map[string]any, subresource, manager string) (map[string]any, *host.APIError) {
	kind := c.kindOf(of.kind)
	before, after := object(present, "metadata"), object(proposed, "metadata")
	current := text(before, "resourceVersion")
	if given := text(after, "resourceVersion"); given != "" && given != current {
		return nil, conflict("the object has been modified; please apply your changes to the latest version and try again", current)
	}
	if given := text(after, "uid"); given != "" && given != text(before, "uid") {
		return nil, conflict(fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", given, text(before, "uid")), current)
	}
	if subresource == "" && text(before, "deletionTimestamp") != "" {
		for _, finalizer := range list(after, "finalizers") {
			if !slices.Contains(list(before, "finalizers"), finalizer) {
				return nil, invalid("metadata.finalizers", "FieldValueForbidden",
					"Forbidden: no new finalizers can be added if the object is being deleted")
			}
		}
	}
	result, status := clone(proposed).(map[string]any), present
	if subresource != "" {
		result, status = clone(present).(map[string]any), proposed
	}
	if subresource != "" || kind.hasStatus {
		copyMember(status, result, "status")
	}
	for _, field := range serverFields {
		copyMember(before, ensureObject(result, "metadata"), field)
	}
	if subresource == "" && kind.hasGeneration {
		object(result, "metadata")["generation"] = generation(kind, present, result)
	}
	if same(result, present) {
		return present, nil
	}
	if text(before, "deletionTimestamp") != "" && isDeleted(result) {
		return c.remove(of, result), nil
	}
	return c.store(of, result, manager), nil
}

func (c *cluster) newUID() string { return "uid-" + strconv.Itoa(c.version+1) }

func (c *cluster) store(of id, manifest map[string]any, manager string) map[string]any {
	c.version++
	object(manifest, "metadata")["resourceVersion"] = strconv.Itoa(c.version)
	before, owners := tracked(c.objects[of]), map[string]set{}
	for pointer, value := range tracked(manifest) {
		owners[pointer] = set{manager: true}
		if known, ok := before[pointer]; ok && same(known, value) {
			owners[pointer] = maps.Clone(c.owners[of][pointer])
		}
	}
	c.objects[of], c.owners[of] = manifest, owners
	return manifest
}

func (c *cluster) remove(of id, manifest map[string]any) map[string]any {
	c.version++
	delete(c.objects, of)
	delete(c.owners, of)
	last := clone(manifest).(map[string]any)
	object(last, "metadata")["resourceVersion"] = strconv.Itoa(c.version)
	return last
}

// isDeleted returns whether nothing delays the removal of an object that is being deleted.
func isDeleted(manifest map[string]any) bool {
	metadata := object(manifest, "metadata")
	return len(list(metadata, "finalizers")) == 0 && integer(metadata, "deletionGracePeriodSeconds") == 0
}

var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func checkNewName(kind kind, name string) *host.APIError {
	if kind.group == "rbac.authorization.k8s.io" || len(name) <= 253 && subdomain.MatchString(name) {
		return nil
	}
	return invalid("metadata.name", "FieldValueInvalid",
		fmt.Sprintf("Invalid value: %q: a lowercase RFC 1123 subdomain consists of lower case letters, digits, '-' and '.'", name))
}

// generation returns the generation, which counts the changes of everything but the metadata and the status.
func generation(kind kind, before, after map[string]any) json.Number {
	changed := 0
	for _, members := range []map[string]any{before, after} {
		for name := range members {
			ignored := name == "metadata" || kind.hasStatus && name == "status"
			if !ignored && !same(before[name], after[name]) {
				changed = 1
			}
		}
	}
	return number(integer(object(before, "metadata"), "generation") + changed)
}

func copyMember(source, target map[string]any, name string) {
	if value, ok := source[name]; ok {
		target[name] = clone(value)
	} else {
		delete(target, name)
	}
}

func isStatus(pointer string) bool {
	return pointer == "/status" || strings.HasPrefix(pointer, "/status/")
}

// tracked returns the values that have field managers, by pointer.
func tracked(manifest map[string]any) map[string]any {
	found := leaves(manifest)
	for _, pointer := range []string{"", "/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"} {
		delete(found, pointer)
	}
	maps.DeleteFunc(found, func(pointer string, _ any) bool { return strings.HasPrefix(pointer, "/metadata/managedFields") })
	for _, field := range serverFields {
		delete(found, "/metadata/"+field)
	}
	return found
}

func conflict(message, version string) *host.APIError {
	err := pilothouse_controller_types.MakeApiErrorConflict(
		pilothouse_controller_types.ConflictInfo{Message: message, ResourceVersion: version})
	return &err
}

func invalid(field, reason, message string) *host.APIError {
	cause := pilothouse_controller_types.Cause{Field: field, Reason: reason, Message: message}
	err := pilothouse_controller_types.MakeApiErrorInvalid([]pilothouse_controller_types.Cause{cause})
	return &err
}

func other(code uint16, reason, message string) *host.APIError {
	err := pilothouse_controller_types.MakeApiErrorOther(
		pilothouse_controller_types.HttpStatus{Code: code, Reason: reason, Message: message})
	return &err
}
