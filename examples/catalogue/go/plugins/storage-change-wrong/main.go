// The wrong twin of case 3.
package main

import "pilothouse.dev/examples/catalogue/storage"

func init() { storage.Case.ExportWrong() }

func main() {}
