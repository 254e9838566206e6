//go:build man

package cmd

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// extra are commands that only the build for making the documents has: the
// program itself does without a Markdown reader.
func extra(*env) []*cobra.Command {
	return []*cobra.Command{{
		Use:    "man DIR",
		Short:  "Write a man page for each command to DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(c *cobra.Command, args []string) error { return writeMan(c.Root(), args[0]) },
	}}
}

func writeMan(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	root.DisableAutoGenTag = true
	// The date of the pages is the source's, so that they can be made again.
	date := time.Unix(0, 0).UTC()
	return doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "stoplog " + Version, Manual: "stoplog", Date: &date}, dir)
}
