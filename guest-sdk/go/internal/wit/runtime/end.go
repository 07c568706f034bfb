package runtime

// EndCall ends a call of the plugin.
func EndCall() { Unpin() }
