package observe

import _ "pilothouse.dev/sdk/internal/bindings/exports/observe" // exports observe.observe
