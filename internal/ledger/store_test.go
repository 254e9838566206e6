package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"stoplog/internal/detect"
)

// opened is a ledger in dir, which is recovering.
func opened(t *testing.T, dir string, now time.Time, o Options) (*Ledger, *Recovered) {
	t.Helper()
	l, rec, err := Open(dir, now, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, rec
}

func TestSavedAndLoaded(t *testing.T) {
	dir := t.TempDir()
	l, rec := opened(t, dir, at(0), Options{})
	if rec.Parts != nil || !rec.SavedAt.IsZero() || len(rec.Notes) != 0 {
		t.Errorf("an empty directory: got %+v", rec)
	}
	l.RecoveryDone(at(0))
	b := breach("192.0.2.0/28", 0)
	b.Evidence, b.Partial, b.User, b.Source, b.Line = []string{"one", "two"}, true, "root", "auth.log", 7
	b.Answers = []detect.Answer{{Kind: detect.Block, Action: "reject", Cut: true, Ports: []detect.Ports{{Proto: "tcp", From: 22, To: 23}}}}
	l.Breach(b, at(0))
	l.BlockByHand(pfx("2001:db8::/64"), 0, "why", "me", at(1))
	l.Allow(pfx("198.51.100.0/24"), time.Hour, "", "me", at(2))
	l.RaiseFlag("captcha", time.Hour, "", "me", at(3))
	l.Login("sshd", []byte("alice"), adr("203.0.113.1"), at(4).UnixNano(), true)
	l.Login("sshd", []byte("bob"), adr("203.0.113.2"), at(4).UnixNano(), false)
	l.BlockByHand(pfx("203.0.113.0/28"), time.Hour, "", "me", at(5))
	l.Unblock(pfx("203.0.113.9/32"), "me", at(6))
	look := func(l *Ledger) string {
		return fmt.Sprintf("%+v %+v %+v %v %v %v %v", l.List(at(9)), l.Allowances(at(9)), l.Flags(at(9)), l.KnownAddrs(at(9)), l.known.by, l.strikes.by, l.forgiven)
	}
	want := look(l)
	for range 3 { // a snapshot, one of a loaded one, and one with a kept former one
		if err := l.Save(at(9), map[string][]byte{"pos": []byte("{}"), "empty": nil}); err != nil {
			t.Fatal(err)
		}
		l.Close()
		l, rec = opened(t, dir, at(9), Options{})
		l.RecoveryDone(at(9))
		if got := look(l); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		if string(rec.Parts["pos"]) != "{}" || len(rec.Parts) != 2 || !rec.SavedAt.Equal(at(9)) || len(rec.Forget) != 0 || len(rec.Notes) != 0 {
			t.Errorf("got %+v", rec)
		}
	}
	if err := l.Save(at(9), map[string][]byte{"": nil}); err == nil {
		t.Error("a part without a name: got no error")
	}
}

// encoded is the file of a snapshot.
func encoded(tb testing.TB, s *snapshot) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := s.write(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestStateOfVersion3 opens a state that a program before version 4 wrote: with
// ports, evidence, a block by hand, and an earlier block of a prefix.
func TestStateOfVersion3(t *testing.T) {
	dir := t.TempDir()
	old, err := os.ReadFile("testdata/state-3")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "state"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Prefix: pfx("192.0.2.0/28"), Rule: "ssh", Since: at(5000), Until: at(5000 + 2400), Count: 6, Points: 6, Strikes: 2,
			Reason: "6 failures by 192.0.2.0/28", Key: "192.0.2.0/28", Service: "sshd"},
		{Prefix: pfx("2001:db8::/64"), Since: at(1), Until: at(1).Add(14 * 24 * time.Hour), Forever: true, Reason: "why", By: "me"},
		{Prefix: pfx("2001:db8:1::/64"), Rule: "ssh", Since: at(1), Until: at(1).Add(24 * time.Hour), Count: 6, Points: 9, Strikes: 1,
			Reason: "6 failures, 9 points by 2001:db8:1::/64", Key: "2001:db8:1::/64", Action: "reject", Cut: true,
			Ports:    []detect.Ports{{Proto: "tcp", From: 22, To: 23}, {From: 80, To: 80}},
			Evidence: []string{"one", "two"}, Partial: true, User: "root", Source: "auth.log", Line: 7, Service: "sshd"},
	}
	for _, version := range []string{"3", "the present one"} {
		l, rec := opened(t, dir, at(5001), Options{})
		if got := l.List(at(5001)); !reflect.DeepEqual(got, want) || len(rec.Notes) > 0 {
			t.Errorf("version %s: got %+v, notes %q, want %+v", version, got, rec.Notes, want)
		}
		if l.Verdict(adr("192.0.2.1"), "sshd", nil, at(100).UnixNano()) != detect.Blocked {
			t.Errorf("version %s: the earlier block of 192.0.2.0/28 is forgotten", version)
		}
		if l.Verdict(adr("2001:db8:1::1"), "vsftpd", nil, at(100).UnixNano()) == detect.Blocked {
			t.Errorf("version %s: a block of sshd's ports stops another service", version)
		}
		if err := l.Save(at(5001), rec.Parts); err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

// copyDir keeps the files of a directory, as a kill would leave them.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestSaveKilledBetweenSteps undoes the steps of a save from the last, so that
// each state in which a kill can leave the directory is opened once.
func TestSaveKilledBetweenSteps(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	l.RecoveryDone(at(0))
	order := func(i int) {
		if _, err := l.BlockByHand(netip.PrefixFrom(addrOf(uint32(1<<30+i)), 32), time.Hour, "", "me", at(i)); err != nil {
			t.Fatal(err)
		}
	}
	order(1)
	l.Save(at(1), map[string][]byte{"n": {1}})
	order(2)
	l.Save(at(2), map[string][]byte{"n": {2}})
	order(3)
	l.Close()
	before := copyDir(t, dir)
	l, _ = opened(t, dir, at(3), Options{})
	l.Save(at(3), map[string][]byte{"n": {3}})
	l.Close()
	read := func(dir, name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	next := read(dir, "state")
	for name, prepare := range map[string]func(dir string){
		"nothing done":     func(string) {},
		"half a file":      func(d string) { os.WriteFile(d+"/state.tmp", next[:len(next)/2], 0o600) },
		"written":          func(d string) { os.WriteFile(d+"/state.tmp", next, 0o600) },
		"old one moved":    func(d string) { os.WriteFile(d+"/state.tmp", next, 0o600); os.Rename(d+"/state", d+"/state.prev") },
		"new one in place": func(d string) { os.Rename(d+"/state", d+"/state.prev"); os.WriteFile(d+"/state", next, 0o600) },
		"journal moved": func(d string) {
			os.Rename(d+"/state", d+"/state.prev")
			os.WriteFile(d+"/state", next, 0o600)
			os.Rename(d+"/journal", d+"/journal.prev")
		},
		"new one is damaged": func(d string) {
			os.Rename(d+"/state", d+"/state.prev")
			os.WriteFile(d+"/state", next[:len(next)-9], 0o600)
			os.Rename(d+"/journal", d+"/journal.prev")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := copyDir(t, before)
			prepare(d)
			l, rec := opened(t, d, at(4), Options{})
			if got := len(l.List(at(4))); got != 3 {
				t.Errorf("got %d blocks, want 3; notes %q", got, rec.Notes)
			}
			if name == "new one is damaged" {
				if _, err := os.Stat(d + "/state.corrupt"); err != nil || len(rec.Notes) != 1 || rec.Parts["n"][0] != 2 {
					t.Errorf("got %v, notes %q, parts %v, want it set aside and the former used", err, rec.Notes, rec.Parts)
				}
			} else if len(rec.Notes) > 0 {
				t.Errorf("notes: %q", rec.Notes)
			}
			if _, err := l.BlockByHand(pfx("192.0.2.1/32"), time.Hour, "", "me", at(4)); err != nil {
				t.Error(err)
			}
			if err := l.Save(at(4), nil); err != nil {
				t.Error(err)
			}
			l.Close()
			l, _ = opened(t, d, at(5), Options{})
			if got := len(l.List(at(5))); got != 4 {
				t.Errorf("after another life: got %d blocks, want 4", got)
			}
		})
	}
}

func TestTornJournal(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	for i := range 3 {
		l.BlockByHand(netip.PrefixFrom(addrOf(uint32(i+1)), 32), time.Hour, "", "me", at(0))
	}
	l.Close()
	path := filepath.Join(dir, "journal")
	data, _ := os.ReadFile(path)
	os.WriteFile(path, data[:len(data)-20], 0o600)
	l, rec := opened(t, dir, at(1), Options{})
	if len(l.List(at(1))) != 2 || len(rec.Notes) != 1 {
		t.Errorf("got %s, notes %q, want two blocks and a note", brief(l.List(at(1))), rec.Notes)
	}
	l.BlockByHand(pfx("192.0.2.1/32"), time.Hour, "", "me", at(1))
	l.Close()
	l, _ = opened(t, dir, at(2), Options{})
	if got := len(l.Covering(adr("192.0.2.1"), at(2))); got != 1 {
		t.Error("what was written behind the torn line is lost")
	}
}

func TestDamagedStateIsNeverFatal(t *testing.T) {
	good := t.TempDir()
	l, _ := opened(t, good, at(0), Options{})
	l.BlockByHand(pfx("192.0.2.1/32"), time.Hour, "", "me", at(0))
	l.Save(at(0), nil)
	l.Close()
	state, _ := os.ReadFile(good + "/state")
	version := append([]byte(nil), state...)
	copy(version, "stoplog state 9\n")
	own := encoded(t, &snapshot{parts: map[string][]byte{"": []byte("\x09nonsense")}})
	for name, data := range map[string][]byte{"empty": {}, "short": state[:10], "other version": version, "flipped": bytes.Replace(state, []byte("hand"), []byte("hxnd"), 1), "ledger's part": own} {
		if name == "flipped" {
			data = append([]byte(nil), state...)
			data[len(data)/2] ^= 1
		}
		dir := t.TempDir()
		os.WriteFile(dir+"/state", data, 0o600)
		l, rec := opened(t, dir, at(0), Options{})
		if len(l.List(at(0))) != 0 || len(rec.Notes) != 1 || rec.Parts != nil {
			t.Errorf("%s: got %s, %+v", name, brief(l.List(at(0))), rec)
		}
		if _, err := os.Stat(dir + "/state.corrupt"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := l.Save(at(0), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDiskFull has the journal, then the trail, on a full disk: orders are
// carried out and say so, and are written once there is room.
func TestDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	os.Symlink("/dev/full", dir+"/journal")
	os.Symlink("/dev/full", dir+"/audit.jsonl")
	cs, err := l.BlockByHand(pfx("192.0.2.1/32"), time.Hour, "", "me", at(0))
	if err == nil || changes(cs) == "" {
		t.Errorf("got %s, %v, want it done and an error", changes(cs), err)
	}
	if out := l.Breach(breach("198.51.100.0/28", 0), at(0)); len(out.Changes) != 1 {
		t.Errorf("blocking stopped: got %s", changes(out.Changes))
	}
	if got := strings.Join(l.Health(), "\n"); !strings.Contains(got, "journal: ") || !strings.Contains(got, "audit: ") || !strings.Contains(got, "2 entries are not saved") {
		t.Errorf("health: got %q", got)
	}
	l.Close()
	os.Remove(dir + "/journal")
	os.Remove(dir + "/audit.jsonl")
	l.Expire(at(1))
	l.BlockByHand(pfx("192.0.2.2/32"), time.Hour, "", "me", at(1))
	if got := l.Health(); len(got) != 0 {
		t.Errorf("with room again: got %q", got)
	}
	l.Close()
	l, _ = opened(t, dir, at(2), Options{})
	if got := len(l.List(at(2))); got != 3 {
		t.Errorf("after a restart: got %d blocks, want 3", got)
	}
	os.Mkdir(dir+"/state.tmp", 0o700)
	if err := l.Save(at(3), nil); err == nil || len(l.Health()) != 1 {
		t.Errorf("saving where one cannot: got %v, %q", err, l.Health())
	}
	os.Remove(dir + "/state.tmp")
	if err := l.Save(at(3), nil); err != nil || len(l.Health()) != 0 {
		t.Errorf("saving again: got %v, %q", err, l.Health())
	}
}

func TestAuditTrail(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	b := breach("192.0.2.0/28", 0)
	b.Evidence = []string{"Failed password for \"\x1b]0;x\x07\xff\" from 192.0.2.1\n"}
	l.Breach(b, at(0))
	l.BlockByHand(pfx("198.51.100.0/28"), time.Hour, "two\nlines", "me", at(1))
	l.Unblock(pfx("192.0.2.1/32"), "me", at(2))
	l.Allow(pfx("192.0.2.1/32"), 0, "customer", "me", at(3))
	l.Disallow(pfx("192.0.2.1/32"), "me", at(4))
	l.RaiseFlag("captcha", time.Hour, "", "me", at(5))
	l.ClearFlag("captcha", "me", at(6))
	data, _ := os.ReadFile(dir + "/audit.jsonl")
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		if !json.Valid(line) || !utf8.Valid(line) || bytes.ContainsAny(line, "\x1b\x07") {
			t.Errorf("got %q", line)
		}
	}
	entries, err := History(dir, Query{})
	var events []string
	for _, e := range entries {
		events = append(events, e.Event)
	}
	if got := strings.Join(events, " "); err != nil || got != "clear flag disallow allow unblock block block" {
		t.Errorf("got %s, %v", got, err)
	}
	if e := entries[6]; e.Block == nil || len(e.Block.Evidence) != 1 || e.Rule != "ssh" || e.By != "" || !e.Until.Equal(at(600)) {
		t.Errorf("the breach: got %+v", e)
	}
	of, _ := History(dir, Query{Prefix: netip.PrefixFrom(adr("192.0.2.1"), 32), Max: 3})
	if len(of) != 3 || of[0].Event != EventDisallow || of[2].Event != EventUnblock {
		t.Errorf("of an address: got %+v", of)
	}
	if none, err := History(t.TempDir(), Query{}); len(none) != 0 || err != nil {
		t.Errorf("no trail: got %v, %v", none, err)
	}
}

func TestAuditIsBounded(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{MaxAudit: 8192, AuditFiles: 3})
	l.RecoveryDone(at(0))
	for i := range 200 {
		p := netip.PrefixFrom(addrOf(uint32(1<<30+i*16)), 28)
		l.Breach(breach(p.String(), i), at(i))
	}
	files, _ := filepath.Glob(dir + "/audit*")
	for _, f := range files {
		if info, _ := os.Stat(f); info.Size() > 8192 {
			t.Errorf("%s has %d bytes, want at most 8192", f, info.Size())
		}
	}
	all, err := History(dir, Query{Max: 1000})
	if len(files) != 3 || err != nil || len(all) < 20 || all[0].Prefix != pfx(fmt.Sprintf("%v/28", addrOf(1<<30+199*16))) {
		t.Fatalf("got %d files, %d entries, %v", len(files), len(all), err)
	}
	for i := range all[1:] {
		if all[i].Seq != all[i+1].Seq+1 {
			t.Errorf("a gap: %d after %d", all[i].Seq, all[i+1].Seq)
		}
	}
}

// TestTrailIsCompletedAtOpen has a kill between the journal and the trail.
func TestTrailIsCompletedAtOpen(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	for i := range 3 {
		l.BlockByHand(netip.PrefixFrom(addrOf(uint32(i+1)), 32), time.Hour, "", "me", at(i))
	}
	l.Close()
	path := dir + "/audit.jsonl"
	data, _ := os.ReadFile(path)
	lines := bytes.SplitAfter(data, []byte("\n"))
	os.WriteFile(path, append(bytes.Join(lines[:1], nil), lines[1][:30]...), 0o640)
	l, _ = opened(t, dir, at(3), Options{})
	l.Close()
	opened(t, dir, at(4), Options{})
	all, err := History(dir, Query{})
	if len(all) != 3 || err != nil || all[0].Seq != 3 || all[2].Seq != 1 {
		t.Errorf("got %+v, %v, want three entries", all, err)
	}
}

func TestExpiredWhileDown(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	l.RecoveryDone(at(0))
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.BlockByHand(pfx("198.51.100.0/28"), 0, "", "me", at(0))
	l.Close()
	later := at(0).Add(40 * day)
	l, rec := opened(t, dir, later, Options{})
	if got := l.List(later); len(got) != 1 || !got[0].Forever || !got[0].Until.After(later) || rec.Pending != 0 {
		t.Errorf("got %+v, pending %d, want the one for good alone", got, rec.Pending)
	}
	l.RecoveryDone(later)
	if l.blocks.len() != 1 {
		t.Errorf("got %d records, want the ended one forgotten", l.blocks.len())
	}
}

func FuzzSnapshot(f *testing.F) {
	l := fresh(&testing.T{}, Options{})
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.Login("sshd", nil, adr("192.0.2.1"), 0, true)
	data, _ := l.encode(nil)
	f.Add(data)
	f.Add(encoded(f, &snapshot{parts: map[string][]byte{"a": []byte("b")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeSnapshot(b)
		o, _ := Options{}.filled()
		l := newLedger(o)
		if l.decode(b, 0) == nil {
			l.List(at(0))
			l.Verdict(adr("192.0.2.1"), "sshd", nil, 0)
			l.expireBlocks(at(0).UnixNano())
		}
	})
}

func FuzzJournal(f *testing.F) {
	line, _ := (&entry{Seq: 1, Op: opUnblock, Time: at(0), Pardons: []pardon{{pfx("192.0.2.0/28"), 5}}}).sealed()
	f.Add(line)
	f.Add([]byte(`00000000 1 {"op":"allow"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := unseal(b, 0); err == nil && len(b) < 10 {
			t.Errorf("%q passed", b)
		}
		var e entry
		if json.Unmarshal(b, &e) == nil && e.usable() {
			o, _ := Options{}.filled()
			newLedger(o).redo(&e, &Recovered{}, 0)
		}
	})
}
