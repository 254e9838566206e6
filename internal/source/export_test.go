package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
)

// textEntry is one entry in the export format.
func textEntry(n int, fields ...string) string {
	return fmt.Sprintf("__CURSOR=s=%d\n__REALTIME_TIMESTAMP=%d\n", n, 1_700_000_000_000_000+n) +
		strings.Join(fields, "\n") + "\n\n"
}

func binaryField(name, value string) string {
	size := binary.LittleEndian.AppendUint64(nil, uint64(len(value)))
	return name + "\n" + string(size) + value
}

// decodeAll returns the entries of an export, and the error that ended it.
func decodeAll(r io.Reader, maxLine int) ([]got, *exportReader, error) {
	var pool pools
	x := newExportReader(r, &pool, maxLine)
	var all []got
	for {
		b, err := x.next()
		if err != nil {
			return all, x, err
		}
		for _, l := range b.lines {
			e := *l.Entry
			e.Ident, e.Exe, e.Unit = bytes.Clone(e.Ident), bytes.Clone(e.Exe), bytes.Clone(e.Unit)
			all = append(all, got{text: string(l.Text), cut: l.Cut, entry: &e})
		}
		b.put()
	}
}

// When a cursor is refused, going on by time must leave out what was read, and
// only that: the writer's stamp may be older than the entry, and the clock set
// back.
func TestExportReaderGoesOnAfterATime(t *testing.T) {
	const last = 1_700_000_000_000_002
	in := textEntry(1, "MESSAGE=a") + textEntry(2, "MESSAGE=b") +
		textEntry(3, "MESSAGE=c", fmt.Sprintf("_SOURCE_REALTIME_TIMESTAMP=%d", last-1)) + textEntry(-9, "MESSAGE=d")
	x := newExportReader(strings.NewReader(in), &pools{}, defaultMaxLine)
	x.until = last
	var texts []string
	b, err := x.next()
	must(t, err)
	for _, l := range b.lines {
		texts = append(texts, string(l.Text))
	}
	if got, want := strings.Join(texts, " "), "c d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExportReader(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, tt := range []struct {
		name, in string
		want     []string // text, identifier, pid, uid, exe, unit
	}{
		{"nothing", "", nil},
		{"an entry", textEntry(1, "MESSAGE=hello", "SYSLOG_IDENTIFIER=sshd", "_PID=7", "_UID=0", "_EXE=/usr/sbin/sshd", "_SYSTEMD_UNIT=ssh.service"),
			[]string{"hello sshd 7 0 /usr/sbin/sshd ssh.service"}},
		{"its own pid wins", textEntry(1, "MESSAGE=a", "_PID=7", "SYSLOG_PID=8", "_COMM=cat"), []string{"a cat 8 -1  "}},
		{"binary message", textEntry(1, binaryField("MESSAGE", "a\nb\x00=c"), "_UID=5"), []string{"a\nb\x00=c  0 5  "}},
		{"an equals sign in the value", textEntry(1, "MESSAGE=a=b=c"), []string{"a=b=c  0 -1  "}},
		{"two", textEntry(1, "MESSAGE=a") + textEntry(2, "MESSAGE=b"), []string{"a  0 -1  ", "b  0 -1  "}},
		{"without a message", textEntry(1, "_PID=1") + textEntry(2, "MESSAGE=b"), []string{"b  0 -1  "}},
		{"two messages in one", textEntry(1, "MESSAGE=a", "MESSAGE=b"), []string{"a  0 -1  "}},
		{"long fields of no interest", textEntry(1, "FOO="+long, binaryField("BAR", long), "MESSAGE=a"), []string{"a  0 -1  "}},
		{"unfinished", textEntry(1, "MESSAGE=a") + "__CURSOR=x\nMESSAGE=b\n", []string{"a  0 -1  "}},
		{"empty lines", "\n\n" + textEntry(1, "MESSAGE=a") + "\n\n", []string{"a  0 -1  "}},
	} {
		for _, reader := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
		} {
			all, _, err := decodeAll(reader(strings.NewReader(tt.in)), 1000)
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s: ended with %v, want io.EOF", tt.name, err)
			}
			var have []string
			for _, g := range all {
				have = append(have, fmt.Sprintf("%s %s %d %d %s %s", g.text, g.entry.Ident, g.entry.PID, g.entry.UID, g.entry.Exe, g.entry.Unit))
			}
			if fmt.Sprintf("%q", have) != fmt.Sprintf("%q", tt.want) {
				t.Errorf("%s: got %q, want %q", tt.name, have, tt.want)
			}
		}
	}
}

