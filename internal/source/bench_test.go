package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// benchLine is a line of 106 bytes with its newline.
const benchLine = "Nov 20 10:00:00 host sshd[123456]: Failed password for invalid user admin from 192.0.2.100 port 47110 ssh2"

// makeLog writes a file of n lines of 106 bytes.
func makeLog(t testing.TB, n int) string {
	path := filepath.Join(t.TempDir(), "bench.log")
	f, err := os.Create(path)
	must(t, err)
	w := bufio.NewWriterSize(f, 1<<20)
	line := (benchLine + "                        ")[:105] + "\n"
	for range n {
		_, _ = w.WriteString(line)
	}
	must(t, w.Flush())
	must(t, f.Close())
	return path
}

// BenchmarkFinishedFile reads a file of two million lines.
func BenchmarkFinishedFile(b *testing.B) {
	const lines = 2_000_000
	path := makeLog(b, lines)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := ReadFiles(context.Background(), []string{path}, ReadOptions{}, func(batch *Batch) error {
			n += len(batch.Lines)
			batch.Release()
			return nil
		})
		if err != nil || n != lines {
			b.Fatalf("%d lines, %v", n, err)
		}
	}
	b.ReportMetric(float64(lines*b.N)/b.Elapsed().Seconds()/1e6, "Mlines/s")
}

// BenchmarkCatchUp reads the same through a follower.
func BenchmarkCatchUp(b *testing.B) {
	const lines = 2_000_000
	path := makeLog(b, lines)
	b.ReportAllocs()
	for b.Loop() {
		set, err := New([]Spec{{File: path}}, Options{Since: time.Unix(1, 0)})
		must(b, err)
		ctx, cancel := context.WithCancel(context.Background())
		out := make(chan *Batch, 4)
		done := make(chan error, 1)
		go func() { done <- set.Run(ctx, out) }()
		for n := 0; n < lines; {
			batch := <-out
			n += len(batch.Lines)
			batch.Release()
		}
		cancel()
		<-done
	}
	b.ReportMetric(float64(lines*b.N)/b.Elapsed().Seconds()/1e6, "Mlines/s")
}

// BenchmarkFollowFastWriter follows a file that grows as fast as a writer can
// write, a line, or a buffer, at a time.
func BenchmarkFollowFastWriter(b *testing.B) {
	for _, chunk := range []int{1, 40} {
		b.Run(fmt.Sprintf("%d lines a write", chunk), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "grow.log")
			w := openAppend(b, path)
			out, stop := follow(b, path)
			defer stop()
			text := bytes.Repeat([]byte((benchLine + "                        ")[:105]+"\n"), chunk)
			b.ResetTimer()
			go func() {
				for range b.N {
					_, _ = w.Write(text)
				}
			}()
			for n := 0; n < b.N*chunk; {
				batch := <-out
				n += len(batch.Lines)
				batch.Release()
			}
			b.ReportMetric(float64(b.N*chunk)/b.Elapsed().Seconds()/1e6, "Mlines/s")
		})
	}
}

func follow(t testing.TB, path string) (<-chan *Batch, func()) {
	set, err := New([]Spec{{File: path}}, Options{})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan *Batch, 16)
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx, out) }()
	for { // the first positions come without lines
		select {
		case batch := <-out:
			batch.Release()
			continue
		case <-set.CaughtUp():
		}
		return out, func() { cancel(); <-done }
	}
}

// BenchmarkLatency is the time from the write of a line to its batch.
func BenchmarkLatency(b *testing.B) {
	path := filepath.Join(b.TempDir(), "slow.log")
	w := openAppend(b, path)
	out, stop := follow(b, path)
	defer stop()
	var all []time.Duration
	for b.Loop() {
		time.Sleep(time.Millisecond)
		began := time.Now()
		_, _ = w.WriteString(benchLine + "\n")
		(<-out).Release()
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "µs-p99")
}

// BenchmarkThousandSlow is the CPU that a thousand followed files take while ten
// lines a second are written to each, without that of the writer, and the time
// from the write of a line to its batch.
func BenchmarkThousandSlow(b *testing.B) {
	benchWriters(b, 1000, 10*time.Second, 100*time.Microsecond, 1)
}

