package notify

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"stoplog/internal/rules"
)

// TestDocs takes the page's own rules and looks whether they can be used, and
// whether templates see what it says.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML, want 2", len(blocks))
	}
	for _, b := range blocks {
		text := "sources: [auth]\n" + string(b[1])
		if !strings.Contains(text, "\nuse:") {
			text = "use: [ssh]\n" + text
		}
		set, problems := rules.LoadBytes("docs/notifications.md", []byte(text), "")
		if set == nil {
			t.Fatalf("%v in:\n%s", problems, b[1])
		}
		for _, w := range set.Warnings {
			t.Errorf("warning: %v", w)
		}
		if _, err := New(set.Notify, options()); err != nil {
			t.Error(err)
		}
	}
	_, fields, _ := strings.Cut(string(page), "with these fields:")
	fields, _, _ = strings.Cut(fields, "`{{.JSON x}}`")
	digest, event, _ := strings.Cut(fields, "`.Events` (each ")
	event, rest, _ := strings.Cut(event, ")")
	digest, ruleFields, _ := strings.Cut(digest, "`.Rules` (each ")
	ruleFields, after, _ := strings.Cut(ruleFields, ")")
	names := regexp.MustCompile("`\\.([A-Za-z]+)`")
	n := 0
	for _, part := range []struct{ before, text, after string }{
		{"", digest + after + rest, ""}, {"{{range .Events}}", event, "{{end}}"}, {"{{range .Rules}}", ruleFields, "{{end}}"},
	} {
		for _, m := range names.FindAllStringSubmatch(part.text, -1) {
			n++
			tmpl := part.before + "{{." + m[1] + "}}" + part.after
			if _, err := newForm(rules.Notify{Template: tmpl}, "h"); err != nil {
				t.Errorf("%s: %v", tmpl, err)
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d fields found on the page", n)
	}
}
