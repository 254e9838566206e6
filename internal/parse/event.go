// Package parse turns a line into an event. The address of an event is taken
// only from a position that the logging program controls; a line that can be
// read in two ways is not read. Names are never resolved.
//
// This package removes what wraps a message, decides which services may speak in
// an origin, and calls the scanners of the families (packages auth, mail, web,
// db) and the packs. They know nothing about it.
package parse

import (
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/web"
)

// What the packages that use events need of package event.
type (
	Event         = event.Event
	Field         = event.Field
	Outcome       = event.Outcome
	Kind          = event.Kind
	Shape         = event.Shape
	ClientOptions = web.ClientOptions
	PeerCount     = web.PeerCount
)

const (
	Other   = event.Other
	Failure = event.Failure
	Success = event.Success

	Plain       = event.Plain
	Probe       = event.Probe
	UnknownUser = event.UnknownUser
	Limited     = event.Limited
	Forbidden   = event.Forbidden

	ClassOnce     = event.ClassOnce
	ClassPAM      = event.ClassPAM
	ClassOtherPAM = event.ClassOtherPAM
)

// ConnID hashes what identifies a connection: see event.ConnID.
func ConnID(service string, id []byte) uint64 { return event.ConnID(service, id) }
