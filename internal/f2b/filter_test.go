package f2b

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// folder writes files and returns their folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, text string, o Options) *Filter {
	t.Helper()
	f, problems := Load(filepath.Join(folder(t, map[string]string{"x.conf": text}), "x.conf"), o)
	if f == nil {
		t.Fatal(problems)
	}
	return f
}

type verdicts []struct {
	line string
	want Verdict
	addr string
	user string
}

func (all verdicts) check(t *testing.T, f *Filter) {
	t.Helper()
	s := f.Session(nil)
	for _, c := range all {
		got, v := s.Line([]byte(c.line), 0, agreeNow)
		addr := ""
		if v == Counted {
			addr = got.Addr.String()
		}
		if v != c.want || addr != c.addr || string(got.User) != c.user {
			t.Errorf("%q: got verdict %d, %q by %q; want %d, %q by %q", c.line, v, addr, got.User, c.want, c.addr, c.user)
		}
	}
}

// TestInjectedAddress: a line that the filter can read with another address than
// the first is read with none.
func TestInjectedAddress(t *testing.T) {
	f := load(t, "[Definition]\nfailregex = ^ app: bad login of .* from <HOST>\n"+
		" ^ app: refused <HOST>: .*$\n ^ app: refused .* for <HOST>$\n ^ app: late <F-USER>.*</F-USER> from <HOST>$\n", Options{})
	verdicts{
		{"Nov 22 10:00:00 app: bad login of joe from 192.0.2.1", Counted, "192.0.2.1", ""},
		{"Nov 22 10:00:00 app: bad login of joe from 192.0.2.15 port 22", Counted, "192.0.2.15", ""},
		{"Nov 22 10:00:00 app: bad login of x from 198.51.100.9 from 192.0.2.1", Ambiguous, "", ""},
		{"Nov 22 10:00:00 app: bad login of x from 2001:db8::1 from 192.0.2.1", Ambiguous, "", ""},
		{"Nov 22 10:00:00 app: bad login of 198.51.100.9 from 192.0.2.1", Counted, "192.0.2.1", ""},
		{"Nov 22 10:00:00 app: refused 192.0.2.1: user x for 198.51.100.9", Ambiguous, "", ""},
		{"Nov 22 10:00:00 app: late x from 198.51.100.9 from 192.0.2.1", Counted, "192.0.2.1", "x from 198.51.100.9"},
		{"Nov 22 10:00:00 app: bad login of joe from www.example.org", Named, "", ""},
	}.check(t, f)
}

// TestLongLine: behind the limit of a line's length may stand the true address,
// so that none but one at the line's begin counts.
func TestLongLine(t *testing.T) {
	f := load(t, "[Definition]\nfailregex = ^ app: bad login of .* from <HOST>\n ^<HOST> .* \"GET /admin\ndatepattern = {NONE}\n", Options{})
	long := strings.Repeat("x", MaxLine)
	verdicts{
		{" app: bad login of x from 198.51.100.9 from 192.0.2.1", Ambiguous, "", ""},
		{" app: bad login of x from 198.51.100.9 " + long + " from 192.0.2.1", OverLimit, "", ""},
		{"192.0.2.1 - - \"GET /admin" + long, Counted, "192.0.2.1", ""},
	}.check(t, f)
	if _, v := f.Session(nil).CutLine([]byte(" app: bad login of x from 198.51.100.9"), 0, agreeNow); v != OverLimit {
		t.Errorf("a line whose end is missing: got verdict %d", v)
	}
}

// TestConnection counts by the lines of a connection together, as sshd's filter does.
func TestConnection(t *testing.T) {
	f := load(t, `[Definition]
prefregex = ^<F-MLFID>\s*sshd\[\d+\]:</F-MLFID> <F-CONTENT>.+</F-CONTENT>$
failregex = ^<F-NOFAIL>Connection from</F-NOFAIL> <HOST>
            ^Failed \S+ for <F-USER>\S+</F-USER>$
            ^<F-MLFGAINED>Accepted</F-MLFGAINED> \S+ for <F-USER>\S+</F-USER>$
            ^<F-MLFFORGET><F-NOFAIL>Closed</F-NOFAIL></F-MLFFORGET>
`, Options{})
	if !f.Stateful() {
		t.Error("a filter with <F-MLFID> must be stateful")
	}
	const at = "Nov 22 10:00:00 sshd"
	verdicts{
		{at + "[1]: Failed password for joe", Waiting, "", ""},
		{at + "[2]: Connection from 192.0.2.2", Waiting, "", ""},
		{at + "[2]: Failed password for joe", Counted, "192.0.2.2", "joe"},
		{at + "[2]: Accepted password for joe", Waiting, "", ""},
		{at + "[2]: Failed password for joe", Counted, "192.0.2.2", "joe"},
		{at + "[2]: Closed", Waiting, "", ""},
		{at + "[2]: Failed password for joe", Waiting, "", ""},
	}.check(t, f)
}

