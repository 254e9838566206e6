package lean

import "testing"

func TestOwnCode(t *testing.T) {
	const exe = "/usr/bin/stoplog"
	for line, want := range map[string]bool{
		"00400000-00a00000 r-xp 00000000 fd:00 123    /usr/bin/stoplog":   true,
		"00a00000-01500000 r--p 00600000 fd:00 123    /usr/bin/stoplog":   true,
		"01500000-01560000 rw-p 01100000 fd:00 123    /usr/bin/stoplog":   false, // changed since it was loaded
		"7f0000000000-7f0000001000 r-xp 00000000 fd:00 9  /lib/libc.so.6": false,
		"c000000000-c000400000 rw-p 00000000 00:00 0":                     false,
		"7ffd0000-7ffd1000 r-xp 00000000 00:00 0  [vdso]":                 false,
		"zz-yy r-xp 0 fd:00 1 /usr/bin/stoplog":                           false,
		"":                                                                false,
	} {
		from, to, ok := ownCode(line, exe)
		if ok != want || ok && to <= from {
			t.Errorf("ownCode(%q) = %x, %x, %v; want %v", line, from, to, ok, want)
		}
	}
	GiveBack() // and we are still here
}
