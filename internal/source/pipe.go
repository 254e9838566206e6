package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// readStdin reads standard input to its end.
func readStdin(ctx context.Context, st *stream) {
	st.setState(Following, "")
	err := st.readFD(ctx, 0, true, func() bool { return true })
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		st.set.opts.Report(Problem{Origin: st.name, Err: fmt.Errorf("reading: %w", err)})
	}
}

const pipeRetry = time.Second

// readPipe reads a named pipe, whoever opens and closes it.
func readPipe(ctx context.Context, st *stream) {
	for ctx.Err() == nil {
		fd, id, err := openPipe(st.spec.Pipe)
		if err != nil {
			if !st.wait(ctx, fmt.Errorf("opening: %w", err), pipeRetry) {
				return
			}
			continue
		}
		st.setState(Following, "")
		err = st.readFD(ctx, fd, false, func() bool {
			info, err := statPath(st.spec.Pipe)
			return err == nil && info.fileID == id
		})
		unix.Close(fd)
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			st.wait(ctx, fmt.Errorf("reading: %w", err), pipeRetry)
		} else {
			sleep(ctx, defaultPoll) // the pipe was made anew
		}
	}
}

// openPipe opens a named pipe. Opened for writing as well it is never without a
// writer; that may not be allowed.
func openPipe(path string) (int, fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return -1, fileID{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return -1, fileID{}, errors.New("not a named pipe")
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return -1, fileID{}, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, fileID{}, err
	}
	return fd, infoOf(&st).fileID, nil
}

// readFD hands on the lines of fd until it ends, ctx is done or good, asked
// when nothing came for a while, says that it is another one now.
func (st *stream) readFD(ctx context.Context, fd int, last bool, good func() bool) error {
	p, err := newPoller(ctx, fd, good)
	if err != nil {
		return err
	}
	defer p.close()
	p.reopened = !last
	lines := newLineReader(p, &st.set.pool, st.set.opts.maxLine(st.spec))
	lines.last = last
	for {
		b, err := lines.next()
		if err != nil {
			return err
		}
		if !st.deliver(ctx, b, Pos{Offset: lines.off, Line: lines.number}, lines.cut, false) {
			return ctx.Err()
		}
	}
}

// poller reads a descriptor without changing its flags, which other processes
// share, and ends when its context does.
type poller struct {
	fd   int
	good func() bool
	// reopened: others may come after the last writer. To close the descriptor
	// meanwhile would throw away what the next one writes.
	reopened bool
	wake     int // readable once wakeEnd was written to, which may be the same
	wakeEnd  int
	ended    atomic.Bool
	told     chan struct{} // closed once wake will not be written to
	stop     func() bool
}

// pollGood is how often good is asked, in milliseconds.
const pollGood = 2000

func newPoller(ctx context.Context, fd int, good func() bool) (*poller, error) {
	wake, end, err := newWake()
	if err != nil {
		return nil, fmt.Errorf("creating a wake-up descriptor: %w", err)
	}
	p := &poller{fd: fd, good: good, wake: wake, wakeEnd: end, told: make(chan struct{})}
	p.stop = context.AfterFunc(ctx, func() {
		defer close(p.told)
		p.ended.Store(true)
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	return p, nil
}

func (p *poller) Read(b []byte) (int, error) {
	for {
		fds := []unix.PollFd{
			{Fd: int32(p.fd), Events: unix.POLLIN},
			{Fd: int32(p.wake), Events: unix.POLLIN},
		}
		n, err := retry(func() (int, error) { return unix.Poll(fds, pollGood) })
		switch {
		case err != nil:
			return 0, err
		case p.ended.Load():
			return 0, context.Canceled
		case n == 0:
			if !p.good() {
				return 0, io.EOF
			}
			continue
		}
		n, err = retry(func() (int, error) { return unix.Read(p.fd, b) })
		switch {
		case err == unix.EAGAIN:
			continue
		case err != nil:
			return 0, err
		case n > 0:
			return n, nil
		case !p.reopened || !p.good():
			return 0, io.EOF
		}
		p.rest()
	}
}

// rest waits a while, or until the poller is to end: a pipe without a writer is
// readable at all times.
func (p *poller) rest() {
	fds := []unix.PollFd{{Fd: int32(p.wake), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(defaultPoll.Milliseconds()))
}

// close ends the poller, not the descriptor.
func (p *poller) close() {
	if !p.stop() {
		<-p.told
	}
	unix.Close(p.wake)
	if p.wakeEnd != p.wake {
		unix.Close(p.wakeEnd)
	}
}
