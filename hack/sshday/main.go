// Command sshday writes a made-up day of sshd's log of so many lines to
// standard output: go run ./hack/sshday 1000000 >auth.log
package main

import (
	"fmt"
	"os"
	"strconv"

	"stoplog/hack/sshday/day"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sshday LINES")
		os.Exit(2)
	}
	n, err := strconv.Atoi(os.Args[1])
	if err != nil || n < 1 {
		fmt.Fprintf(os.Stderr, "sshday: %q is no number of lines\n", os.Args[1])
		os.Exit(2)
	}
	if err := day.Write(os.Stdout, n); err != nil {
		fmt.Fprintln(os.Stderr, "sshday:", err)
		os.Exit(1)
	}
}
