package sdk

import "fmt"

// OwnerReference is an element of metadata.ownerReferences.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

// ControllerReference returns a controlling reference to owner, for metadata.ownerReferences of an object that the owner creates. The garbage
// collector deletes the object after its owner; with foreground deletion the owner waits for the object.
func ControllerReference(owner *Object) OwnerReference {
	yes := true
	return OwnerReference{APIVersion: owner.APIVersion(), Kind: owner.Kind(), Name: owner.Key().Name, UID: owner.UID(),
		Controller: &yes, BlockOwnerDeletion: &yes}
}

// IsControlledBy returns whether owner controls the object. It compares UIDs, because an owner that was deleted and recreated does not own the
// objects of its predecessor.
func (o *Object) IsControlledBy(owner *Object) bool {
	controller, ok := o.Controller()
	return ok && controller.UID == owner.UID()
}

// AlreadyControlledError means that another object already controls the object.
type AlreadyControlledError struct {
	Object string
	Kind   string
	Name   string
}

func (e *AlreadyControlledError) Error() string {
	return fmt.Sprintf("%s is already controlled by %s %s", e.Object, e.Kind, e.Name)
}

// SetController makes owner the controller of an object, as controller-runtime's SetControllerReference does. An existing reference to the same
// owner is updated. When another object already controls it, the error is an [AlreadyControlledError]: two controllers would fight over it.
func SetController(meta *ObjectMeta, owner *Object) error {
	reference := ControllerReference(owner)
	for i, present := range meta.OwnerReferences {
		if present.UID == reference.UID {
			meta.OwnerReferences[i] = reference
			return nil
		}
		if present.Controller != nil && *present.Controller {
			return &AlreadyControlledError{Object: meta.Name, Kind: present.Kind, Name: present.Name}
		}
	}
	meta.OwnerReferences = append(meta.OwnerReferences, reference)
	return nil
}
