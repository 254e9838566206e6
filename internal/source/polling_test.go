package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// overlay mounts an overlayfs whose lower directory holds app.log, and returns
// the path of that in the mount.
func overlay(t *testing.T, text string) string {
	t.Helper()
	if os.Getuid() != 0 {
		unmet(t, "only root can mount")
	}
	dir := t.TempDir()
	for _, sub := range []string{"lower", "upper", "work", "all"} {
		must(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	writeFile(t, filepath.Join(dir, "lower", "app.log"), text)
	all := filepath.Join(dir, "all")
	err := unix.Mount("overlay", all, "overlay", 0,
		"lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work")
	if err != nil {
		unmet(t, "mounting an overlayfs: "+err.Error())
	}
	t.Cleanup(func() { must(t, unix.Unmount(all, unix.MNT_DETACH)) })
	return filepath.Join(all, "app.log")
}

// On overlayfs the first write copies the file up; who had it open reads the
// old one for ever.
func TestFileThatIsCopiedUp(t *testing.T) {
	path := overlay(t, "before\n")
	r := startSet(t, Options{Poll: 10 * time.Millisecond}, Spec{File: path})
	r.caughtUp()
	if st := r.state(path, Following); !st.Polled {
		t.Error("a file on an overlayfs is not polled")
	}
	appendTo(t, path, "one\n")
	r.wantTexts("one")
	appendTo(t, path, "two\n")
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "three\n")
	r.wantTexts("one", "two", "three")
}

func TestOrdinaryFilesAreNotPolled(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	if st := r.state(path, Following); st.Polled {
		t.Skip("this machine's temporary directory is one where inotify misses changes")
	}
	r.stop()
	r = startSet(t, Options{NoInotify: true}, Spec{File: path})
	r.caughtUp()
	if st := r.state(path, Following); !st.Polled {
		t.Error("without inotify a file is not polled")
	}
}
