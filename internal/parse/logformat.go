package parse

// format is a compiled access log format.
type format struct{}

// compileFormat reads o.Format; nil is to sniff.
func compileFormat(spec string) (*format, error) { return nil, nil }

func (f *format) match(p *Parser, line []byte, ev *Event) bool { return false }

func presets(p *Parser, line []byte, ev *Event) bool { return false }
func jsonLog(p *Parser, line []byte, ev *Event) bool { return false }
func logfmtLog(p *Parser, line []byte, ev *Event) bool { return false }
