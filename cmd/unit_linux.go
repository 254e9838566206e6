package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"stoplog/internal/priv"
)

// unitRights are the user and the capabilities that the service is started
// with, drop-ins included; nil when there is no service, or it starts as root.
func unitRights(ctx context.Context) *syscall.SysProcAttr {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "stoplog.service", "-p", "LoadState,User,AmbientCapabilities").Output()
	if err != nil {
		return nil
	}
	is := map[string]string{}
	for l := range strings.Lines(string(out)) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), "=")
		is[k] = v
	}
	if is["LoadState"] != "loaded" || is["User"] == "" || is["User"] == "root" {
		return nil
	}
	p, err := priv.Lookup(is["User"])
	if err != nil {
		return nil
	}
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.UID), Gid: uint32(p.GID)}}
	for _, g := range p.Groups {
		as.Credential.Groups = append(as.Credential.Groups, uint32(g))
	}
	for _, c := range strings.Fields(is["AmbientCapabilities"]) {
		switch c {
		case "cap_net_admin":
			as.AmbientCaps = append(as.AmbientCaps, priv.NetAdmin)
		case "cap_net_raw":
			as.AmbientCaps = append(as.AmbientCaps, priv.NetRaw)
		}
	}
	return as
}

// tryAs proves in a process with those rights that a wall would work.
func tryAs(ctx context.Context, as *syscall.SysProcAttr, o wallOptions) (string, error) {
	arg, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, self, "wall", "--try", string(arg))
	c.SysProcAttr, c.Dir, c.Env = as, "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	var why, said strings.Builder
	c.Stdout, c.Stderr = &why, &said
	if err := c.Run(); err != nil {
		text := cmp.Or(strings.TrimPrefix(strings.TrimSpace(said.String()), "stoplog: "), err.Error())
		if strings.Contains(text, "CAP_NET_RAW") || strings.Contains(text, "permission denied") || strings.Contains(text, "not permitted") {
			return "", fmt.Errorf("with the rights of the service: %s: %w", text, fs.ErrPermission)
		}
		return "", fmt.Errorf("with the rights of the service: %s", text)
	}
	return strings.TrimSpace(why.String()) + ", with the rights of the service", nil
}
