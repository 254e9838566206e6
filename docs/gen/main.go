// Command gen writes the pages that are made from the code into the folder
// that it runs in.
package main

import (
	"fmt"
	"os"

	"stoplog/docs"
)

func main() {
	for name, text := range docs.Generated() {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}
