// Package day makes up a log of sshd for benchmarks: the same in every run, so
// that different programs can be measured on the same lines.
package day

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Write writes n lines of one day, in the form of rsyslog's traditional files,
// by OpenSSH 9.2. 57 % of the lines come from 3000 sources, the others' sources
// come up once; a twentieth reports no failure by itself.
func Write(to io.Writer, n int) error {
	w := bufio.NewWriterSize(to, 1<<20)
	rnd := rand.New(rand.NewPCG(1, 2))
	addr := func() string {
		return fmt.Sprintf("%d.%d.%d.%d", 1+rnd.IntN(223), rnd.IntN(256), rnd.IntN(256), 1+rnd.IntN(254))
	}
	hot := make([]string, 3000)
	for i := range hot {
		hot[i] = addr()
	}
	users := []string{"root", "admin", "test", "oracle", "ubuntu", "git", "postgres", "user", "guest", "ftp"}
	day := time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)
	for i := range n {
		from := addr()
		if rnd.IntN(100) < 57 {
			from = hot[rnd.IntN(len(hot))]
		}
		u, port := users[rnd.IntN(len(users))], 1024+rnd.IntN(60000)
		var msg string
		switch k := rnd.IntN(20); {
		case k < 9:
			msg = fmt.Sprintf("Failed password for %s from %s port %d ssh2", u, from, port)
		case k < 12:
			msg = fmt.Sprintf("Failed password for invalid user %s from %s port %d ssh2", u, from, port)
		case k < 15:
			msg = fmt.Sprintf("Invalid user %s from %s port %d", u, from, port)
		case k < 17:
			msg = fmt.Sprintf("Connection closed by authenticating user %s %s port %d [preauth]", u, from, port)
		case k < 19:
			msg = fmt.Sprintf("Disconnected from invalid user %s %s port %d [preauth]", u, from, port)
		default:
			msg = fmt.Sprintf("Received disconnect from %s port %d:11: Bye Bye [preauth]", from, port)
		}
		at := day.Add(time.Duration(float64(i) / float64(n) * float64(24*time.Hour)))
		fmt.Fprintf(w, "%s server sshd[%d]: %s\n", at.Format(time.Stamp), 1000+i%60000, msg)
	}
	return w.Flush()
}
