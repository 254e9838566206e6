package migrate

import (
	"slices"
	"testing"
)

// TestServicesOfFiles: a file that jails of one service read is that service's;
// one that others' patterns read too is nobody's alone.
func TestServicesOfFiles(t *testing.T) {
	m := &importer{files: map[string]string{}}
	for _, x := range [][2]string{{"/srv/a.log", "nginx"}, {"/srv/a.log", "nginx"}, {"/srv/b.log", "nginx"}, {"/srv/b.log", ""}, {"/srv/b.log", "nginx"}, {"/srv/c.log", "imap, courier"}, {"/srv/d.log", ""}} {
		m.addFile(x[0], x[1], "")
	}
	want := []string{"{file: '/srv/a.log', service: nginx}", "{file: '/srv/b.log'}", "{file: '/srv/c.log'}", "{file: '/srv/d.log'}"}
	if !slices.Equal(m.sources, want) {
		t.Errorf("got %q, want %q", m.sources, want)
	}
}
