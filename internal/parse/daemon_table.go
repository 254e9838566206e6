package parse

// daemonScanner returns the scanner of a daemon's syslog tag, nil when it is
// none's.
func daemonScanner(tag []byte) scanner { return nil }

// bareDaemon reads a line of a daemon's own log file, and sets its time.
func bareDaemon(p *Parser, line []byte, ev *Event) bool { return false }