func TestExportReaderCutsLongMessages(t *testing.T) {
	for _, size := range []int{999, 1000, 1001, 70_000, 3_000_000} {
		message := strings.Repeat("m", size)
		for _, field := range []string{"MESSAGE=" + message, binaryField("MESSAGE", message)} {
			all, x, err := decodeAll(strings.NewReader(textEntry(1, field)+textEntry(2, "MESSAGE=next")), 1000)
			if !errors.Is(err, io.EOF) || len(all) != 2 {
				t.Fatalf("%d bytes: got %d entries and %v, want 2 and io.EOF", size, len(all), err)
			}
			if len(all[0].text) != min(size, 1000) || all[0].cut != (size > 1000) {
				t.Errorf("%d bytes: got %d, cut %v", size, len(all[0].text), all[0].cut)
			}
			if all[1].text != "next" {
				t.Errorf("%d bytes: the next entry is %q", size, all[1].text)
			}
			if want := int64(0); size > 1000 && x.cut != want+1 {
				t.Errorf("%d bytes: counted %d cut lines, want 1", size, x.cut)
			}
		}
	}
}

func TestExportReaderKeepsTimeAndCursor(t *testing.T) {
	in := textEntry(1, "MESSAGE=a") + textEntry(2, "MESSAGE=b", "_SOURCE_REALTIME_TIMESTAMP=1600000000000000", "_TRANSPORT=kernel")
	all, x, _ := decodeAll(strings.NewReader(in), 1000)
	if len(all) != 2 {
		t.Fatalf("got %d entries, want 2", len(all))
	}
	if got, want := all[0].entry.Time, int64(1_700_000_000_000_001_000); got != want {
		t.Errorf("time by the journal: got %d, want %d", got, want)
	}
	if got, want := all[1].entry.Time, int64(1_600_000_000_000_000_000); got != want {
		t.Errorf("time by the source: got %d, want %d", got, want)
	}
	if a, b := all[0].entry.Transport, all[1].entry.Transport; a != OtherTransport || b != KernelTransport {
		t.Errorf("transports: got %d and %d, want the other and the kernel's", a, b)
	}
	if x.cursor != "s=2" || x.realtime != 1_700_000_000_000_002 {
		t.Errorf("got cursor %q at %d", x.cursor, x.realtime)
	}
}

// TestExportReaderReadsBehindNUL: journald cuts what came by syslog at a NUL
// byte and keeps the whole beside it.
func TestExportReaderReadsBehindNUL(t *testing.T) {
	raw := func(s string) string { return binaryField("SYSLOG_RAW", s) }
	long := strings.Repeat("n", 2000)
	for _, tt := range []struct {
		name string
		in   []string // fields, in either order
		want string
		cut  bool
	}{
		{"inside", []string{"MESSAGE=Failed password for a", raw("<38>sshd[77]: Failed password for a\x00b from 192.0.2.9")}, "Failed password for a\x00b from 192.0.2.9", false},
		{"several", []string{"MESSAGE=a", raw("<38>Nov 22 07:00:00 sshd: a\x00b\x00\x00c")}, "a\x00b\x00\x00c", false},
		{"first", []string{"MESSAGE=", raw("<38>sshd: \x00b")}, "\x00b", false},
		{"last, as Python's handler sends", []string{"MESSAGE=a", raw("<38>sshd: a\x00")}, "a", false},
		{"none", []string{"MESSAGE=a", "SYSLOG_RAW=<38>sshd: a"}, "a", false},
		{"of another message", []string{"MESSAGE=a", raw("<38>sshd: b\x00c")}, "a", false},
		{"too long", []string{"MESSAGE=a", raw("<38>sshd: a\x00" + long)}, "a\x00" + long[:998], true},
	} {
		for range 2 {
			tt.in[0], tt.in[1] = tt.in[1], tt.in[0]
			all, x, _ := decodeAll(strings.NewReader(textEntry(1, tt.in...)+textEntry(2, "MESSAGE=next")), 1000)
			if len(all) != 2 || all[0].text != tt.want || all[0].cut != tt.cut || all[1].text != "next" || (x.cut > 0) != tt.cut {
				t.Errorf("%s: got %d entries, the first %q", tt.name, len(all), all[0].text)
			}
		}
	}
}

