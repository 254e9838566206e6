//go:build !linux

package cmd

import (
	"context"
	"syscall"
)

// unitRights are the rights that a service manager starts the service with:
// there are none to be given up here.
func unitRights(context.Context) *syscall.SysProcAttr { return nil }

func tryAs(context.Context, *syscall.SysProcAttr, wallOptions) (string, error) { return "", nil }
