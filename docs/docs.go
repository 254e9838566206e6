// Package docs holds the pages of the documentation. Those that tell what the
// code already knows are made from it: go generate ./docs
package docs

import (
	"fmt"
	"strings"

	"stoplog/internal/rules"
)

//go:generate go run ./gen

// Generated are the files of this folder that are made from the code, by name.
func Generated() map[string][]byte {
	return map[string][]byte{"rules.md": reference(), "rules.schema.json": rules.Schema()}
}

const head = `# Rules: all keys

<!-- Made from the code by "go generate ./docs"; do not edit. -->

One file, ` + "`/etc/stoplog/rules.yaml`" + `; without it the built-in rules hold, which
` + "`rules.example.yaml`" + ` shows and explains. Files in ` + "`rules.d/`" + ` beside it are added,
to the built-in rules too; they may hold ` + "`use`, `sources`, `networks`, `allow`, `deny`,\n`notify`, `exports` and `rules`" + `, nothing that holds for all, such as ` + "`listen`" + `.
` + "`stoplog check`" + ` tells every mistake at once, with its line; unknown words are errors.

An editor that knows YAML schemas completes and checks the file with this as its
first line:

` + "```yaml" + `
# yaml-language-server: $schema=/usr/share/doc/stoplog/rules.schema.json
` + "```" + `

Durations are whole numbers with units: ` + "`250ms`, `90s`, `10m`, `1h30m`, `7d`, `2w`" + `.
Where a list may stand, one element may stand without brackets.

`

func reference() []byte {
	var b strings.Builder
	b.WriteString(head + "## Keys\n\n" + rules.Reference() + "\n## Ready rules\n\n")
	b.WriteString("Switched on by `use`. Each brings its usual logs.\n\n")
	for _, r := range rules.ReadyRules() {
		fmt.Fprintf(&b, "- `%s`: %s\n", r.Name, r.About)
	}
	return []byte(b.String())
}
