package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkLatency measures from the write of the failure that makes a bucket
// run over to the kernel's acknowledgement of the block, as the daemon logs
// it: what the log line itself costs is part of it.
func BenchmarkLatency(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for _, wall := range []string{"nftables", "ipset", "iptables"} {
		b.Run(wall, func(b *testing.B) { benchLatency(b, wall) })
	}
}

func benchLatency(b *testing.B, wall string) {
	dir, err := os.MkdirTemp("", "stoplog-e2e-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	log := filepath.Join(dir, "auth.log")
	f, err := os.Create(log)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	rules := strings.NewReplacer("firewall: {backend: auto}", "firewall: {backend: "+wall+"}").Replace(fmt.Sprintf(latencyRules, log))
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o644); err != nil {
		b.Fatal(err)
	}
	ns := fmt.Sprintf("sl%d-l%s", os.Getpid()%100000, wall)
	if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
		b.Fatalf("ip netns add: %v\n%s", err, out)
	}
	defer func() { _ = exec.Command("ip", "netns", "del", ns).Run() }()
	p := &plainRun{dir: dir, config: filepath.Join(dir, "rules.yaml")}
	p.launch(b, exec.Command("ip", host{ns}.args(binary, "run", "-v", "--config", p.config, "--state", filepath.Join(dir, "state"),
		"--flags", filepath.Join(dir, "flags"), "--socket", p.socket(), "--user", "nobody")...))
	defer func() { _ = p.cmd.Process.Signal(syscall.SIGTERM); <-p.ended }()
	p.out.await(b, "wall is set up")
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		took = append(took, oneBlock(b, p, f, i))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-median")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms-p99")
	b.ReportMetric(0, "ns/op")
}

const latencyRules = `
use: []
sources: [{file: %s, service: sshd}]
protect: {own: false, ssh_peers: false}
block: {ttl: 1h, multiply: 1}
firewall: {backend: auto}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
`

// oneBlock fails six logins of a new prefix and times the last.
func oneBlock(b *testing.B, p *plainRun, f *os.File, i int) time.Duration {
	b.Helper()
	prefix := fmt.Sprintf("10.%d.%d.%d/28", i>>12&255, i>>4&255, i&15<<4)
	line := func(id int) string {
		return fmt.Sprintf("%s host sshd[%d]: Failed password for bob from %s port 4000 ssh2\n",
			time.Now().UTC().Format(time.RFC3339Nano), id, strings.TrimSuffix(prefix, "/28"))
	}
	for id := range 5 {
		if _, err := f.WriteString(line(10*i + id)); err != nil {
			b.Fatal(err)
		}
	}
	last := line(10*i + 5)
	start := time.Now()
	if _, err := f.WriteString(last); err != nil {
		b.Fatal(err)
	}
	p.out.await(b, "msg=held", "prefix="+prefix)
	return time.Since(start)
}
