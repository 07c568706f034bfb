// Package runtime has what the generated bindings need at run time: handles, memory for arguments and results, and workarounds for the problems
// that Go's runtime has in a component.
package runtime

// Handle owns the number of a resource until it is closed.
type Handle struct{ value int32 }

// MakeHandle returns a handle that owns a resource.
func MakeHandle(value int32) *Handle { return &Handle{value} }

// Use returns the number. It panics for a closed handle.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("the handle is closed: an object is valid until the end of the call, or of the step of the loop, that got it")
	}
	return h.value
}

// Take returns the number and closes the handle. It panics for a closed handle.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// TakeOrNil is like Take, but returns 0 for a closed handle.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

// Set makes the handle own a resource again.
func (h *Handle) Set(value int32) { h.value = value }
