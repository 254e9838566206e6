package ledger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
)

// TestClockSetBack: an hour back, what had ended stays ended, what stood has as
// long to stand as before, and so have the flags and the lockdown.
func TestClockSetBack(t *testing.T) {
	l := fresh(t, Options{FlagsDir: t.TempDir()})
	l.Breach(breach("192.0.2.0/28", 0), at(0)) // for ten minutes
	l.Expire(at(700))
	l.Breach(breach("198.51.100.0/28", 700), at(700))
	if err := l.RaiseFlag("captcha", time.Hour, "", "me", at(700)); err != nil {
		t.Fatal(err)
	}
	l.lockdown = LockdownState{Since: at(700), Until: at(1000)}

	if err := l.SetBack(time.Hour, at(720-3600)); err != nil {
		t.Fatal(err)
	}
	now := at(720 - 3600)
	var stands []string
	for _, b := range l.List(now) {
		stands = append(stands, b.Prefix.String(), b.Until.Sub(now).String())
	}
	if got, want := strings.Join(stands, " "), "198.51.100.0/28 9m40s"; got != want {
		t.Errorf("blocks: got %q, want %q", got, want)
	}
	if got := l.Verdict(adr("198.51.100.1"), "sshd", nil, now.UnixNano()); got != detect.Blocked {
		t.Errorf("a line of the new time: got %v, want it to be of a blocked source", got)
	}
	if got := l.NextExpiry().Sub(now); got > 580*time.Second {
		t.Errorf("the next end is in %v, want within 9m40s", got)
	}
	if got := l.Lockdown().Until.Sub(now); got != 280*time.Second {
		t.Errorf("the lockdown has %v to stand, want 4m40s", got)
	}
	file, err := os.ReadFile(filepath.Join(l.flags.dir, "captcha"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Fields(string(file))[0], strconv.FormatInt(at(700).Unix(), 10); got != want {
		t.Errorf("the flag's file ends at %s, want %s: an hour after it was raised, by the new time", got, want)
	}
	if got := changes(l.Expire(at(720 - 3600 + 581))); got != "lift 198.51.100.0/28" {
		t.Errorf("after its time: got %q, want it lifted", got)
	}
}

// Where no lockdown ever was there is none to move: its zero time stays one.
func TestClockSetBackWithoutALockdown(t *testing.T) {
	l := fresh(t, Options{})
	if err := l.SetBack(time.Hour, at(0)); err != nil {
		t.Fatal(err)
	}
	if got := l.Lockdown(); !got.Since.IsZero() || !got.Until.IsZero() {
		t.Errorf("got %+v, want none", got)
	}
}
