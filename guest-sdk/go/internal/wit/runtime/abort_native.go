//go:build !wasip1

package runtime

// Abort ends a test, where there is no instance to end.
func Abort() { panic("the plugin panicked") }