// TestExportReaderJoinsPrintedLines: what a service prints is one line to its
// newline, although journald ends an entry at a NUL byte and at LineMax=; what
// stands behind those is not the beginning of a line.
func TestExportReaderJoinsPrintedLines(t *testing.T) {
	part := func(n int, stream, text, end string) string {
		f := []string{"_TRANSPORT=stdout", "_STREAM_ID=" + stream, "MESSAGE=" + text}
		if end != "" {
			f = append(f, "_LINE_BREAK="+end)
		}
		return textEntry(n, f...)
	}
	long := strings.Repeat("x", 900)
	for _, tt := range []struct {
		name, in string
		want     []string
		cut      int64
	}{
		{"two parts", part(1, "a", "user=x", "nul") + part(2, "a", "Failed login", ""), []string{"user=x\x00Failed login"}, 0},
		{"three", part(1, "a", "1", "nul") + part(2, "a", "2", "nul") + part(3, "a", "3", "eof"), []string{"1\x002\x003"}, 0},
		{"another stream between", part(1, "a", "1", "nul") + part(2, "b", "line", "") + textEntry(3, "MESSAGE=m") + part(4, "a", "2", ""), []string{"line", "m", "1\x002"}, 0},
		{"long lines", part(1, "a", long, "line-max") + part(2, "a", long, ""), []string{(long + long)[:1000]}, 1},
		{"then a whole one", part(1, "a", "1", "nul") + part(2, "a", "2", "") + part(3, "a", "3", ""), []string{"1\x002", "3"}, 0},
		{"never ended", part(1, "a", "1", "nul") + part(2, "b", "3", ""), []string{"3"}, 0},
	} {
		all, x, _ := decodeAll(strings.NewReader(tt.in), 1000)
		var have []string
		for _, g := range all {
			have = append(have, g.text)
		}
		if fmt.Sprintf("%q", have) != fmt.Sprintf("%q", tt.want) || x.cut != tt.cut {
			t.Errorf("%s: got %q with %d cut, want %q with %d", tt.name, have, x.cut, tt.want, tt.cut)
		}
	}

	// Going on behind the first part, which is read again and left out.
	x := newExportReader(strings.NewReader(part(1, "a", "1", "nul")+part(2, "a", "Failed login", "")), &pools{}, 1000)
	x.after = "s=1"
	if b, err := x.next(); err != nil || len(b.lines) != 1 || string(b.lines[0].Text) != "1\x00Failed login" {
		t.Errorf("behind the first part: %v, %v", b, err)
	}

	// Many streams that never end their lines take bounded memory.
	for _, streams := range []int{maxParts, maxParts + 500} {
		var in strings.Builder
		for i := range streams {
			in.WriteString(part(i, fmt.Sprint("s", i), strings.Repeat("y", 4000), "nul"))
		}
		in.WriteString(part(1, "s2000", "the end of one whose beginning was too much", ""))
		in.WriteString(textEntry(1, "MESSAGE=next"))
		all, x, _ := decodeAll(strings.NewReader(in.String()), 8000)
		if len(x.parts) > maxParts || x.partBytes > partBytes {
			t.Errorf("%d parts of %d bytes are kept", len(x.parts), x.partBytes)
		}
		if streams == maxParts && (len(all) != 1 || all[0].text != "next" || x.cut != 1) {
			t.Errorf("got %d entries, %d cut", len(all), x.cut)
		}
	}
}

func TestExportReaderRefusesOtherFormats(t *testing.T) {
	for _, in := range []string{
		"no field at all\nxxxxxxxxyyyyyyyyyyyy\n",
		strings.Repeat("A", 100) + "\n",
		binaryField("MESSAGE", "abc") + "x\n",
	} {
		if _, _, err := decodeAll(strings.NewReader(in), 1000); !errors.Is(err, errExport) {
			t.Errorf("%.20q: got %v, want %v", in, err, errExport)
		}
	}
}

