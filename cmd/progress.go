package cmd

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"stoplog/internal/replay"
)

// progressEvery is how often progress is shown.
const progressEvery = 500 * time.Millisecond

// showProgress rewrites one line on a terminal until the returned function is
// called, which removes the line.
func showProgress(w io.Writer, p *replay.Progress, files []string) (stop func()) {
	total, begin := sizeOf(files), time.Now()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprint(w, "\r\x1b[K"+progressText(p.Bytes.Load(), total, p.Lines.Load(), time.Since(begin)))
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	}()
	return func() { close(done); wg.Wait() }
}

// sizeOf is the size of the files on disk, 0 when one of them has none.
func sizeOf(files []string) (total int64) {
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// progressText is what is done of total bytes (0: unknown) after some time.
func progressText(bytes, total, lines int64, took time.Duration) string {
	s := megabytes(bytes)
	if total > 0 {
		s = fmt.Sprintf("%s of %s (%d %%)", s, megabytes(total), min(100*bytes/total, 100))
	}
	if seconds := took.Seconds(); seconds > 0 {
		s += fmt.Sprintf(", %.0f lines/s", float64(lines)/seconds)
	}
	if total > 0 && bytes > 0 {
		left := time.Duration(float64(took) * float64(max(total-bytes, 0)) / float64(bytes))
		s += fmt.Sprintf(", %s left", ago(left))
	}
	return s
}
