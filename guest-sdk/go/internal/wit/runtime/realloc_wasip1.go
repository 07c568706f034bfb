package runtime

import (
	"unsafe"
	_ "unsafe" // for go:linkname
)

// Before the Go runtime is up, the preview 1 adapter asks for its own memory, once: 64 KiB. It must come from somewhere that needs no
// runtime.
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

// The preview 1 adapter answers with the time that it last knew while it is paused.
//
//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func pauseClock(paused bool)

// cabiRealloc gives the host memory for what it passes.
//
// While it runs, the component may not call out, and Go's allocator does. A garbage collection that it starts reads the clock and may run
// other goroutines; and memory that was given back to the system is taken again by the clock. So the goroutine is pinned to its processor,
// where it starts and assists no collection (the next allocation outside does), and the clock stands still.
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

// Abort ends the instance: the host sees a trap.
func Abort() { abort() }

func abort()
