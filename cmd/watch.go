package cmd

import (
	"bytes"
	"context"
	"io"
	"time"
)

// watchEvery is the time between two looks of --watch.
const watchEvery = time.Second

// watch shows something anew each second until ctx ends, which is no error:
// it is how a watch is ended. On a terminal it takes the place of what was
// shown before; elsewhere one follows the other.
func watch(ctx context.Context, e *env, show func(io.Writer) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	home := "\x1b[2J\x1b[H" // erase all, then go home (ECMA-48)
	for {
		var b bytes.Buffer
		err := show(&b)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if isTerminal(e.out) {
			// Each line erases what was right of it, the last one what is below:
			// no flicker.
			lines := bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\x1b[K\n"))
			_, err = io.WriteString(e.out, home+string(lines)+"\x1b[J")
			home = "\x1b[H"
		} else {
			_, err = e.out.Write(b.Bytes())
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
