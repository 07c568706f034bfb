package runtime

import (
	"runtime"
	"unsafe"
)

// Allocate returns memory for arguments or results, which does not move until the pinner unpins it.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	pointer := allocate(size, align)
	pinner.Pin(pointer)
	return pointer
}

func allocate(size, align uintptr) unsafe.Pointer {
	// A slice of words is aligned to 8, whatever its length. The garbage collector must not scan it, because it holds pointers as
	// integers.
	if align > 1 {
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	}
	return unsafe.Pointer(unsafe.SliceData(make([]byte, size)))
}

// Pins the memory that the host wrote to until it was read.
var received []unsafe.Pointer

// Unpin releases the memory that the host wrote to. Its strings were read by then and keep themselves reachable.
func Unpin() {
	clear(received)
	received = received[:0]
}
