package parse

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

// known is a line and the service whose it is; tag is its program when the line
// is only the message.
type knownLine struct{ service, tag, line string }

// knownLines are lines of every family and pack: those of testdata/written.log
// and the packs' samples.
func knownLines(t testing.TB) (out []knownLine) {
	data, err := os.ReadFile("testdata/written.log")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		service, _, _ := strings.Cut(lines[i], " ")
		out = append(out, knownLine{service: service, line: strings.TrimPrefix(lines[i+1], "\t")})
	}
	files, err := filepath.Glob("pack/packs/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d packs, %v", len(files), err)
	}
	for _, f := range files {
		var p struct {
			Name    string
			Samples []struct{ Line, Tag string }
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Samples {
			out = append(out, knownLine{p.Name, s.Tag, s.Line})
		}
	}
	return out
}

// text is the line as a file of its service or of syslog has it.
func (k *knownLine) text() string {
	if k.tag == "" {
		return k.line
	}
	return "Nov 20 09:23:10 host " + k.tag + "[5]: " + k.line
}

func boundParser(t testing.TB, service string) *Parser {
	t.Helper()
	packs, err := pack.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Service: service, Packs: packs})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// whole tells everything that an event says, in memory of its own.
func whole(ev *Event, ok bool) string {
	if !ok {
		return "-"
	}
	s := fmt.Sprintf("%d %s %s %v %v %q %q %x %d %d %v %q %q %q %q %q %q %d", ev.Time, ev.Addr, ev.Service, ev.Outcome, ev.Kind, ev.User, ev.Message,
		ev.Conn, ev.Class, ev.Count, ev.Verified, ev.Method, ev.Path, ev.Query, ev.Agent, ev.Referrer, ev.Host, ev.Status)
	for _, f := range ev.Fields {
		s += fmt.Sprintf(" %s=%q", f.Name, f.Value)
	}
	return s
}

// TestServiceReadsItsOwn: who names the service of a file loses none of its
// lines.
func TestServiceReadsItsOwn(t *testing.T) {
	sniff := daemonParser(t, "")
	parsers := map[string]*Parser{}
	lines, read := knownLines(t), 0
	for i := range lines {
		k := &lines[i]
		if k.service == "-" || k.service == "generic" || k.service == "app" || k.service == "pam" {
			continue
		}
		if strings.HasPrefix(k.line, "type=") {
			k.service = "audit"
		}
		p := parsers[k.service]
		if p == nil {
			p = boundParser(t, k.service)
			parsers[k.service] = p
		}
		want, ok := parseOne(t, sniff, k.text())
		got, bound := parseOne(t, p, k.text())
		if ok && brief(&got, bound) != brief(&want, ok) {
			t.Errorf("%s\n as a line of %s %s, without a binding %s", k.text(), k.service, brief(&got, bound), brief(&want, ok))
		}
		if bound {
			read++
		}
	}
	if read < 450 {
		t.Errorf("only %d lines were read", read)
	}
}

// TestNobodyElseSpeaks puts every line that is known into the files of every
// other service, as it is and indented: nothing that a client could write on a
// line of its own there is read as another service's, nor as the file's own.
func TestNobodyElseSpeaks(t *testing.T) {
	lines := knownLines(t)
	services := map[string]bool{}
	for i := range lines {
		services[lines[i].service] = true
	}
	for _, s := range []string{"-", "generic", "app", "pam", "http"} {
		delete(services, s) // what any program writes
	}
	for _, s := range []string{"nginx", "apache", "mysql", "postgres", "sshd", "dovecot", "exim", "proftpd", "vsftpd", "redis", "grafana"} {
		if !services[s] && Family(s) == "" {
			t.Fatalf("no line of %s", s)
		}
		services[s] = true
	}
	for _, s := range ownNames {
		services[s] = true
	}
	packs, err := pack.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for s := range services {
		own := slices.Contains(ownNames, s)
		if !own && familyOf([]byte(s)) == "" && packs.Pack(s) == nil {
			continue // only PAM names it: it may be any application
		}
		p := boundParser(t, s)
		for i := range lines {
			k := &lines[i]
			ev, ok := parseOne(t, p, k.text())
			if ok && !akin(s, ev.Service) {
				t.Errorf("in a file of %s, %s speaks: %s", s, ev.Service, k.text())
			}
			if own {
				continue
			}
			if ok && k.service != s && ev.Addr.IsValid() && ev.Outcome != Other && !alike(s, k.service) {
				t.Errorf("in a file of %s, a line of %s is read: %s", s, k.service, k.text())
			}
			p.Reset()
			if ev, ok := parseOne(t, p, " "+k.text()); ok && k.line[0] != '[' {
				t.Errorf("in a file of %s, an indented line is read as %s: %s", s, ev.Service, k.text())
			}
			if ev, ok := parseOne(t, p, "\t"+k.text()); ok {
				t.Errorf("in a file of %s, an indented line is read as %s: %s", s, ev.Service, k.text())
			}
			p.Reset()
		}
	}
}

