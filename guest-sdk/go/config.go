package sdk

import (
	"encoding/json"

	plugin "pilothouse.dev/sdk/internal/exports/plugin"
	"pilothouse.dev/sdk/internal/host"
)

// Config is the sidecar's config, as JSON; "{}" without one.
type Config json.RawMessage

// Decode reads it into a struct, map or other value.
func (c Config) Decode(into any) error {
	return decode(string(c), into, func() string { return "config" })
}

// CurrentConfig is the sidecar's config, the same that describe was called with. It never changes while an instance lives: a changed sidecar
// loads the plugin anew. So it may be read once, in a function of sync.OnceValue.
func CurrentConfig() Config { return Config(host.Current.Config()) }

// Describe registers the function that says what the plugin watches and writes. Call it in init. The function runs once per load, on an
// instance of its own, where nothing but the log may be used; its error refuses the load and reaches the operator.
func Describe(describe func(Config) (Plugin, error)) {
	plugin.Handler = func(config string) (string, error) {
		described, err := describe(Config(config))
		if err != nil {
			return "", err
		}
		document, err := json.Marshal(described)
		return string(document), err
	}
}
