// Package exports ends the calls of exported functions. The packages in its folder are the exported functions.
package exports

import (
	"fmt"
	"runtime"
	"strings"

	"pilothouse.dev/sdk/internal/host"
	wit "pilothouse.dev/sdk/internal/wit/runtime"
)

// levelError is the contract's log level for errors.
const levelError = 3

// End ends a call of the plugin; exported functions defer it. A panic is logged with its stack and ends the instance.
func End() {
	if cause := recover(); cause != nil {
		host.Current.Log(levelError, fmt.Sprintf("panic: %v", cause), []host.Pair{{Key: "stack", Value: stack()}})
		wit.Abort()
	}
	wit.EndCall()
}

// stack returns the plugin's own functions on the stack, innermost first. It omits those of Go's runtime and of this package, which raised and
// caught the panic, and those of the SDK, which called the plugin.
func stack() string {
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	var lines []string
	for {
		frame, more := frames.Next()
		switch {
		case strings.HasPrefix(frame.Function, "pilothouse.dev/sdk/internal/exports.End"),
			strings.HasPrefix(frame.Function, "pilothouse.dev/sdk/internal/exports.stack"),
			strings.HasPrefix(frame.Function, "runtime.") && len(lines) == 0:
		case strings.HasPrefix(frame.Function, "pilothouse.dev/sdk/internal/exports/"):
			return strings.Join(lines, " < ")
		default:
			lines = append(lines, fmt.Sprintf("%s (%s:%d)", frame.Function, frame.File, frame.Line))
		}
		if !more {
			return strings.Join(lines, " < ")
		}
	}
}
