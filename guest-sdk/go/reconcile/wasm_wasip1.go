package reconcile

import _ "pilothouse.dev/sdk/internal/bindings/exports/reconcile" // exports reconcile.reconcile
