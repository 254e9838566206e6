package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// commands builds all of them again; none is kept anywhere.
func commands(e *env) []*cobra.Command {
	return []*cobra.Command{
		runCmd(e), endsAtOnce(checkCmd(e)), endsAtOnce(parseCmd(e)), endsAtOnce(replayCmd(e)), watchCmd(e), tuneCmd(e),
		statusCmd(e), listCmd(e), endsAtOnce(explainCmd(e)), historyCmd(e),
		blockCmd(e), unblockCmd(e), allowCmd(e), flagCmd(e), exportCmd(e), reloadCmd(e),
		topCmd(e), reportCmd(e), tokenCmd(e), fleetCmd(e),
		endsAtOnce(importCmd(e)), versionCmd(e), endsAtOnce(doctorCmd(e)), teardownCmd(e), wallCmd(e),
	}
}

// endsAtOnce gives ^C and SIGTERM their default effect while c runs: it only
// reads, for as long as that may take, and has nothing to finish or to undo.
func endsAtOnce(c *cobra.Command) *cobra.Command {
	c.PersistentPreRun = func(*cobra.Command, []string) { signal.Reset(os.Interrupt, syscall.SIGTERM) }
	return c
}
