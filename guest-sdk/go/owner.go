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

// ControllerReference is a controlling reference to owner, for metadata.ownerReferences of what it creates. The garbage collector deletes
// the object after its owner, and, with foreground deletion, the owner waits for it.
func ControllerReference(owner *Object) OwnerReference {
	yes := true
	return OwnerReference{APIVersion: owner.APIVersion(), Kind: owner.Kind(), Name: owner.Key().Name, UID: owner.UID(),
		Controller: &yes, BlockOwnerDeletion: &yes}
}

// IsControlledBy says whether owner controls the object: by UID, since an owner that was deleted and made again owns nothing yet.
func (o *Object) IsControlledBy(owner *Object) bool {
	controller, ok := o.Controller()
	return ok && controller.UID == owner.UID()
}

// AlreadyControlledError says that another object controls this one already.
type AlreadyControlledError struct {
	Object string
	Kind   string
	Name   string
}

func (e *AlreadyControlledError) Error() string {
	return fmt.Sprintf("%s is already controlled by %s %s", e.Object, e.Kind, e.Name)
}

// SetController makes owner the controller of an object, as controller-runtime's SetControllerReference does. Setting it again brings the
// reference up to date. Where another object controls it, the error is an [AlreadyControlledError]: two controllers would fight.
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
