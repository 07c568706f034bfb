package runtime

import "runtime"

// The number of calls after which other goroutines may run.
const callsPerTurn = 32

var calls int

// EndCall ends a call of the plugin.
//
// Go's runtime has goroutines that finish garbage collections and run cleanups. Calls are too short for the scheduler to switch to them, so
// memory would only grow unless EndCall yields now and then.
func EndCall() {
	Unpin()
	if calls++; calls%callsPerTurn == 0 {
		runtime.Gosched()
	}
}
