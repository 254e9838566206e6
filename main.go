// Command stoplog tails access and auth logs, pours failures into leaky
// buckets kept per network prefix, and on breach blocks the prefix with a TTL.
package main

import (
	_ "embed"
	"os"

	"stoplog/cmd"
)

// example is the commented example and the built-in rules in one.
//
//go:embed rules.example.yaml
var example []byte

func main() { os.Exit(cmd.Main(example, os.Args[1:])) }
