//go:build !man

package cmd

import "github.com/spf13/cobra"

// extra are commands that only the build for making the documents has.
func extra(*env) []*cobra.Command { return nil }
