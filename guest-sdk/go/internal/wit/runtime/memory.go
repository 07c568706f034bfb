package runtime

import (
	"runtime"
	"unsafe"
)

// Allocate gives memory to write arguments or results to, which stays where it is until the pinner lets go of it.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	pointer := allocate(size, align)
	pinner.Pin(pointer)
	return pointer
}

func allocate(size, align uintptr) unsafe.Pointer {
	// A slice of words is aligned to 8, whatever its length. Garbage collection must not look for pointers in it: they are numbers there.
	if align > 1 {
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	}
	return unsafe.Pointer(unsafe.SliceData(make([]byte, size)))
}

// What the host wrote, and nobody has read yet.
var received []unsafe.Pointer

// Unpin lets go of what the host wrote: its strings have been read, so they are reachable by themselves.
func Unpin() {
	clear(received)
	received = received[:0]
}