// ownNames are services of users' own applications. Some begin like a service
// that is known, or have one's name as a word.
var ownNames = []string{"shop", "login-portal", "ssh-dashboard", "nginx-app", "audit-viewer", "shop-gitea", "my-redis", "remote-desk"}

// akin reports whether a file of service may have events of got. What nobody
// knows under a syslog tag may be an application's of the user's own.
func akin(service, got string) bool {
	if slices.Contains(ownNames, service) {
		return got == "generic"
	}
	return service == got || alike(service, got)
}

// alike reports whether one line may be of either service: an access log's of
// any web server, and those whose programs have the same tags.
func alike(a, b string) bool {
	for _, set := range [...][]string{
		{"http", "nginx", "apache", "lighttpd", "haproxy", "squid", "caddy", "traefik", "envoy", "varnish"},
		{"cucipop", "solid-pop3d"}, {"uw-imap", "uwimap"}, {"pfsense", "opnsense"}, {"domino", "domino-smtp"}, {"baikal", "nginx"}, {"baikal", "apache"},
	} {
		if (b == set[0] || set[0] != "http") && slices.Contains(set, a) && slices.Contains(set, b) {
			return true
		}
	}
	return false
}

// TestOnlyTagsSpeakWithoutAService: in a file that nobody named the service of,
// no line counts that syslog did not tag.
func TestOnlyTagsSpeakWithoutAService(t *testing.T) {
	p := boundParser(t, "")
	tagged := 0
	for _, k := range knownLines(t) {
		if ev, ok := parseOne(t, p, k.text()); ok {
			if tagged++; !p.sealed && p.host == nil && p.pid == nil && p.time == 0 {
				t.Errorf("without a header, as %s: %s", ev.Service, k.text())
			}
		}
		for _, lead := range []string{" ", "\t"} {
			if _, ok := parseOne(t, p, lead+k.text()); ok {
				t.Errorf("indented: %s", k.text())
			}
		}
		p.Reset()
	}
	if tagged < 150 {
		t.Errorf("only %d tagged lines are read", tagged)
	}
	for _, service := range []string{Syslog, "auth"} {
		p = boundParser(t, service)
		for _, k := range knownLines(t) {
			if ev, ok := parseOne(t, p, k.text()); ok && p.tag == nil {
				t.Errorf("in a file of %s, without a tag, as %s: %s", service, ev.Service, k.text())
			}
			p.Reset()
		}
	}
}

