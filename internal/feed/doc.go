// Package feed lets other machines and programs ask, by HTTP, what is blocked:
// the feed is the whole list in any format of package export, the check says
// of one client whether it may pass. Both fail open: what cannot be told
// blocks nobody.
package feed