// BenchmarkTenFast writes 50,000 lines a second to ten files.
func BenchmarkTenFast(b *testing.B) { benchWriters(b, 10, 10*time.Second, 200*time.Microsecond, 10) }

// benchWriters writes so many lines every so often for a time, to one file after
// the other.
func benchWriters(b *testing.B, files int, d, every time.Duration, lines int) {
	dir := b.TempDir()
	var logs []*os.File
	for i := range files {
		logs = append(logs, openAppend(b, filepath.Join(dir, fmt.Sprintf("app-%04dx.log", i))))
	}
	out, stop := follow(b, filepath.Join(dir, "*.log"))
	defer stop()
	var lags []time.Duration
	read := make(chan int)
	go func() {
		n := 0
		for batch := range out {
			for _, l := range batch.Lines {
				at, _ := strconv.ParseInt(string(l.Text[:19]), 10, 64)
				lags = append(lags, time.Since(time.Unix(0, at)))
			}
			n += len(batch.Lines)
			batch.Release()
			if n >= int(d/every)*lines {
				break
			}
		}
		read <- n
	}()
	for b.Loop() {
		before, writer := cpuTime(), make(chan time.Duration)
		began := time.Now()
		go func() {
			runtime.LockOSThread() // never undone: its CPU is told apart
			var buf []byte
			for i := range int(d / every) {
				time.Sleep(time.Until(began.Add(time.Duration(i) * every)))
				buf = buf[:0]
				for range lines {
					buf = fmt.Appendf(buf, "%d %s\n", time.Now().UnixNano(), benchLine)
				}
				_, _ = logs[i%files].Write(buf)
			}
			var u syscall.Rusage
			_ = syscall.Getrusage(1, &u) // RUSAGE_THREAD
			writer <- time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}()
		own := <-writer
		<-read
		took := time.Since(began)
		b.ReportMetric(float64(cpuTime()-before-own)/float64(took)*100, "%CPU")
		b.ReportMetric(float64(len(lags))/took.Seconds(), "lines/s")
	}
	slices.Sort(lags)
	b.ReportMetric(float64(lags[len(lags)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(lags[len(lags)*99/100].Microseconds()), "µs-p99")
	b.ReportMetric(float64(lags[len(lags)-1].Microseconds()), "µs-max")
}

// BenchmarkThousandIdle is the CPU that a thousand followed files take while
// nothing is written.
func BenchmarkThousandIdle(b *testing.B) {
	dir := b.TempDir()
	for i := range 1000 {
		must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("app-%04dx.log", i)), []byte("a line\n"), 0o644))
	}
	out, stop := follow(b, filepath.Join(dir, "*.log"))
	defer stop()
	go func() {
		for batch := range out {
			batch.Release()
		}
	}()
	const wait = sweepEvery + 2*time.Second
	before := cpuTime()
	for range b.N {
		time.Sleep(wait)
	}
	used := cpuTime() - before
	b.ReportMetric(float64(used)/float64(time.Duration(b.N)*wait)*100, "%CPU")
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	must(b, err)
	var size, resident int
	_, _ = fmt.Sscan(string(statm), &size, &resident)
	b.ReportMetric(float64(resident*os.Getpagesize())/(1<<20), "MiB-resident")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPlainReader is what the others are measured against: a buffered
// reader and nothing else.
func BenchmarkPlainReader(b *testing.B) {
	const lines = 2_000_000
	path := makeLog(b, lines)
	var total atomic.Int64
	for b.Loop() {
		f, err := os.Open(path)
		must(b, err)
		r := bufio.NewReaderSize(f, 1<<20)
		for {
			if _, err := r.ReadSlice('\n'); err != nil {
				if errors.Is(err, bufio.ErrBufferFull) {
					continue
				}
				break
			}
			total.Add(1)
		}
		f.Close()
	}
	b.ReportMetric(float64(lines*b.N)/b.Elapsed().Seconds()/1e6, "Mlines/s")
}
