package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const contrib = "../../contrib"

var metric = regexp.MustCompile(`\bstoplog_[a-z_]+`)

// known complains of metrics that we do not have.
func known(t *testing.T, where, expr string) {
	t.Helper()
	names := map[string]bool{}
	for _, f := range newFamilies().all() {
		names[nameOf(f.desc.String())] = true
	}
	found := metric.FindAllString(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric in %q", where, expr)
	}
	for _, m := range found {
		if !names[m] {
			t.Errorf("%s: there is no metric %s", where, m)
		}
	}
}

// expressions are those of the dashboard's panels.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(contrib, "grafana", "stoplog.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies over %q or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, x := range p.Targets {
			known(t, p.Title, x.Expr)
			all = append(all, x.Expr)
		}
	}
	return all
}

// TestDashboard lets promtool read each panel's expression, as a rule.
func TestDashboard(t *testing.T) {
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$instance", ".*")
	for _, e := range expressions(t) {
		rules = append(rules, rule{"x", grafana.Replace(e)})
	}
	if len(rules) < 15 {
		t.Fatalf("%d panels found", len(rules))
	}
	b, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	tool := promtool(t)
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "check", "rules", "--lint=none", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAlertsNameWhatIsThere(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(contrib, "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			known(t, r.Alert, r.Expr)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: severity, summary and description are wanted", r.Alert)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d alerts found", n)
	}
}

func TestPromtoolLikesTheAlerts(t *testing.T) {
	tool := promtool(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		c := exec.Command(tool, args...)
		c.Dir = filepath.Join(contrib, "prometheus")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
