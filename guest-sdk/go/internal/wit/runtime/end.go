package runtime

import "runtime"

// After so many calls other goroutines get their turn.
const callsPerTurn = 32

var calls int

// EndCall ends a call of the plugin.
//
// Go's runtime has goroutines of its own: they end garbage collections, and run the clean-ups of what was collected. Calls are too short for
// the scheduler to run them by itself, so that without a turn now and then memory would only grow.
func EndCall() {
	Unpin()
	if calls++; calls%callsPerTurn == 0 {
		runtime.Gosched()
	}
}
