package rules

import (
	"slices"
	"testing"

	"stoplog/internal/parse"
	"stoplog/internal/parse/pack"
)

func TestCutExtension(t *testing.T) {
	for in, want := range map[string]string{"/a/b.log.2.gz": "/a/b.log.2", "/a/b.log": "/a/b", "/a/b": "", "/a/.hidden": "", "": "", "/a/b.log-20261120": "/a/b.log", "/a/my-app": ""} {
		if got := cutExtension(in); got != want {
			t.Errorf("cutExtension(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestReadySourcesNameTheirService: no line of a ready rule's log is read as
// whoever's it looks like, and what its service is called is known.
func TestReadySourcesNameTheirService(t *testing.T) {
	packs, err := pack.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, n := range readyNames() {
		r, _ := readReady(n)
		for _, s := range r.Sources {
			if s.Kind != File {
				continue
			}
			files++
			known := s.Service == parse.Syslog || s.Service == parse.AccessLog || parse.Family(s.Service) != s.Service || packs.Pack(s.Service) != nil || slices.Contains(parse.Services(), s.Service)
			if !known {
				t.Errorf("%s: the source %s has the service %q", n, s.Path, s.Service)
			}
		}
	}
	if files < 100 {
		t.Errorf("only %d files", files)
	}
}

func TestServiceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/var/log/nginx/error.log": "nginx", "/var/log/nginx/error.log.2.gz": "nginx", "/var/log/nginx/shop-access.log-20261120.gz": "http",
		"/var/log/nginx/accessories.example.com-error.log": "nginx", "/var/log/nginx/access.example.com.error.log.1": "nginx", "/var/log/nginx/error-accessories.log": "nginx",
		"/var/log/nginx/terror.example.com-access.log": "http", "/var/log/nginx/access-shop.log": "http", "/var/log/nginx/access.log.2.gz": "http",
		"/var/log/apache2/accessories_error.log": "apache", "/var/log/apache2/other_vhosts_access.log": "http", "/var/log/apache2/error.example.com_access.log": "http",
		"/var/log/httpd/accessories-error_log": "apache", "/var/log/httpd/ssl_access_log": "http", "/var/log/httpd/access_log-20261120": "http", "/var/log/httpd/error.example.com-access_log": "http",
		"/var/log/mysql/error.log": "mysql", "/var/log/mail.log.1": "syslog", "/var/log/grafana/grafana.log": "grafana",
		"/var/log/mosquitto/mosquitto.log": "mosquitto", "/var/log/auth.log": "", "/srv/nginx/error.log": "", "": "",
		"/var/log/exim4/mainlog": "exim", "/var/log/exim4/rejectlog": "", // its lines are in mainlog, too
	} {
		if got := ServiceOf(path); got != want {
			t.Errorf("%s is a log of %q, want %q", path, got, want)
		}
	}
}

// TestAccessLogsAreNoErrorLogs: sources of access logs have no error logs, whatever
// the site is called and whichever of the ready rules are used alone.
func TestAccessLogsAreNoErrorLogs(t *testing.T) {
	logs := []string{"/var/log/nginx/accessories-error.log", "/var/log/nginx/error-access-shop.log", "/var/log/apache2/accessories-error.log", "/var/log/httpd/accessories-error_log"}
	for _, n := range readyNames() {
		r, _ := readReady(n)
		for i := range r.Sources {
			for _, path := range logs {
				if s := &r.Sources[i]; s.Service == parse.AccessLog && s.Names(path) {
					t.Errorf("%s: %s, without %v, is %s", n, s.Path, s.Exclude, path)
				}
			}
		}
	}
}

// TestExcludedNames: a log that a source excludes, by its path or by its name
// alone, is none of the source's, before and after it is rotated.
func TestExcludedNames(t *testing.T) {
	s := Source{Kind: File, Path: "/srv/*.log", Exclude: []string{"debug*.log", "/srv/own.log", "/etc/*"}}
	for path, want := range map[string]bool{
		"/srv/app.log": true, "/srv/app.log.1": true, "/srv/etc.log": true,
		"/srv/debug.log": false, "/srv/debug2.log.3.gz": false, "/srv/own.log": false, "/srv/own.log-20261120.gz": false, "/srv/app.txt": false,
	} {
		if got := s.Names(path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}
