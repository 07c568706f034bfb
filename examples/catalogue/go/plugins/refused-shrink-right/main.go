// The right twin of case 21.
package main

import "pilothouse.dev/examples/catalogue/shrink"

func init() { shrink.Case.ExportRight() }

func main() {}
