package sdk

import (
	"encoding/json"

	plugin "pilothouse.dev/sdk/internal/exports/plugin"
	"pilothouse.dev/sdk/internal/host"
)

// Config is the sidecar's config as JSON, or "{}" when it has none.
type Config json.RawMessage

// Decode reads the config into a struct, map or other variable.
func (c Config) Decode(into any) error {
	return decode(string(c), into, func() string { return "config" })
}

// CurrentConfig returns the sidecar's config, the same that describe received. It is constant for the lifetime of an instance, because a changed
// sidecar reloads the plugin. It may therefore be read once, with sync.OnceValue.
func CurrentConfig() Config { return Config(host.Current.Config()) }

// Describe registers the function that returns the plugin's descriptor. Call it in init. The host calls the function once per load, on a
// separate instance on which only the log may be used. An error refuses the load and is shown to the operator.
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
