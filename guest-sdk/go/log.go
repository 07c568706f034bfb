package sdk

import (
	"context"
	"log/slog"

	"pilothouse.dev/sdk/internal/host"
)

// LogHandler returns a handler that writes to the host's log, which adds the plugin to every line, and in a reconcile the watch and the key. In a
// plugin it is the default handler of slog and of the package log: slog.Info("scaling", "replicas", 3).
func LogHandler() slog.Handler { return logHandler{} }

type logHandler struct {
	fields []host.Pair
	prefix string
}

// Enabled returns true, because the host decides which levels it logs.
func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes one line.
func (h logHandler) Handle(_ context.Context, record slog.Record) error {
	fields := h.fields[:len(h.fields):len(h.fields)]
	record.Attrs(func(attribute slog.Attr) bool {
		fields = appendField(fields, h.prefix, attribute)
		return true
	})
	host.Current.Log(logLevel(record.Level), record.Message, fields)
	return nil
}

// WithAttrs adds fields to every line.
func (h logHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	h.fields = h.fields[:len(h.fields):len(h.fields)]
	for _, attribute := range attributes {
		h.fields = appendField(h.fields, h.prefix, attribute)
	}
	return h
}

// WithGroup prefixes the names of the fields that follow.
func (h logHandler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.prefix += name + "."
	}
	return h
}

func appendField(fields []host.Pair, prefix string, attribute slog.Attr) []host.Pair {
	value := attribute.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if attribute.Key != "" {
			prefix += attribute.Key + "."
		}
		for _, inner := range value.Group() {
			fields = appendField(fields, prefix, inner)
		}
		return fields
	}
	if attribute.Key == "" {
		return fields
	}
	return append(fields, host.Pair{Key: prefix + attribute.Key, Value: value.String()})
}

// logLevel converts a level to the contract's: debug, info, warn, error.
func logLevel(level slog.Level) uint8 {
	switch {
	case level < slog.LevelInfo:
		return 0
	case level < slog.LevelWarn:
		return 1
	case level < slog.LevelError:
		return 2
	default:
		return 3
	}
}