// TestLinesTogether matches several lines, as maxlines says.
func TestLinesTogether(t *testing.T) {
	f := load(t, "[Init]\nmaxlines = 5\n[Definition]\nfailregex = ^ \\[(?P<id>\\d+)\\] wrong password$<SKIPLINES>^ \\[(?P=id)\\] bye <HOST>$\n", Options{})
	const at = "2026-11-22 10:00:00"
	verdicts{
		{at + " [7] wrong password", NoMatch, "", ""},
		{at + " [8] bye 192.0.2.8", NoMatch, "", ""},
		{at + " [7] bye 192.0.2.7", Counted, "192.0.2.7", ""},
		{at + " [7] bye 192.0.2.7", NoMatch, "", ""},
	}.check(t, f)
}

func TestIgnoreRegexAndMode(t *testing.T) {
	text := `[Definition]
mdre-normal = ^a <HOST>$
mdre-loud = <mdre-normal>
            ^b <HOST>$
failregex = <mdre-<mode>>
ignoreregex = 192\.0\.2\.9
mode = normal
`
	const at = "Nov 22 10:00:00 "
	verdicts{{at + "a 192.0.2.1", Counted, "192.0.2.1", ""}, {at + "b 192.0.2.1", NoMatch, "", ""}, {at + "a 192.0.2.9", Ignored, "", ""}}.
		check(t, load(t, strings.ReplaceAll(text, "^", "^ "), Options{}))
	verdicts{{at + "b 192.0.2.1", Counted, "192.0.2.1", ""}}.
		check(t, load(t, strings.ReplaceAll(text, "^", "^ "), Options{Params: map[string]string{"mode": "loud"}}))
}

// TestPrefixLine: the header's expression in a group with an alternative, and
// one that begins before the tag, match what they match in fail2ban, and no more.
func TestPrefixLine(t *testing.T) {
	dir := folder(t, map[string]string{
		"common.conf": "[DEFAULT]\n_daemon = \\S*\n__prefix_line = \\s*\\S+ %(_daemon)s\\[\\d+\\]:\\s\n",
		"x.conf":      "[INCLUDES]\nbefore = common.conf\n[Definition]\n_daemon = sshd\nfailregex = ^(%(__prefix_line)s|X)bad login from <HOST>$\n .*pure-ftpd: \\(.*@<HOST>\\) \\[WARNING\\]\n",
	})
	f, problems := Load(filepath.Join(dir, "x.conf"), Options{})
	if f == nil {
		t.Fatal(problems)
	}
	const at = "Nov 22 10:00:00 host "
	verdicts{
		{at + "sshd[1]: Accepted publickey for joe from 192.0.2.1", NoMatch, "", ""},
		{at + "sshd[1]: bad login from 192.0.2.1", Counted, "192.0.2.1", ""},
		{at + "cron[1]: bad login from 192.0.2.1", NoMatch, "", ""},
		{at + "pure-ftpd: (?@192.0.2.1) [WARNING] Authentication failed", Counted, "192.0.2.1", ""},
	}.check(t, f)
}

