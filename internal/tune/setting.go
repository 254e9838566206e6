package tune

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"stoplog/internal/rules"
)

// A setting is the rule's own YAML with some values replaced, loaded as any rules
// file is: what is run is what can be pasted.

// kind says what a parameter is.
type kind uint8

const (
	capacity kind = iota
	leak
	ttl
	multiply
	prefix4
	prefix6
	weight
)

// param is one value of a rule that is varied.
type param struct {
	kind   kind
	name   string // for people: "bucket 2 leak"
	bucket int    // of the rule's buckets; -1: of the whole rule
	paths  [][]any
	today  float64 // points, ns, factor or bits
}

// text is a value as YAML has it.
func (p *param) text(v float64) string {
	switch p.kind {
	case leak, ttl:
		return rules.FormatDuration(time.Duration(v))
	case multiply:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.Itoa(int(v))
}

// setting is a value for each parameter.
type setting []float64

func (s setting) key() string { return fmt.Sprint([]float64(s)) }

// book is the rule under study and what of it is varied.
type book struct {
	set    *rules.Set
	rule   *rules.Rule
	node   *yaml.Node
	params []param
}

// errCut says that the rule's text is not whole.
var errCut = errors.New("the rule is longer than 8 KB, so it cannot be changed here")

func openBook(set *rules.Set, r *rules.Rule) (*book, error) {
	b := &book{set: set, rule: r}
	text, err := ruleText(r)
	if err != nil {
		return nil, err
	}
	b.node = new(yaml.Node)
	if err := yaml.Unmarshal([]byte(text), b.node); err != nil || len(b.node.Content) != 1 || b.node.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("reading the text of rule %s: %w", r.Name, cmp.Or(err, errors.New("it is no mapping")))
	}
	b.node = b.node.Content[0]
	b.node.Style = 0 // a line for each key, so that a change shows
	if hasAlias(b.node) {
		return nil, fmt.Errorf("rule %s uses YAML anchors: write it out to tune it", r.Name)
	}
	b.findParams()
	if len(b.params) == 0 {
		return nil, fmt.Errorf("rule %s has no bucket: tune varies buckets", r.Name)
	}
	if _, err := b.compile(b.today()); err != nil {
		return nil, err
	}
	return b, nil
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// ruleText is the whole text of a rule.
func ruleText(r *rules.Rule) (string, error) {
	if !strings.HasSuffix(r.Text, "…\n") {
		return r.Text, nil
	}
	if r.Ready == "" {
		return "", errCut
	}
	doc, err := readyDoc(r.Ready)
	if err != nil {
		return "", err
	}
	for _, n := range child(doc, "rules").Content {
		if v := child(n, "name"); v != nil && v.Value == r.Name {
			text, err := yaml.Marshal(n)
			return string(text), err
		}
	}
	return "", errCut
}

// readyDoc is the document of a file of built-in rules.
func readyDoc(name string) (*yaml.Node, error) {
	for _, r := range rules.ReadyRules() {
		if r.Name != name {
			continue
		}
		n := new(yaml.Node)
		if err := yaml.Unmarshal([]byte(r.Text), n); err != nil || len(n.Content) != 1 {
			return nil, fmt.Errorf("reading the built-in rules %s: %w", name, err)
		}
		return n.Content[0], nil
	}
	return nil, fmt.Errorf("there are no built-in rules %s", name)
}

// child is the value of a key of a mapping, nil when there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// at finds the node at a path of keys and indexes, nil when there is none.
func at(n *yaml.Node, path []any) *yaml.Node {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			n = child(n, p)
		case int:
			if n == nil || n.Kind != yaml.SequenceNode || p >= len(n.Content) {
				return nil
			}
			n = n.Content[p]
		}
		if n == nil {
			return nil
		}
	}
	return n
}

// put sets the scalar at a path, making mappings on the way.
func put(n *yaml.Node, path []any, text string) {
	for i, p := range path {
		key, ok := p.(string)
		if !ok {
			n = n.Content[p.(int)]
			continue
		}
		c := child(n, key)
		if c == nil {
			c = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
			if i == len(path)-1 {
				c = &yaml.Node{Kind: yaml.ScalarNode}
			}
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, c)
		}
		n = c
	}
	n.Kind, n.Tag, n.Value, n.Style = yaml.ScalarNode, "", text, 0
}

