package parse

// web is what the web families keep in a parser: the format that the user
// named, compiled, and the memory that unescaped values live in.
type web struct {
	format  *format
	scratch []byte
}

func newWeb(o *Options) (web, error) {
	f, err := compileFormat(o.Format)
	return web{format: f}, err
}

func (w *web) reset() { w.scratch = w.scratch[:0] }

// webScanner returns the scanner of a web server's or proxy's syslog tag, nil
// when it is none's.
func webScanner(tag []byte) scanner { return nil }

// bareWeb reads a line that has no syslog envelope, and sets its time.
func bareWeb(p *Parser, line []byte, ev *Event) bool { return false }
