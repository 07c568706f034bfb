package index

import _ "pilothouse.dev/sdk/internal/bindings/exports/index" // exports index.values
