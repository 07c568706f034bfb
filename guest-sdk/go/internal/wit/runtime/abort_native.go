//go:build !wasip1

package runtime

// Abort panics: in a test there is no instance to end.
func Abort() { panic("the plugin panicked") }
