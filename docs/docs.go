// Package docs contains the documentation. go generate ./docs writes the pages
// that are generated from the code.
package docs

import (
	"fmt"
	"strings"

	"stoplog/internal/rules"
)

//go:generate go run ./gen

// Generated returns the files of this folder that are generated from the code,
// by name.
func Generated() map[string][]byte {
	return map[string][]byte{"rules.md": reference(), "rules.schema.json": rules.Schema()}
}

const head = `# Rules: all keys

<!-- Generated from the code by "make docs"; do not edit. -->

All keys of ` + "`/etc/stoplog/rules.yaml`" + `. The file is optional; without it stoplog uses the
built-in rules, which ` + "`rules.example.yaml`" + ` shows and explains. Files in ` + "`rules.d/`" + ` next to it
are added, also to the built-in rules. They can contain ` + "`use`, `sources`, `networks`, `allow`,\n`deny`, `notify`, `exports` and `rules`" + `, but no global settings such as ` + "`listen`" + `.
` + "`stoplog check`" + ` reports every mistake with its line. Unknown keys are errors.

Editors with YAML schema support complete and check the file if this is its first line:

` + "```yaml" + `
# yaml-language-server: $schema=/usr/share/doc/stoplog/rules.schema.json
` + "```" + `

Durations are whole numbers with units: ` + "`250ms`, `90s`, `10m`, `1h30m`, `7d`, `2w`" + `. A list with
one element can be written without brackets.

The operators ` + "`starts`, `ends` and `contains`" + ` of earlier versions still work;
` + "`stoplog check`" + ` shows the ` + "`glob` or `regex`" + ` to write instead.

`

func reference() []byte {
	var b strings.Builder
	b.WriteString(head + "## Keys\n\n" + rules.Reference() + "\n## Built-in rules\n\n")
	b.WriteString("`use` turns them on. Each reads its usual logs.\n\n")
	for _, r := range rules.ReadyRules() {
		fmt.Fprintf(&b, "- `%s`: %s\n", r.Name, r.About)
	}
	return []byte(b.String())
}
