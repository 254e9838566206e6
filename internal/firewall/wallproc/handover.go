package wallproc

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// Handover returns copies of the descriptors that talk to the wall process,
// for a program that is about to execute itself again with fewer rights. The
// wall keeps running; the new image goes on with Resume.
func (p *Process) Handover() (cmds, changes *os.File, err error) {
	if cmds, err = connFile(p.cmds); err != nil {
		return nil, nil, err
	}
	if changes, err = connFile(p.changes); err != nil {
		return nil, nil, errors.Join(err, cmds.Close())
	}
	return cmds, changes, nil
}

func connFile(c net.Conn) (*os.File, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("wall: %T is not a unix socket", c)
	}
	f, err := u.File()
	if err != nil {
		return nil, fmt.Errorf("wall: copying a descriptor: %w", err)
	}
	return f, nil
}

// Resume makes a client of descriptors that Handover gave, in the same or
// another image of the program. It owns them.
func Resume(cmds, changes *os.File) (*Client, error) {
	defer cmds.Close() // FileConn keeps copies
	defer changes.Close()
	c, err := net.FileConn(cmds)
	if err != nil {
		return nil, fmt.Errorf("wall: commands: %w", err)
	}
	ch, err := net.FileConn(changes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wall: changes: %w", err), c.Close())
	}
	return NewClient(c, ch), nil
}