func clone(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = nil
	for _, x := range n.Content {
		c.Content = append(c.Content, clone(x))
	}
	return &c
}

// findParams lists what can be varied.
func (b *book) findParams() {
	var paths [][]any
	for _, key := range []string{"bucket", "buckets"} {
		switch n := child(b.node, key); {
		case n == nil:
		case n.Kind == yaml.MappingNode:
			paths = append(paths, []any{key})
		case n.Kind == yaml.SequenceNode:
			for i := range n.Content {
				paths = append(paths, []any{key, i})
			}
		}
	}
	var levels []*rules.Level
	for i := range b.rule.Levels {
		if b.rule.Levels[i].Kind == rules.Bucket {
			levels = append(levels, &b.rule.Levels[i])
		}
	}
	if len(paths) != len(levels) {
		return // tiers, or some form that is not known here
	}
	shared := map[kind]*param{}
	for i, path := range paths {
		l := levels[i]
		name := "bucket"
		if len(paths) > 1 {
			name = fmt.Sprintf("bucket %d", i+1)
		}
		b.params = append(b.params,
			param{capacity, name + " capacity", i, [][]any{sub(path, "capacity")}, float64(l.Capacity)},
			param{leak, name + " leak", i, [][]any{sub(path, "leak")}, float64(l.Leak)})
		for _, x := range []struct {
			kind  kind
			key   string
			today float64
		}{{ttl, "ttl", float64(cmp.Or(l.TTL, b.set.Block.TTL))}, {multiply, "multiply", cmp.Or(l.Multiply, b.set.Block.Multiply)}} {
			if at(b.node, sub(path, x.key)) != nil {
				b.params = append(b.params, param{x.kind, name + " " + x.key, i, [][]any{sub(path, x.key)}, x.today})
			} else if shared[x.kind] == nil {
				shared[x.kind] = &param{x.kind, x.key, -1, [][]any{{x.key}}, x.today}
			}
		}
		b.findWeights(sub(path, "weight"), name+" ", i)
	}
	for _, k := range []kind{ttl, multiply} {
		if p := shared[k]; p != nil {
			b.params = append(b.params, *p)
		}
	}
	b.findWeights([]any{"weight"}, "", -1)
	if b.rule.Key.Has(rules.ByPrefix) {
		b.params = append(b.params,
			param{prefix4, "IPv4 prefix", -1, [][]any{{"prefix", "ipv4"}}, float64(b.rule.Prefix.V4)},
			param{prefix6, "IPv6 prefix", -1, [][]any{{"prefix", "ipv6"}}, float64(b.rule.Prefix.V6)})
	}
}

func sub(path []any, key ...any) []any { return append(slices.Clone(path), key...) }

// findWeights makes a parameter of each number of a weight: in lists of names, of
// all that have the same.
func (b *book) findWeights(path []any, name string, bucket int) {
	n := at(b.node, path)
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i].Value, n.Content[i+1]
		if w, err := strconv.Atoi(v.Value); v.Kind == yaml.ScalarNode && err == nil && w > 0 {
			b.params = append(b.params, param{weight, name + "weight of " + key, bucket, [][]any{sub(path, key)}, float64(w)})
			continue
		}
		if v.Kind != yaml.MappingNode {
			continue
		}
		by := map[int][][]any{}
		for j := 0; j+1 < len(v.Content); j += 2 {
			if w, err := strconv.Atoi(v.Content[j+1].Value); err == nil && w > 0 {
				by[w] = append(by[w], sub(path, key, v.Content[j].Value))
			}
		}
		var ws []int
		for w := range by {
			ws = append(ws, w)
		}
		slices.Sort(ws)
		for _, w := range ws {
			what := fmt.Sprintf("the %d %ss of weight %d", len(by[w]), key, w)
			if len(by[w]) == 1 {
				what = fmt.Sprintf("%s %v", key, by[w][0][len(by[w][0])-1])
			}
			b.params = append(b.params, param{weight, name + "weight of " + what, bucket, by[w], float64(w)})
		}
	}
}

func (b *book) today() setting {
	s := make(setting, len(b.params))
	for i := range b.params {
		s[i] = b.params[i].today
	}
	return s
}

