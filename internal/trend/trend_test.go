package trend

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

var begin = time.Date(2026, 11, 20, 9, 0, 30, 0, time.UTC)

// total sums what Read gives of one series.
func total(t *Trend, u Unit, s Series, from time.Time, n int) (c Count) {
	t.Read(u, s.Kind, from, n, func(_ int, x Series, d Count) {
		if x == s {
			c.add(d)
		}
	})
	return c
}

func TestBins(t *testing.T) {
	var x Trend
	ssh, web := Series{Rule, "ssh-login"}, Series{Rule, "web-login"}
	x.Add(begin, ssh, Count{Events: 5, Breaches: 1, Blocks: 1})
	x.Add(begin.Add(20*time.Second), ssh, Count{Events: 2})
	x.Add(begin.Add(time.Minute), ssh, Count{Events: 1})
	x.Add(begin, web, Count{Events: 9})
	x.Add(begin.Add(3*time.Hour), ssh, Count{Events: 10})
	for _, c := range []struct {
		name string
		unit Unit
		from time.Time
		n    int
		s    Series
		want Count
	}{
		{"one minute", Minute, begin, 1, ssh, Count{Events: 7, Breaches: 1, Blocks: 1}},
		{"two minutes", Minute, begin, 2, ssh, Count{Events: 8, Breaches: 1, Blocks: 1}},
		{"before", Minute, begin.Add(-time.Hour), 60, ssh, Count{}},
		{"another rule", Minute, begin, 2, web, Count{Events: 9}},
		{"a service of that name", Minute, begin, 2, Series{Service, "ssh-login"}, Count{}},
		{"hours", Hour, begin, 4, ssh, Count{Events: 18, Breaches: 1, Blocks: 1}},
		{"the first hour", Hour, begin, 1, ssh, Count{Events: 8, Breaches: 1, Blocks: 1}},
		{"the day", Day, begin, 1, ssh, Count{Events: 18, Breaches: 1, Blocks: 1}},
		{"more bins than there are", Day, begin.AddDate(0, 0, -399), 1 << 30, ssh, Count{Events: 18, Breaches: 1, Blocks: 1}},
	} {
		if got := total(&x, c.unit, c.s, c.from, c.n); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	x.Add(begin.AddDate(0, 0, 1), ssh, Count{Events: 1}) // the same place of the ring of minutes
	if got := total(&x, Minute, ssh, begin, 1); got != (Count{}) {
		t.Errorf("a minute of yesterday still holds %+v", got)
	}
	if got := total(&x, Hour, ssh, begin, 1); got.Events != 8 {
		t.Errorf("the hour of yesterday holds %+v, want 8 events", got)
	}
}

// year fills a year with so many rules and services that match in every minute.
func year(names int) *Trend {
	var x Trend
	for d := range 400 {
		for m := 0; m < 24*60; m += 30 {
			if d == 399 {
				continue
			}
			at := begin.AddDate(0, 0, d).Add(time.Duration(m) * time.Minute)
			for i := range names {
				x.Add(at, Series{Rule, fmt.Sprint("rule-", i)}, Count{Events: 1000, Breaches: 100, Blocks: 10})
			}
		}
	}
	for m := range 24 * 60 {
		at := begin.AddDate(0, 0, 399).Add(time.Duration(m) * time.Minute)
		for i := range names {
			x.Add(at, Series{Rule, fmt.Sprint("rule-", i)}, Count{Events: 1000, Breaches: 100, Blocks: 10})
			x.Add(at, Series{Service, fmt.Sprint("service-", i)}, Count{Events: 1000, Breaches: 100, Blocks: 10})
		}
	}
	return &x
}

// TestSize: a year of many rules takes a few megabytes, and the names of a
// hostile log no more.
func TestSize(t *testing.T) {
	x := year(12)
	if n := len(x.AppendBinary(nil)); n > 1<<20 {
		t.Errorf("a year of 12 rules takes %d bytes in the state, want at most 1 MiB", n)
	}
	for i := range 10_000 {
		x.Add(begin.AddDate(0, 0, 399), Series{Service, fmt.Sprint("forged-", i)}, Count{Events: 1})
	}
	if n := len(x.series); n > int(kinds)*(maxSeries+1) {
		t.Errorf("%d series are kept, want at most %d", n, int(kinds)*(maxSeries+1))
	}
	last := begin.AddDate(0, 0, 399)
	if got := total(x, Day, Series{Service, Other}, last, 1); got.Events < 10_000-maxSeries {
		t.Errorf("the others count %d events, want those of all names over the bound", got.Events)
	}
	if got := total(x, Minute, Series{Rule, "rule-0"}, last, 1); got.Events != 1000 {
		t.Errorf("a rule counts %d events beside them, want 1000", got.Events)
	}
}

// TestNamesReturn: a name that no bin holds any more makes room for another.
func TestNamesReturn(t *testing.T) {
	var x Trend
	for i := range 500 {
		x.Add(begin.AddDate(2*i, 0, 0), Series{Rule, fmt.Sprint("rule-", i)}, Count{Events: 1})
	}
	last := begin.AddDate(2*499, 0, 0)
	if got := total(&x, Day, Series{Rule, "rule-499"}, last, 1); got.Events != 1 {
		t.Errorf("the last rule counts %+v under its name, want 1 event", got)
	}
}

func TestRestore(t *testing.T) {
	x := year(3)
	b := x.AppendBinary(nil)
	var y Trend
	if err := y.Restore(b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(y.AppendBinary(nil), b) {
		t.Error("what was restored is not what was saved")
	}
	for n := range 200 {
		if err := y.Restore(b[:n]); err == nil {
			t.Errorf("the first %d bytes of %d are taken for the whole", n, len(b))
		}
	}
	if err := y.Restore(append(b, 0)); err == nil {
		t.Error("a byte too many is ignored")
	}
}

func FuzzRestore(f *testing.F) {
	f.Add((&Trend{}).AppendBinary(nil))
	var x Trend
	x.Add(begin, Series{Rule, "ssh-login"}, Count{Events: 3, Blocks: 1})
	x.Add(begin, Series{Kind: All}, Count{Lines: 3})
	f.Add(x.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var x Trend
		if x.Restore(b) != nil {
			return
		}
		var y Trend
		saved := x.AppendBinary(nil)
		if err := y.Restore(saved); err != nil {
			t.Fatalf("what it saved cannot be restored: %v", err)
		}
		x.Add(begin, Series{Service, "sshd"}, Count{Events: 1})
		for u := range kept {
			x.Read(Unit(u), Service, begin, 10, func(int, Series, Count) {})
		}
	})
}
