package migrate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/f2b"
)

// Compared is what fail2ban-regex and stoplog find by one jail's filter in one log.
type Compared struct {
	Jail          string   `json:"jail"`
	Log           string   `json:"log"`
	Lines         int      `json:"lines"`
	Theirs        int      `json:"fail2ban"` // failures
	Ours          int      `json:"stoplog"`
	Equal         int      `json:"equal"` // the same address at the same second
	BansTheirs    int      `json:"fail2ban_bans"`
	BansOurs      int      `json:"stoplog_bans"` // addresses
	Differences   []string `json:"differences,omitempty"`
	NotCompared   string   `json:"not_compared,omitempty"`
	OverTheLimits int      `json:"more_differences,omitempty"` // that are not listed
}

// maxDifferences bounds how many are listed of one log.
const maxDifferences = 20

// Verify runs the filters of the enabled jails in dir on logs, by fail2ban's
// own program and by stoplog, and compares them: the jails whose logpath names a
// log, or all when none does. zone is that of dates without one.
func Verify(ctx context.Context, dir string, logs []string, zone *time.Location) ([]Compared, error) {
	program, err := exec.LookPath("fail2ban-regex")
	if err != nil {
		return nil, errors.New("fail2ban-regex is not installed")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	m := &importer{dir: abs, told: map[string]bool{}}
	jails := m.jails(readJails(abs))
	var out []Compared
	for _, log := range logs {
		path, err := filepath.Abs(log)
		if err != nil {
			return nil, err
		}
		named := slices.DeleteFunc(slices.Clone(jails), func(j jail) bool { return !j.reads(path) })
		if len(named) == 0 {
			named = jails
		}
		for _, j := range named {
			c, err := m.compare(ctx, program, j, path, zone)
			if err != nil {
				return out, fmt.Errorf("comparing jail %s on %s: %w", j.name, log, err)
			}
			out = append(out, c)
		}
	}
	return out, nil
}

func (j jail) reads(path string) bool {
	return slices.ContainsFunc(j.logs, func(glob string) bool {
		ok, _ := filepath.Match(glob, path)
		return ok
	})
}

// hit is one failure.
type hit struct {
	at int64 // seconds
	id string
}

func (m *importer) compare(ctx context.Context, program string, j jail, path string, zone *time.Location) (Compared, error) {
	c := Compared{Jail: j.name, Log: path}
	params := maps.Clone(j.params)
	maps.Copy(params, j.own)
	f, problems := f2b.Load(filepath.Join(m.dir, "filter.d", j.filter+".conf"), f2b.Options{Params: params, NoNames: params["usedns"] == "no"})
	if f == nil {
		c.NotCompared = problems[0].Error()
		return c, nil
	}
	filter, ok := j.argument(params)
	if !ok {
		c.NotCompared = "the jail's expressions have both kinds of quotes, which fail2ban-regex cannot take"
		return c, nil
	}
	args := []string{"-c", m.dir, "--usedns=raw", "--out=<time> <ip>", path, filter}
	cmd := exec.CommandContext(ctx, program, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return c, fmt.Errorf("fail2ban-regex: %w: %.300s", err, errs.String())
	}
	var theirs []hit
	for line := range strings.Lines(string(text)) {
		when, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at, err := strconv.ParseFloat(when, 64); err == nil {
			theirs = append(theirs, hit{int64(at), canonical(id)})
		}
	}
	ours, doubted, err := c.ourHits(f, path, zone)
	if err != nil {
		return c, err
	}
	c.Theirs, c.Ours = len(theirs), len(ours)
	c.BansTheirs, c.BansOurs = len(j.bans(theirs)), len(j.bans(ours))
	c.differences(theirs, ours, doubted)
	return c, nil
}

// argument is the filter as fail2ban-regex takes it.
func (j jail) argument(params map[string]string) (string, bool) {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(params)) {
		q := `"`
		if strings.Contains(params[k], q) {
			q = `'`
		}
		if strings.Contains(params[k], q) {
			return "", false
		}
		all = append(all, k+"="+q+params[k]+q)
	}
	if len(all) == 0 {
		return j.filter, true
	}
	return j.filter + "[" + strings.Join(all, ", ") + "]", true
}

func canonical(id string) string {
	if a, err := netip.ParseAddr(id); err == nil {
		return a.Unmap().String()
	}
	return id
}

// ourHits reads the log by stoplog's engine. doubted are the seconds of lines
// that could be read with two addresses.
func (c *Compared) ourHits(f *f2b.Filter, path string, zone *time.Location) (hits []hit, doubted map[int64]bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	doubted = map[int64]bool{}
	s := f.Session(zone)
	in := bufio.NewReaderSize(file, 1<<20)
	now := time.Now()
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			c.Lines++
			got, v := s.Line(bytes.TrimRight(line, "\r\n"), 0, now)
			switch v {
			case f2b.Counted:
				hits = append(hits, hit{got.Time / int64(time.Second), got.Addr.String()})
			case f2b.Ambiguous:
				doubted[s.Time()/int64(time.Second)] = true
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
		}
		if err != nil {
			return hits, doubted, nil
		}
	}
}

// bans are the addresses that reach maxretry within findtime.
func (j jail) bans(hits []hit) map[string]bool {
	at := map[string][]int64{}
	out := map[string]bool{}
	for _, h := range hits {
		times := append(at[h.id], h.at)
		for len(times) > 0 && h.at-times[0] > int64(j.findTime/time.Second) {
			times = times[1:]
		}
		if at[h.id] = times; len(times) >= j.maxRetry {
			out[h.id] = true
		}
	}
	return out
}

func (c *Compared) differences(theirs, ours []hit, doubted map[int64]bool) {
	count := map[hit]int{}
	for _, h := range ours {
		count[h]++
	}
	tell := func(h hit, who, why string) {
		if len(c.Differences) == maxDifferences {
			c.OverTheLimits++
			return
		}
		c.Differences = append(c.Differences, fmt.Sprintf("%s %s: only %s%s", time.Unix(h.at, 0).UTC().Format(time.RFC3339), h.id, who, why))
	}
	for _, h := range theirs {
		if count[h] > 0 {
			count[h]--
			c.Equal++
			continue
		}
		why := ""
		switch _, err := netip.ParseAddr(h.id); {
		case err != nil:
			why = ", for it is no address, and names are never looked up"
		case doubted[h.at]:
			why = ", for the line can be read with two addresses"
		}
		tell(h, "fail2ban", why)
	}
	for _, h := range ours {
		if count[h] > 0 {
			count[h]--
			tell(h, "stoplog", "")
		}
	}
}
