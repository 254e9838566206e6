//go:build !linux

package source

import "syscall"

// shedRights has nothing to shed where there are no capabilities.
func shedRights() {}

func onOwnThread(f func()) { f() }

// childAttr puts a child in a group of its own. It does not end with us when
// we are killed, but at the first line that it then writes.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
