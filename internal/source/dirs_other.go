//go:build !linux

package source

// dirWatch is never made here: directories are polled.
type dirWatch struct{}

func newDirWatch() (*dirWatch, error)       { return nil, errNoInotify }
func (*dirWatch) want(map[string]bool) bool { return false }
func (*dirWatch) run(func(dirEvent)) error  { return nil }
func (*dirWatch) refresh(string)            {}
func (*dirWatch) close()                    {}
