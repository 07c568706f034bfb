package sdk

import (
	"log/slog"

	_ "pilothouse.dev/sdk/internal/bindings/exports/plugin" // exports plugin.describe
)

func init() { slog.SetDefault(slog.New(LogHandler())) }
