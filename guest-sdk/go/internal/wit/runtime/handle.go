// Package runtime is what the generated bindings need at run time: handles, memory for arguments and results, and the mends for the faults
// that Go's own runtime has as a component.
package runtime

// Handle is the number of a resource, as long as it is held.
type Handle struct{ value int32 }

// MakeHandle holds a resource.
func MakeHandle(value int32) *Handle { return &Handle{value} }

// Use gives the number; of a closed handle it panics.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("the handle is closed: an object is valid until the end of the call, or of the step of the loop, that got it")
	}
	return h.value
}

// Take gives the number and lets go of it.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// TakeOrNil is Take, with 0 for a closed handle.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

// Set holds a resource again.
func (h *Handle) Set(value int32) { h.value = value }
