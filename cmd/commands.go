package cmd

import "github.com/spf13/cobra"

// commands builds all of them anew; none is kept anywhere.
func commands(e *env) []*cobra.Command {
	return []*cobra.Command{
		runCmd(e), checkCmd(e), parseCmd(e), replayCmd(e),
		statusCmd(e), listCmd(e), explainCmd(e), historyCmd(e),
		blockCmd(e), unblockCmd(e), allowCmd(e), flagCmd(e), exportCmd(e), reloadCmd(e),
		topCmd(e), reportCmd(e), tokenCmd(e),
		importCmd(e), versionCmd(e), doctorCmd(e), teardownCmd(e), wallCmd(e),
	}
}