// TestRefused names file and line of what is broken or hostile.
func TestRefused(t *testing.T) {
	deep := strings.Repeat("(", 200) + "<HOST>" + strings.Repeat(")", 200)
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"broken expression":   {map[string]string{"x.conf": "[Definition]\nfailregex = ^ok <HOST>$\n            ^(bad <HOST>$\n"}, "x.conf:3: failregex: \"^(bad <HOST>$\": missing )"},
		"include loops":       {map[string]string{"x.conf": "[INCLUDES]\nbefore = y.conf\n[Definition]\nfailregex = <HOST>\n", "y.conf": "[INCLUDES]\nafter = x.conf\n"}, "y.conf:2: the included file x.conf includes this one"},
		"include missing":     {map[string]string{"x.conf": "[INCLUDES]\n\nbefore = none.conf\n[Definition]\nfailregex = <HOST>\n"}, "x.conf:3: the included file none.conf does not exist"},
		"no UTF-8":            {map[string]string{"x.conf": "[Definition]\nfailregex = <HOST>\xff\n"}, "x.conf:2: not valid UTF-8"},
		"megabytes":           {map[string]string{"x.conf": "[Definition]\nfailregex = <HOST>\n" + strings.Repeat("# x\n", 300_000)}, "too large"},
		"names that double":   {map[string]string{"x.conf": "[Definition]\nfailregex = %(a20)s <HOST>\na00 = xxxxxxxxxxxxxxxxxxxx\n" + doubling("%(a%d)s%(a%d)s")}, "x.conf:2: failregex"},
		"tags that double":    {map[string]string{"x.conf": "[Definition]\nfailregex = <a20> <HOST>\na00 = xxxxxxxxxxxxxxxxxxxx\n" + doubling("<a%d><a%d>")}, "x.conf:2: failregex"},
		"a tag in itself":     {map[string]string{"x.conf": "[Definition]\nfailregex = <a> <HOST>\na = b<a>\n"}, "x.conf:2: failregex"},
		"exponential size":    {map[string]string{"x.conf": "[Definition]\nfailregex = (((x{1,100}){1,100}){1,100}){1,100} <HOST>\n"}, "x.conf:2: failregex"},
		"a repeat behind":     {map[string]string{"x.conf": "[Definition]\nfailregex = (?<=(?:(?:(?:(?:){200}){200}){200}){200}) <HOST>\n"}, "x.conf:2: failregex"},
		"deep":                {map[string]string{"x.conf": "[Definition]\nfailregex = " + deep + "\n"}, "nested too deeply"},
		"no address":          {map[string]string{"x.conf": "[Definition]\nfailregex = ^bad$\n"}, "has no address"},
		"no expression":       {map[string]string{"x.conf": "[Definition]\nfailregex =\n"}, "there is no failregex"},
		"an unknown name":     {map[string]string{"x.conf": "[Definition]\n\nfailregex = %(nothing)s <HOST>\n"}, "x.conf:3: failregex: %(nothing)s is not defined"},
		"bad date pattern":    {map[string]string{"x.conf": "[Definition]\nfailregex = <HOST>\ndatepattern = %%Q\n"}, "x.conf:3: datepattern"},
		"bad maxlines":        {map[string]string{"x.conf": "[Definition]\nfailregex = <HOST>\nmaxlines = 100000\n"}, "x.conf:3: maxlines"},
		"not a file":          {map[string]string{"x.conf/y": ""}, "not a regular file"},
		"no such filter":      {map[string]string{"y.conf": ""}, "no such file"},
		"lookbehind of any":   {map[string]string{"x.conf": "[Definition]\nfailregex = (?<=a*)<HOST>\n"}, "fixed width"},
		"a key in no section": {map[string]string{"x.conf": "failregex = <HOST>\n"}, "x.conf:1: expected a section"},
	} {
		begin := time.Now()
		f, problems := Load(filepath.Join(folder(t, c.files), "x.conf"), Options{})
		if f != nil || len(problems) == 0 || !strings.Contains(problems[0].Error(), c.want) {
			t.Errorf("%s: got %.300v, want %q", name, problems, c.want)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("%s: took %s", name, d)
		}
	}
}

func doubling(format string) string {
	var b strings.Builder
	for i := range 21 {
		if i > 0 {
			b.WriteString("a" + itoa(i) + " = " + strings.ReplaceAll(format, "%d", itoa(i-1)) + "\n")
		}
	}
	return b.String()
}

func itoa(i int) string { return string(rune('0'+i/10)) + string(rune('0'+i%10)) }

// TestManyBackreferences: expanding groups of few texts has a bound.
func TestManyBackreferences(t *testing.T) {
	var b strings.Builder
	for i := range 20 {
		b.WriteString(`(?P<g` + itoa(i) + `>[a-h])x(?P=g` + itoa(i) + `)`)
	}
	for i := range 20 {
		b.WriteString(`(?P=g` + itoa(i) + `)`)
	}
	begin := time.Now()
	if r, err := Compile(b.String(), false); err == nil {
		r.Match([]byte(strings.Repeat("axa", 20)+strings.Repeat("a", 20)), nil)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("took %s", d)
	}
}

// FuzzFilter reads any filter and any line: nothing panics, and nothing takes long.
func FuzzFilter(f *testing.F) {
	f.Add("[Definition]\nfailregex = ^a(?!b) (?P<q>\"?)<F-USER>x*</F-USER>(?P=q) <HOST>$\n", "Nov 22 10:00:00 a \"x\" 192.0.2.1")
	f.Add("[Init]\nmaxlines = 3\n[Definition]\nfailregex = (?i)x<SKIPLINES>(?(1)a|b) <ADDR>\ndatepattern = {^LN-BEG}EPOCH\n", "1795348800 x\nb 2001:db8::1")
	f.Add("[Definition]\nprefregex = ^<F-MLFID>\\d+</F-MLFID><F-CONTENT>.+</F-CONTENT>$\nfailregex = <SUBNET>|(a|b*)*c\nignoreregex = (?<=\\bx)y{2,}?\n", "12 10.0.0.0/8")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, lines string) {
		path := filepath.Join(dir, "x.conf")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		filter, problems := Load(path, Options{})
		if filter == nil {
			if len(problems) == 0 {
				t.Error("refused without a problem")
			}
			return
		}
		s := filter.Session(nil)
		for _, l := range strings.Split(lines, "\n") {
			if got, v := s.Line([]byte(l), 0, agreeNow); v == Counted && !got.Addr.IsValid() {
				t.Errorf("%q: counted without an address", l)
			}
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("took %s", d)
		}
	})
}
