package priv

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// logGroups are the groups that may read logs: adm on Debian and its kin,
// systemd-journal wherever journald runs.
var logGroups = []string{"adm", "systemd-journal"}

// Lookup turns a user's name into a plan with no capability: its group, its
// own further groups, and those that may read logs, as far as they exist.
func Lookup(name string) (Plan, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Plan{}, fmt.Errorf("looking up user %s: %w", name, err)
	}
	var p Plan
	if p.UID, err = strconv.Atoi(u.Uid); err != nil {
		return Plan{}, fmt.Errorf("user %s has id %q: %w", name, u.Uid, err)
	}
	if p.GID, err = strconv.Atoi(u.Gid); err != nil {
		return Plan{}, fmt.Errorf("user %s has group %q: %w", name, u.Gid, err)
	}
	if ids, err := u.GroupIds(); err == nil {
		for _, id := range ids {
			p.addGroup(id)
		}
	}
	for _, g := range logGroups {
		if gr, err := user.LookupGroup(g); err == nil {
			p.addGroup(gr.Gid)
		}
	}
	return p, nil
}

func (p *Plan) addGroup(id string) {
	n, err := strconv.Atoi(id)
	if err != nil {
		return
	}
	for _, g := range p.Groups {
		if g == n {
			return
		}
	}
	p.Groups = append(p.Groups, n)
}

// CanRead reports whether the plan's user may read a file of this owner,
// group and mode by its permission bits alone (ACLs are not looked at).
func (p Plan) CanRead(uid, gid int, mode os.FileMode) bool {
	if p.UID == uid {
		return mode&0o400 != 0
	}
	for _, g := range append([]int{p.GID}, p.Groups...) {
		if g == gid {
			return mode&0o040 != 0
		}
	}
	return mode&0o004 != 0
}
