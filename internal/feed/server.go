package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// Serve answers on l until ctx is done, then lets running answers end, for two
// seconds. It closes l. Requests are bounded: 5 s for the header of at most
// 64 kB, 10 s for all of it and for the answer, and 1024 connections at once;
// for a Feed, whose readers are few and may be slow, 16 kB, as long as they
// read on, and 64 connections, 8 of one address (of IPv6, of one /64). What is
// over is closed at once: a proxy that waits is worse off than one that hears
// nothing.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	conns, each, header := 1024, 1024, 64<<10
	if _, ok := h.(*Feed); ok {
		conns, each, header = 64, 8, 16<<10
	}
	bounded := newBounded(l, conns, each)
	if c, counts := h.(interface{ turnedAway() }); counts {
		bounded.away = c.turnedAway
	}
	srv := &http.Server{
		Handler: h, MaxHeaderBytes: header,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0), // what a peer does wrong is no news
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(late) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(bounded)
	if !stop() {
		<-ended
		return nil
	}
	return fmt.Errorf("serving on %s: %w", l.Addr(), errors.Join(err, srv.Close()))
}

// Listen listens on "host:port", or on the unix socket of an absolute path. A
// socket that nobody answers on any more is replaced; anything else at path is
// left alone. Who may reach the directory may connect.
func Listen(addr string) (net.Listener, error) {
	if addr == "" || addr[0] != '/' {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listening: %w", err)
		}
		return l, nil
	}
	if err := clearStale(addr); err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	l, err := net.Listen("unix", addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := os.Chmod(addr, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("listening: %w", err), l.Close())
	}
	return l, nil
}

func clearStale(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return errors.New("it is there and is no socket; not touching it")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("another program answers there"), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