// TestBatchesDoNotMatter: what a parser said of a line stays as it was, however
// many lines it reads before Reset. The lines are those of every family, pack
// and pattern, shuffled and with other names in them.
func TestBatchesDoNotMatter(t *testing.T) {
	custom, problems := pack.CompilePattern("own", `user[= ](?P<user>\S+).* (?P<ip>\S+)`, nil, nil)
	other, _ := pack.CompilePattern("other", `(?P<first>\w+) .*(?P<rest>from <ip>.*)`, nil, nil)
	if custom == nil || other == nil {
		t.Fatal(problems)
	}
	packs, err := pack.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	lines := knownLines(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, service := range []string{"", "*", "grafana", "gitea", "redis", "proxmox", "http", "nginx", "shop"} {
		o := Options{Service: service, Packs: packs, Custom: Patterns{Bound: pack.NewSet(custom, other)}}
		if service == "*" {
			o.Service, o.Sniff = "", true
		}
		var texts []string
		for i := range lines {
			if service == "*" || service == "" || lines[i].service == service || service == "shop" && lines[i].line[0] == '{' {
				for n := range 3 {
					text := lines[i].text()
					if text[0] == '{' && n > 0 {
						text = strings.Replace(text, "192.0.2.7", fmt.Sprintf("192.0.2.%d", n), 1)
					}
					texts = append(texts, text, fmt.Sprintf("Nov 20 09:23:10 h %s[5]: \x1b[1muser=u%d_%d\x1b[0m failed from 192.0.2.%d", cmpTag(lines[i].tag), i, n, i%200),
						fmt.Sprintf("2026-11-20 09:23:10 user %d%s from 198.51.100.%d", i, strings.Repeat("x", n*7), i%200))
				}
			}
		}
		rnd.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		checkBatches(t, service, o, texts)
	}
}

func cmpTag(tag string) string {
	if tag == "" {
		return "newd"
	}
	return tag
}

func checkBatches(t *testing.T, service string, o Options, texts []string) {
	t.Helper()
	together, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var kept []Event // as a batch keeps them
	var want []string
	read := func(p *Parser, text string, f func(*Event)) {
		ev := new(Event)
		ok := p.Parse(&source.Line{Text: []byte(text)}, captured, ev)
		if !ok {
			ev = nil
		} else {
			f(ev)
		}
		p.Custom(ev, f)
	}
	for _, text := range texts {
		read(together, text, func(ev *Event) { kept = append(kept, *ev) })
		alone.Reset()
		read(alone, text, func(ev *Event) { want = append(want, whole(ev, true)) })
	}
	if len(kept) != len(want) || len(kept) < len(texts)/3 {
		t.Fatalf("%q: %d events of %d lines together, %d one by one", service, len(kept), len(texts), len(want))
	}
	bad := 0
	for i := range kept {
		if got := whole(&kept[i], true); got != want[i] && bad < 3 {
			bad++
			t.Errorf("%q: in a batch\n%s\nalone\n%s", service, got, want[i])
		}
	}
}

// TestRuntimesSpeakForNobody: what a runtime wrote is no application's, unless the
// source says whose it is.
func TestRuntimesSpeakForNobody(t *testing.T) {
	const text = "Failed authentication attempt for x from 192.0.2.7:1"
	for _, c := range []struct{ service, tag, want string }{
		{"", "python3", "-"}, {"", "node", "-"}, {"", "java", "-"}, {"", "docker", "-"}, {"", "sh", "-"}, {"syslog", "sh", "-"},
		{"", "gitea", "failure unknown_user 192.0.2.7 user=x"}, {"", "docker-gitea-1", "failure unknown_user 192.0.2.7 user=x"},
		{"gitea", "python3", "failure unknown_user 192.0.2.7 user=x"}, {"gitea", "sh", "failure unknown_user 192.0.2.7 user=x"}, {"gitea", "gitea", "failure unknown_user 192.0.2.7 user=x"},
		{"gitea", "unheard-of", "failure unknown_user 192.0.2.7 user=x"}, {"gitea", "sshd", "-"}, {"gitea", "postfix/smtpd", "-"}, {"gitea", "grafana", "-"},
		{"grafana", "python3", "-"}, {"nginx", "sh", "-"},
	} {
		p := boundParser(t, c.service)
		ev, ok := parseOne(t, p, "Nov 20 09:23:10 h "+c.tag+"[5]: "+text)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("in a file of %q, %s: got %s, want %s", c.service, c.tag, got, c.want)
		}
		p.opt.Journal.All = true // who wrote it is for TestSourcesNameWriters
		entry := &source.Entry{Time: 1, Ident: []byte(c.tag), PID: 7}
		ok = p.Parse(&source.Line{Text: []byte(text), Entry: entry}, captured, &ev)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("in the journal of %q, %s: got %s, want %s", c.service, c.tag, got, c.want)
		}
		if ok = p.Parse(&source.Line{Text: []byte("\t" + text), Entry: entry}, captured, &ev); ok {
			t.Errorf("in the journal of %q, %s: an indented message is read", c.service, c.tag)
		}
	}
}

// TestContainersSpeakForTheirService: text that a container wrote is no envelope,
// and an application's record that begins like Docker's is not unwrapped.
func TestContainersSpeakForTheirService(t *testing.T) {
	const sshd = `Nov 20 09:23:10 h sshd[5]: Failed password for root from 192.0.2.7 port 5 ssh2`
	wrap := func(s string) string { return `{"log":"` + s + `\n","stream":"stderr","time":"2026-11-20T09:23:10Z"}` }
	for _, c := range []struct{ service, line, want string }{
		{"", wrap(sshd), "-"}, {"gitea", wrap(sshd), "-"}, {"shop", wrap(sshd), "-"}, {"syslog", wrap(sshd), "failure 192.0.2.7 user=root"},
		{"", "2026-11-20T09:23:10Z stdout F " + sshd, "-"},
		{"gitea", wrap("Failed authentication attempt for x from 192.0.2.7:1"), "failure unknown_user 192.0.2.7 user=x"},
		{"gitea", `{"log":"Failed authentication attempt for x from 192.0.2.7:1","level":"info","time":"2026-11-20T09:23:10Z"}`, "-"},
		{"gitea", `{"log":"Failed authentication attempt for x from 192.0.2.7:1\n","time":"2026-11-20T09:23:10Z"}`, "-"},
		{"shop", `{"message":"192.0.2.7 - x [20/Nov/2026:09:23:10 +0000] \"GET / HTTP/1.1\" 401 5","level":"info"}`, "-"},
		{"shop", `{"msg":"login failed","ip":"192.0.2.7","user":"x"}`, "-"},
	} {
		ev, ok := parseOne(t, boundParser(t, c.service), c.line)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("in a file of %q: %s\n got %s, want %s", c.service, c.line, got, c.want)
		}
	}
}