// changed is the rule's YAML with a setting.
func (b *book) changed(s setting) *yaml.Node {
	n := clone(b.node)
	for i := range b.params {
		p := &b.params[i]
		if s[i] == p.today {
			continue
		}
		for _, path := range p.paths {
			put(n, path, p.text(s[i]))
		}
		if p.kind == prefix4 || p.kind == prefix6 { // both, or the other would be the default
			put(n, []any{"prefix", "ipv4"}, strconv.Itoa(int(s[b.find(prefix4)])))
			put(n, []any{"prefix", "ipv6"}, strconv.Itoa(int(s[b.find(prefix6)])))
		}
	}
	return n
}

func (b *book) find(k kind) int {
	return slices.IndexFunc(b.params, func(p param) bool { return p.kind == k })
}

// compile loads the rule with a setting.
func (b *book) compile(s setting) (*rules.Rule, error) {
	text, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Value: "use"}, {Kind: yaml.SequenceNode},
		{Kind: yaml.ScalarNode, Value: "rules"}, {Kind: yaml.SequenceNode, Content: []*yaml.Node{b.changed(s)}},
	}})
	if err != nil {
		return nil, err
	}
	text = append(text, fmt.Sprintf("floor: {ipv4: %d, ipv6: %d}\n", b.set.Floor.V4, b.set.Floor.V6)...)
	set, problems := rules.LoadBytes("rule "+b.rule.Name, text, "")
	if set == nil || len(set.Rules) != 1 {
		if len(problems) > 0 {
			return nil, errors.New(problems[0].Error())
		}
		return nil, fmt.Errorf("rule %s cannot be loaded alone", b.rule.Name)
	}
	r := set.Rules[0]
	r.Observe = false
	if child(child(b.changed(s), "prefix"), "ipv4") == nil {
		r.Prefix.V4 = b.rule.Prefix.V4
	}
	if child(child(b.changed(s), "prefix"), "ipv6") == nil {
		r.Prefix.V6 = b.rule.Prefix.V6
	}
	r.Ready, r.File, r.Line = b.rule.Ready, b.rule.File, b.rule.Line
	return r, nil
}

// Change is one value that differs.
type Change struct {
	What string `json:"what"`
	From string `json:"from"`
	To   string `json:"to"`
}

func (b *book) changes(s setting) (out []Change) {
	for i := range b.params {
		if p := &b.params[i]; s[i] != p.today {
			out = append(out, Change{p.name, p.text(p.today), p.text(s[i])})
		}
	}
	return out
}

// paste is what a rules file needs to hold for a setting.
func (b *book) paste(s setting) (string, error) {
	rule := b.changed(s)
	doc := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, v *yaml.Node) {
		doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	head := ""
	if b.rule.Ready == "" {
		list.Content = []*yaml.Node{rule}
		head = fmt.Sprintf("# In %s, in place of rule %s:\n", cmp.Or(b.rule.File, "the rules file"), b.rule.Name)
	} else {
		ready, err := readyDoc(b.rule.Ready)
		if err != nil {
			return "", err
		}
		head = fmt.Sprintf("# The built-in rules %s, with %s changed. Merge each key with yours, if you have it.\n", b.rule.Ready, b.rule.Name)
		use := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "auto"}, {Kind: yaml.ScalarNode, Value: "-" + b.rule.Ready}}}
		add("use", use)
		if src := child(ready, "sources"); src != nil {
			add("sources", src)
		}
		for _, n := range child(ready, "rules").Content {
			if v := child(n, "name"); v != nil && v.Value == b.rule.Name {
				n = rule
			}
			list.Content = append(list.Content, n)
		}
	}
	add("rules", list)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return "", err
	}
	return head + out.String(), nil
}

