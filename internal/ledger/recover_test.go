package ledger

import (
	"os"
	"testing"
	"time"

	"stoplog/internal/detect"
)

// flood is a breach that raises a flag and locks down.
func flood(seconds int) *detect.Breach {
	b := breach("192.0.2.0/28", seconds)
	b.Rule, b.Key = "flood", "all"
	b.Answers = []detect.Answer{{Kind: detect.RaiseFlag, Flag: "captcha", For: time.Hour}, {Kind: detect.Lockdown, For: time.Hour}, {Kind: detect.Notify}}
	return b
}

// TestFlagAndLockdownWait wants both to stand for people and walls right after
// a crash, and for detection once the log told of them again.
func TestFlagAndLockdownWait(t *testing.T) {
	dir, flags := t.TempDir(), t.TempDir()
	o := Options{FlagsDir: flags}
	l, _ := opened(t, dir, at(0), o)
	l.RecoveryDone(at(0))
	l.Breach(flood(10), at(10))
	l.Close()
	os.Remove(flags + "/captcha")

	l, _ = opened(t, dir, at(20), o)
	if _, err := os.Stat(flags + "/captcha"); err != nil || len(l.Flags(at(20))) != 1 || !l.Lockdown().Until.Equal(at(3610)) {
		t.Errorf("at once: %v, flags %+v, lockdown %+v", err, l.Flags(at(20)), l.Lockdown())
	}
	if l.Flag("captcha", at(15).UnixNano()) {
		t.Error("the rules see the flag before the log told of it")
	}
	if next := l.NextExpiry(); !next.Equal(at(3610)) {
		t.Errorf("next: got %v, want the flag's end", next.Sub(epoch))
	}
	if out := l.Breach(flood(10), at(21)); out.Fresh || out.Policy || len(out.Answers) != 0 {
		t.Errorf("found again: got %+v, want nothing", out)
	}
	if !l.Flag("captcha", at(15).UnixNano()) {
		t.Error("the rules do not see the flag that was found again")
	}
	l.RecoveryDone(at(22))
	if len(l.Flags(at(22))) != 1 || !l.Lockdown().Until.Equal(at(3610)) {
		t.Errorf("recovered: flags %+v, lockdown %+v", l.Flags(at(22)), l.Lockdown())
	}
	l.Expire(at(3610))
	if _, err := os.Stat(flags + "/captcha"); !os.IsNotExist(err) || l.NextExpiry().After(at(3610+600)) {
		t.Errorf("after its end: %v, next %v", err, l.NextExpiry().Sub(epoch))
	}
}

// TestClearedWhileWaiting wants orders given before and after a crash to hold
// for what waits.
func TestClearedWhileWaiting(t *testing.T) {
	for name, crashFirst := range map[string]bool{"before the crash": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, _ := opened(t, dir, at(0), Options{})
			l.RecoveryDone(at(0))
			l.Breach(flood(10), at(10))
			again := func() {
				l.Close()
				l, _ = opened(t, dir, at(20), Options{})
			}
			if crashFirst {
				again()
			}
			if up, err := l.ClearFlag("captcha", "me", at(20)); !up || err != nil {
				t.Errorf("clearing: got %v, %v", up, err)
			}
			if err := l.EndLockdown("me", at(20)); err != nil {
				t.Error(err)
			}
			if !crashFirst {
				again()
			}
			if len(l.Flags(at(20))) != 0 || l.Lockdown().Until.After(at(20)) {
				t.Errorf("cleared: flags %+v, lockdown %+v", l.Flags(at(20)), l.Lockdown())
			}
			l.Breach(flood(10), at(21))
			l.RecoveryDone(at(22))
			if !l.Flag("captcha", at(15).UnixNano()) || l.Flag("captcha", at(20).UnixNano()) || l.Lockdown().Until.After(at(20)) {
				t.Errorf("recovered: flags %+v, lockdown %+v", l.flags.by, l.Lockdown())
			}
		})
	}
}

// TestSameNameTwice has one rule breach twice in the same second for the same
// address: each is told once, before and after a crash.
func TestSameNameTwice(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	l.RecoveryDone(at(0))
	login := breach("192.0.2.0/28", 0)
	login.Rule, login.Count, login.Points, login.Answers = "new-login", 1, 1, []detect.Answer{{Kind: detect.Notify}}
	l.Breach(login, at(0))
	l.Breach(login, at(0))
	l.Close()
	l, _ = opened(t, dir, at(1), Options{})
	for i, want := range []bool{false, false, true} {
		if got := l.Breach(login, at(1)).Fresh; got != want {
			t.Errorf("%d: got fresh %v, want %v", i, got, want)
		}
	}
}

// TestAllowedMeanwhile wants a block of the journal gone when the rules file
// allows it by the next start.
func TestAllowedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	l.RecoveryDone(at(0))
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.Close()
	l, rec := opened(t, dir, at(1), Options{Allow: pfxs("192.0.2.0/24")})
	if len(l.List(at(1))) != 0 || rec.Pending != 0 {
		t.Errorf("got %s, pending %d, want none", brief(l.List(at(1))), rec.Pending)
	}
	l.Breach(breach("192.0.2.0/28", 0), at(1))
	l.RecoveryDone(at(1))
	if len(l.List(at(1))) != 0 || len(l.strikes.by) != 0 {
		t.Errorf("recovered: got %s, %d strikes, want none", brief(l.List(at(1))), len(l.strikes.by))
	}
}
