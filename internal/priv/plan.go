// Package priv gives up rights. A process that was started as root calls
// Become once, while it is still setting up, and goes on as another image of
// the same program that holds only what it was left; its children hold
// nothing at all once DropAmbient has run.
package priv

// Plan says who to become and which capabilities to keep.
type Plan struct {
	UID, GID int
	Groups   []int
	Keep     []int // capability numbers
}