func FuzzExport(f *testing.F) {
	f.Add([]byte(textEntry(1, "MESSAGE=a", "_PID=1") + textEntry(2, binaryField("MESSAGE", "a\nb"))))
	f.Add([]byte(textEntry(1, "MESSAGE="+strings.Repeat("a", 2000))))
	f.Add([]byte("MESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xffabc\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		all, _, err := decodeAll(bytes.NewReader(in), 300)
		again, _, _ := decodeAll(iotest.HalfReader(bytes.NewReader(in)), 300)
		if err == nil {
			t.Fatal("no error at the end")
		}
		if len(all) != len(again) {
			t.Fatalf("read in pieces: %d entries, at once: %d", len(again), len(all))
		}
		for i, g := range all {
			if len(g.text) > 300 {
				t.Fatalf("a message of %d bytes", len(g.text))
			}
			if g.text != again[i].text {
				t.Fatalf("read in pieces: %q, at once: %q", again[i].text, g.text)
			}
		}
	})
}

// BenchmarkJournalFormat compares what journalctl can print: how fast it is
// made, in entries a second, and how fast the export format is decoded.
func BenchmarkJournalFormat(b *testing.B) {
	need(b, "journalctl")
	const entries = 20_000
	file := makeJournal(b, entries)
	for _, format := range []string{"export", "json"} {
		for _, fields := range []string{"all", "few"} {
			b.Run(format+"/"+fields, func(b *testing.B) {
				args := []string{"--file=" + file, "--all", "--output=" + format}
				if fields == "few" {
					args = append(args, "--output-fields="+exportFields)
				}
				var size int
				for b.Loop() {
					out, err := exec.Command("journalctl", args...).Output()
					if err != nil {
						b.Fatal(err)
					}
					size = len(out)
				}
				b.ReportMetric(float64(entries*b.N)/b.Elapsed().Seconds(), "entries/s")
				b.ReportMetric(float64(size)/entries, "B/entry")
			})
		}
	}
	out, err := exec.Command("journalctl", "--file="+file, "--all", "--output=export", "--output-fields="+exportFields).Output()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode export", func(b *testing.B) {
		b.ReportAllocs()
		var pool pools
		for b.Loop() {
			x := newExportReader(bytes.NewReader(out), &pool, defaultMaxLine)
			for {
				blk, err := x.next()
				if err != nil {
					break
				}
				blk.put()
			}
		}
		b.ReportMetric(float64(entries*b.N)/b.Elapsed().Seconds(), "entries/s")
	})
}

// makeJournal writes a real journal file of n entries.
func makeJournal(t testing.TB, n int) string {
	t.Helper()
	file := t.TempDir() + "/test.journal"
	var in strings.Builder
	for i := range n {
		in.WriteString(journalEntry(i, fmt.Sprintf("Failed password for invalid user admin%d from 192.0.2.%d port 4711 ssh2", i, i%250)))
	}
	writeJournal(t, file, in.String())
	return file
}

// writeJournal appends entries in export format to a journal file.
func writeJournal(t testing.TB, file, entries string) {
	t.Helper()
	cmd := exec.Command(need(t, "systemd-journal-remote"), "--output="+file, "--split-mode=none", "-")
	cmd.Stdin = strings.NewReader(entries)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("writing a journal: %v: %s", err, out)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
}

const testBoot = "0123456789abcdef0123456789abcdef"

// journalEntry is the n-th entry of a journal in export format.
func journalEntry(n int, message string) string {
	return fmt.Sprintf("__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n"+
		"_MACHINE_ID=%s\nSYSLOG_FACILITY=4\nPRIORITY=6\nSYSLOG_IDENTIFIER=sshd\n_PID=%d\n_UID=0\n_GID=0\n_EXE=/usr/sbin/sshd\n_COMM=sshd\n"+
		"_SYSTEMD_UNIT=ssh.service\n_TRANSPORT=syslog\n_HOSTNAME=h\n%s\n\n",
		1_700_000_000_000_000+n*1000, 1_000_000+n*1000, testBoot, testBoot, 1000+n, binaryField("MESSAGE", message))
}
