// The right twin of case 14.
package main

import "pilothouse.dev/examples/catalogue/applied"

func init() { applied.Case.ExportRight() }

func main() {}
