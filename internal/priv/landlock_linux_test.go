package priv

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// confined is the program that TestConfine starts: it shuts itself in and
// then tries doors. It prints a line each.
func confined(read, write string) {
	said, err := Confine([]string{"/usr", "/lib", "/lib64", "/bin", read}, []string{write})
	if err != nil {
		os.Stdout.WriteString("failed: " + err.Error() + "\n")
		return
	}
	os.Stdout.WriteString("said: " + said + "\n")
	try := func(what string, err error) {
		switch {
		case err == nil:
			os.Stdout.WriteString(what + ": open\n")
		case errors.Is(err, fs.ErrPermission):
			os.Stdout.WriteString(what + ": shut\n")
		default:
			os.Stdout.WriteString(what + ": " + err.Error() + "\n")
		}
	}
	_, err = os.ReadFile("/etc/shadow")
	try("shadow", err)
	_, err = os.ReadFile(filepath.Join(read, "log"))
	try("log", err)
	try("write log", os.WriteFile(filepath.Join(read, "log"), nil, 0o600))
	try("state", os.WriteFile(filepath.Join(write, "new"), []byte("x"), 0o600))
	try("rename", os.Rename(filepath.Join(write, "new"), filepath.Join(write, "newer")))
	try("elsewhere", os.WriteFile(filepath.Join(filepath.Dir(write), "x"), nil, 0o600))
	out, err := exec.Command("/bin/cat", "/etc/shadow").CombinedOutput()
	if err != nil && strings.Contains(string(out), "ermission denied") {
		err = fs.ErrPermission
	}
	try("child", err)
}

func TestConfine(t *testing.T) {
	dir := t.TempDir()
	read, write := filepath.Join(dir, "logs"), filepath.Join(dir, "state")
	for _, d := range []string{read, write} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(read, "log"), []byte("a line"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"PRIV_TEST=confine", "PRIV_READ=" + read, "PRIV_WRITE=" + write}
	b, err := c.CombinedOutput()
	out := string(b)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(out, "said: this build has no Landlock") {
		t.Skip("linked with cgo: the static build is the one that is confined")
	}
	if strings.Contains(out, "said: no Landlock") {
		if os.Getenv("STOPLOG_REQUIRE_KERNEL_TESTS") != "" {
			t.Fatal("needs Landlock in the kernel")
		}
		t.Skip("this kernel has no Landlock")
	}
	for _, want := range []string{"shadow: shut", "log: open", "write log: shut", "state: open", "rename: open", "elsewhere: shut", "child: shut"} {
		if !strings.Contains(out, "\n"+want+"\n") {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}
