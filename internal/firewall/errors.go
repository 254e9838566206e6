package firewall

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrBroken is wrapped by Check's error when something that Setup made is gone.
var ErrBroken = errors.New("no longer as it was set up")

// ErrUnsupported is wrapped by the error of a block that this wall cannot
// hold the way it was asked for.
var ErrUnsupported = errors.New("not possible in this wall")

// FullError tells which entries found no place.
type FullError struct {
	Wall string // Name of the backend
	Max  int    // what it holds at most
	Left []netip.Prefix
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s: full at %d blocks, %d left out: %v", e.Wall, e.Max, len(e.Left), e.Left[:min(len(e.Left), 3)])
}
