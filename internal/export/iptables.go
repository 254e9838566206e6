package export

import (
	"bufio"
	"time"
)

// lastDate is the greatest time that iptables' -m time knows (32 bits).
const lastDate = 1<<31 - 1

// iptables-restore is iptables-restore(8), one text for both families: a rule
// with -4 is ignored by ip6tables-restore, one with -6 by iptables-restore.
// --datestop is in UTC and lets each rule end by itself.
func iptablesFormat() format {
	return format{Format{Name: "iptables-restore", About: "a chain for iptables-restore --noflush and ip6tables-restore --noflush", MIME: textPlain, Cap: linear},
		byEnd, writeIptables}
}

func writeIptables(w *bufio.Writer, l *List) {
	comment(w, l, "# ",
		"load with iptables-restore --noflush and ip6tables-restore --noflush: without it the table's other rules go",
		"and once: iptables -I INPUT -j stoplog-export; ip6tables -I INPUT -j stoplog-export")
	put(w, "*filter\n:stoplog-export - [0:0]\n")
	for _, v6 := range []bool{false, true} {
		family := " -4 -s "
		if v6 {
			family = " -6 -s "
		}
		for _, p := range l.family(v6) {
			put(w, "-A stoplog-export", family)
			putPrefix(w, p.Prefix)
			if p.end < lastDate {
				put(w, " -m time --datestop ", time.Unix(p.end, 0).UTC().Format("2006-01-02T15:04:05"))
			}
			put(w, " -j DROP\n")
		}
	}
	put(w, "COMMIT\n")
}
