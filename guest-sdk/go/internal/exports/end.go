// Package exports is what every exported function does at its end. The packages in its folder are the exported functions.
package exports

import (
	"fmt"
	"runtime"
	"strings"

	"pilothouse.dev/sdk/internal/host"
	wit "pilothouse.dev/sdk/internal/wit/runtime"
)

// The contract's level of errors.
const levelError = 3

// End ends a call of the plugin. A panic is told to the host's log, with its stack, and ends the instance. To be deferred.
func End() {
	if cause := recover(); cause != nil {
		host.Current.Log(levelError, fmt.Sprintf("panic: %v", cause), []host.Pair{{Key: "stack", Value: stack()}})
		wit.Abort()
	}
	wit.EndCall()
}

// stack is the plugin's own functions, innermost first: neither those of Go's runtime and of this package, which raised and caught the
// panic, nor those of the SDK that called the plugin.
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
