package parse

// webScanner returns the scanner of a web server's or proxy's syslog tag, nil
// when it is none's.
func webScanner(tag []byte) scanner { return nil }

// bareWeb reads a line that has no syslog envelope, and sets its time.
func bareWeb(p *Parser, line []byte, ev *Event) bool { return false }
