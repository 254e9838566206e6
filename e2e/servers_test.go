package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// start runs a program in h until the test ends and returns what it prints.
func start(t *testing.T, h host, argv ...string) (*exec.Cmd, *output) {
	t.Helper()
	c := exec.Command("ip", h.args(argv...)...)
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	o := &output{lines: make(chan string, 100000)}
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			o.lines <- s.Text()
		}
		close(o.lines)
	}()
	done := make(chan struct{})
	go func() {
		_ = c.Wait()
		w.Close()
		close(done)
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-done
	})
	return c, o
}

// scratch is a directory that processes of other users can reach.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stoplog-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func put(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// privateDev gives a shell script a /dev of its own, so that the /dev/log in
// it is the test's and not the machine's. `ip netns exec` has made a mount
// namespace already.
const privateDev = `set -e
D=%[1]s/dev; mkdir -p $D; mount -t tmpfs -o mode=755 tmpfs $D
mknod -m 666 $D/null c 1 3; mknod -m 666 $D/zero c 1 5; mknod -m 666 $D/random c 1 8; mknod -m 666 $D/urandom c 1 9
mknod -m 666 $D/tty c 5 0; mkdir $D/pts $D/shm; mount --bind /dev/pts $D/pts; ln -s pts/ptmx $D/ptmx; ln -s /proc/self/fd $D/fd
mount --bind $D /dev
mkdir -p /run/sshd
`

// sshServer runs rsyslogd and sshd in h; the log is dir/auth.log. Format is
// an rsyslog template. It returns when sshd listens.
func sshServer(t *testing.T, h host, dir, format string) (log string) {
	t.Helper()
	log = filepath.Join(dir, "auth.log")
	put(t, filepath.Join(dir, "rsyslog.conf"), fmt.Sprintf(`module(load="imuxsock")
$FileCreateMode 0644
$ActionFileDefaultTemplate %s
auth,authpriv.* %s
`, format, log), 0o644)
	key := filepath.Join(dir, "hostkey")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "id")).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	pub, err := os.ReadFile(filepath.Join(dir, "id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "authorized_keys"), string(pub), 0o600)
	put(t, filepath.Join(dir, "sshd_config"), fmt.Sprintf(`Port 22
HostKey %s
PidFile none
PasswordAuthentication yes
PermitRootLogin yes
StrictModes no
AuthorizedKeysFile %s/authorized_keys
UsePAM no
MaxStartups 100
LogLevel INFO
SyslogFacility AUTH
`, key, dir), 0o644)
	script := fmt.Sprintf(privateDev+`rsyslogd -n -f %[1]s/rsyslog.conf -i %[1]s/rsyslog.pid & R=$!
trap 'kill $R $S 2>/dev/null; wait' TERM EXIT
while [ ! -S /dev/log ]; do kill -0 $R; done
/usr/sbin/sshd -D -f %[1]s/sshd_config & S=$!
wait`, dir)
	_, out := start(t, h, "bash", "-c", script)
	waitListening(t, h, "22", out)
	return log
}

// waitListening waits until something listens on the port in h.
func waitListening(t *testing.T, h host, port string, out *output) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		s, err := h.try(ctx, "ss", "-Hltn", "sport = :"+port)
		if err == nil && strings.TrimSpace(s) != "" {
			return
		}
	}
	t.Fatalf("nobody listens on port %s:\n%s", port, out.all.String())
}

// sshTry attempts a login from src and reports whether it succeeded.
func sshTry(h host, dir, src, dst, user, password string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return sshTryContext(ctx, h, dir, src, dst, user, password)
}

func sshTryContext(ctx context.Context, h host, dir, src, dst, user, password string) (string, error) {
	opts := []string{"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=10", "-b", src}
	if password == "" {
		return h.try(ctx, append(append([]string{"ssh", "-i", filepath.Join(dir, "id"), "-o", "BatchMode=yes"}, opts...), user+"@"+dst, "true")...)
	}
	argv := append([]string{"sshpass", "-p", password, "ssh", "-F", "none", "-o", "PreferredAuthentications=password", "-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1"}, opts...)
	return h.try(ctx, append(argv, user+"@"+dst, "true")...)
}

// webServer runs nginx in h with a page behind HTTP authentication on port
// 80; the log is dir/access.log.
func webServer(t *testing.T, h host, dir string) (log string) {
	t.Helper()
	log = filepath.Join(dir, "access.log")
	// alice with the password "right" (crypt's {PLAIN} form, ngx_crypt.c).
	put(t, filepath.Join(dir, "htpasswd"), "alice:{PLAIN}right\n", 0o644)
	put(t, filepath.Join(dir, "index.html"), "hello\n", 0o644)
	put(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log %[1]s/error.log;
events {}
http {
  access_log %[1]s/access.log combined;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen 80; listen [::]:80; root %[1]s;
    location / { auth_basic "closed"; auth_basic_user_file %[1]s/htpasswd; }
  }
}
`, dir), 0o644)
	_, out := start(t, h, "nginx", "-c", filepath.Join(dir, "nginx.conf"))
	waitListening(t, h, "80", out)
	return log
}
