package runtime

import (
	"unsafe"
	_ "unsafe" // for go:linkname
)

// Memory for the preview 1 adapter, which allocates 64 KiB once, before the Go runtime is initialized. It must not come from Go's allocator.
var (
	early     [132 << 10]byte
	earlyUsed uintptr
	started   bool
)

func init() { started = true }

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// While it is paused, the preview 1 adapter returns the last time that it read from the clock.
//
//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func pauseClock(paused bool)

// cabiRealloc allocates memory for the values that the host passes.
//
// While it runs, the component must not call imports, but Go's allocator does: a garbage collection that it starts reads the clock and may run
// other goroutines, and the scavenger reads the clock before it reuses memory that was returned to the system. Therefore the goroutine is
// pinned to its processor, where it neither starts nor assists a collection (the next allocation outside does), and the clock is paused.
//
//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if !started {
		return allocateEarly(align, size)
	}
	if size == 0 {
		return unsafe.Pointer(align)
	}
	pauseClock(true)
	procPin()
	pointer := allocate(size, align)
	if old != nil {
		copy(unsafe.Slice((*byte)(pointer), size), unsafe.Slice((*byte)(old), oldSize))
	}
	received = append(received, pointer)
	procUnpin()
	pauseClock(false)
	return pointer
}

func allocateEarly(align, size uintptr) unsafe.Pointer {
	base := uintptr(unsafe.Pointer(&early))
	start := (base+earlyUsed+align-1)&^(align-1) - base
	if start+size > uintptr(len(early)) {
		abort()
	}
	earlyUsed = start + size
	return unsafe.Pointer(&early[start])
}

// Abort ends the instance with a trap.
func Abort() { abort() }

func abort()
