package pack

import "testing"

var benchLines = map[string]string{
	"sshd":     `Failed password for invalid user admin from 192.0.2.7 port 41922 ssh2`,
	"combined": `192.0.2.7 - - [01/May/2024:10:11:12 +0200] "GET /index.html HTTP/1.1" 200 5120 "https://www.example.org/" "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"`,
	"postfix":  `NOQUEUE: reject: RCPT from unknown[192.0.2.7]: 554 5.7.1 <a@example.org>: Relay access denied; from=<b@example.com> to=<a@example.org> proto=ESMTP helo=<x>`,
}

// A line of another service: what all built-in packs cost together.
func BenchmarkMissBare(b *testing.B) {
	for name, l := range benchLines {
		b.Run(name, func(b *testing.B) { miss(b, nil, l) })
	}
}

// A line of a program that no pack knows.
func BenchmarkMissTagged(b *testing.B) { miss(b, []byte("sshd"), benchLines["sshd"]) }

// A line of a program that a pack knows, of no interest.
func BenchmarkMissKnown(b *testing.B) {
	miss(b, []byte("pvedaemon"), `<root@pam> starting task UPID:pve:0003E8C3:01B2:66320A20:vncproxy:100:root@pam:`)
}

func miss(b *testing.B, tag []byte, line string) {
	s, err := Builtin()
	if err != nil {
		b.Fatal(err)
	}
	var m Match
	text := []byte(line)
	b.ReportAllocs()
	for b.Loop() {
		ok := false
		if tag == nil {
			ok = s.MatchBare(text, &m)
		} else {
			ok = s.MatchTagged(tag, text, &m)
		}
		if ok {
			b.Fatal("matched")
		}
	}
}

func BenchmarkHit(b *testing.B) {
	s, err := Builtin()
	if err != nil {
		b.Fatal(err)
	}
	var m Match
	text := []byte("authentication failure; rhost=::ffff:192.0.2.7 user=mallory@pam msg=no such user ('mallory@pam')")
	b.ReportAllocs()
	for b.Loop() {
		if !s.MatchTagged([]byte("pvedaemon"), text, &m) {
			b.Fatal("no match")
		}
	}
}

// What the built-in packs cost a start.
func BenchmarkBuiltin(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Builtin(); err != nil {
			b.Fatal(err)
		}
	}
}