// lines are the lines of the rule that a setting changes: what they were with
// "-", what they become with "+".
func (b *book) lines(s setting) []string {
	old, fresh := yamlLines(b.node), yamlLines(b.changed(s))
	// The longest common subsequence; rules are short.
	n, m := len(old), len(fresh)
	best := make([][]int, n+1)
	for i := range best {
		best[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if old[i] == fresh[j] {
				best[i][j] = best[i+1][j+1] + 1
			} else {
				best[i][j] = max(best[i+1][j], best[i][j+1])
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && old[i] == fresh[j]:
			i, j = i+1, j+1
		case i < n && (j == m || best[i+1][j] >= best[i][j+1]):
			out = append(out, "- "+old[i])
			i++
		default:
			out = append(out, "+ "+fresh[j])
			j++
		}
	}
	return out
}

func yamlLines(n *yaml.Node) []string {
	text, _ := yaml.Marshal(n)
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n")
}

// nice are durations that people write.
var nice = func() (out []float64) {
	for _, s := range []float64{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700,
		3600, 5400, 7200, 10800, 14400, 21600, 28800, 43200, 64800, 86400, 129600, 172800, 259200, 432000, 604800, 1209600, 2592000} {
		out = append(out, s*float64(time.Second))
	}
	return out
}()

// snap finds the nearest such duration.
func snap(v float64) float64 {
	best := nice[0]
	for _, n := range nice {
		if math.Abs(math.Log(n/v)) < math.Abs(math.Log(best/v)) {
			best = n
		}
	}
	return best
}

// values lists what a parameter is tried with, today's included, in order. n
// is about how many.
func (b *book) values(p *param, n int) []float64 {
	var out []float64
	add := func(vs ...float64) {
		for _, v := range vs {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	add(p.today)
	spread := func(factors []float64, fit func(float64) float64) {
		for _, f := range factors[:min(n-1, len(factors))] {
			add(fit(p.today * f))
		}
	}
	switch p.kind {
	case capacity:
		spread([]float64{.5, 2, 1.5, .75, 3, 4, .25}, func(v float64) float64 { return min(max(math.Round(v), 1), 100_000) })
	case leak:
		spread([]float64{6, .25, 36, 2, .5, 200, 1. / 12}, func(v float64) float64 { return min(snap(v), float64(7*24*time.Hour)) })
	case ttl:
		most := float64(b.set.Block.Max)
		spread([]float64{4, .25, 24, 144}, func(v float64) float64 { return min(snap(v), most) })
	case multiply:
		add([]float64{4, 2, 8, 1}[:min(n-1, 4)]...)
	case prefix4:
		for _, v := range []float64{24, 32, 28} {
			if v >= float64(max(b.rule.Floor.V4, b.set.Floor.V4, 24)) {
				add(v)
			}
		}
	case prefix6:
		for _, v := range []float64{56, 48, 64} {
			if v >= float64(max(b.rule.Floor.V6, b.set.Floor.V6, 48)) {
				add(v)
			}
		}
	case weight:
		add(max(p.today-1, 1), p.today+1)
	}
	slices.Sort(out)
	return out
}

// steps are the values next to v, for the finer search.
func (b *book) steps(p *param, v float64) []float64 {
	var out []float64
	switch p.kind {
	case capacity:
		d := max(math.Round(v/5), 1)
		out = []float64{v - d, v + d}
		if d > 1 {
			out = append(out, v-1, v+1)
		}
	case leak, ttl:
		i, _ := slices.BinarySearch(nice, v)
		for _, j := range []int{i - 2, i - 1, i + 1, i + 2} {
			if j >= 0 && j < len(nice) && nice[j] != v {
				out = append(out, nice[j])
			}
		}
		if p.kind == ttl {
			out = slices.DeleteFunc(out, func(x float64) bool { return x > float64(b.set.Block.Max) })
		}
	case multiply:
		out = []float64{v - 1, v + 2}
	case weight:
		out = []float64{v - 1, v + 1}
	default:
		for _, x := range b.values(p, 4) {
			if x != v {
				out = append(out, x)
			}
		}
	}
	return slices.DeleteFunc(out, func(x float64) bool { return x < 1 || p.kind == capacity && x > 100_000 })
}

// longer reports whether s blocks for much longer than today's.
func (b *book) longer(s setting) bool {
	for i := range b.params {
		p := &b.params[i]
		if p.kind == ttl && s[i] > 4*p.today || p.kind == multiply && s[i] > max(2*p.today, 2) {
			return true
		}
	}
	return false
}

// harder reports whether s blocks any source that today's setting does not, or
// sooner: as far as the values alone show.
func (b *book) harder(s setting) bool {
	for i := range b.params {
		p := &b.params[i]
		switch p.kind {
		case capacity, prefix4, prefix6:
			if s[i] < p.today {
				return true
			}
		case leak, weight:
			if s[i] > p.today {
				return true
			}
		}
	}
	return false
}

// tighter is s with a fifth less room in each bucket, one at least: what honest
// sources that are a little less lucky would meet.
func (b *book) tighter(s setting) setting {
	out := slices.Clone(s)
	for i := range b.params {
		if b.params[i].kind == capacity {
			out[i] = max(s[i]-max(math.Round(s[i]/5), 1), 0)
		}
	}
	return out
}
