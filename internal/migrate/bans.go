package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"regexp"
)

// Ban is an address that fail2ban bans, and the jail that does.
type Ban struct {
	Addr string `json:"addr"` // or prefix
	Jail string `json:"jail"`
}

// maxBans bounds what is read of fail2ban-client, in bytes.
const maxBans = 64 << 20

// Bans asks the running fail2ban what it bans.
func Bans(ctx context.Context) ([]Ban, error) {
	program, err := exec.LookPath("fail2ban-client")
	if err != nil {
		return nil, errors.New("fail2ban-client is not installed")
	}
	out, err := exec.CommandContext(ctx, program, "banned").Output()
	if err != nil {
		var x *exec.ExitError
		if errors.As(err, &x) {
			err = fmt.Errorf("%w: %.200s", err, x.Stderr)
		}
		return nil, fmt.Errorf("fail2ban-client banned: %w", err)
	}
	return parseBans(string(out))
}

// ReadBans reads what "fail2ban-client banned" printed.
func ReadBans(r io.Reader) ([]Ban, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBans+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBans {
		return nil, fmt.Errorf("longer than %d bytes", maxBans)
	}
	return parseBans(string(text))
}

var (
	jailBansRE = regexp.MustCompile(`'([^']*)': \[([^\]]*)\]`)
	banRE      = regexp.MustCompile(`'([^']*)'`)
)

// parseBans reads [{'sshd': ['192.0.2.1', …]}, …]. What is no address or prefix
// is left out: a jail may ban by another key.
func parseBans(text string) (out []Ban, err error) {
	jails := jailBansRE.FindAllStringSubmatch(text, -1)
	if len(jails) == 0 && text != "[]\n" && text != "[]" {
		return nil, errors.New("not the output of fail2ban-client banned")
	}
	for _, j := range jails {
		for _, b := range banRE.FindAllStringSubmatch(j[2], -1) {
			_, err := netip.ParseAddr(b[1])
			if _, perr := netip.ParsePrefix(b[1]); err != nil && perr != nil {
				continue
			}
			out = append(out, Ban{b[1], ruleName(j[1])})
		}
	}
	return out, nil
}
