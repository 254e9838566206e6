package firewall

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrBroken is wrapped by Check's error when something that Setup made is gone.
var ErrBroken = errors.New("changed by another program")

// ErrGone is wrapped by every error of a Client whose wall process ended, or
// did not answer in time: nothing can be ordered any more.
var ErrGone = errors.New("the wall process has exited")

// ErrUnsupported is wrapped by the error of a block that this wall cannot
// hold the way it was asked for.
var ErrUnsupported = errors.New("not supported by this backend")

// FullError names the entries that found no place.
type FullError struct {
	Wall string // Name of the backend
	Max  int    // what it holds at most
	Left []netip.Prefix
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s: full with %d blocks, %d not blocked: %v", e.Wall, e.Max, len(e.Left), e.Left[:min(len(e.Left), 3)])
}
