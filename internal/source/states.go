package source

// What happens to a log is told by three small machines. A follower's name has
// a nameState, which is decided again by each look at it. The first file that is
// opened under the name begins where its beginning says. Each file of the
// follower's chain has a fileState, which only fileSteps changes.

// nameState is what a follower's name led to when it was last looked at.
type nameState uint8

const (
	unlooked   nameState = iota // nothing was opened under it yet
	leading                     // to the newest file of the chain
	missing                     // to nothing; what was rotated away is still read
	unreadable                  // to what cannot be read: no permission, a folder, a compressed file
	shared                      // to a file that another follower reads
)

// finding is what a look at the name found. It decides the next nameState,
// whatever the one before:
//
//	foundSame      the newest file of the chain   leading
//	foundNew       a file that is not open        leading, once it is open; else unreadable
//	foundOlder     an older file of the chain     leading
//	foundShared    a file of another follower     shared
//	foundNothing   no such name                   missing
//	foundOther     not a file, or no permission   unreadable
type finding uint8

const (
	foundSame finding = iota
	foundNew
	foundOlder
	foundShared
	foundNothing
	foundOther
)

// beginning is where reading starts in the next file that is opened under the
// name. It changes once, to fromRotation, when a file was opened or the name
// was seen to lead to nothing.
type beginning uint8

const (
	fromStart    beginning = iota // a glob gained the file: all of it is new
	fromEnd                       // it was there first: at its end, or at Options.Since
	fromSaved                     // where the saved position is
	fromRotation                  // at its start, after all that was rotated away meanwhile
)

// wakeMode is what wakes the engine for the files of a follower.
//
//	byInotify  to byPolling when a file cannot be watched,
//	           to byTimer after busyAfter visits in quick succession
//	byTimer    to byInotify after idleAfter visits that read nothing,
//	           to byPolling when a file cannot be watched
//	byPolling  stays
type wakeMode uint8

const (
	byInotify wakeMode = iota
	byPolling          // every Options.Poll: the kernel cannot report changes
	byTimer            // every busyInterval: watching would slow the writer
)

// fileState is how far the life of one file of a chain has come.
type fileState uint8

const (
	_             fileState = iota
	newest                  // the name leads to it, or did last
	replaced                // another file has the name; not read to its end since
	drained                 // read to its end since it was replaced
	late                    // written to after it was drained: its writer has not noticed
	archive                 // compressed, or a copy: nobody writes to it
	closed                  // given up; remember keeps where it was left
	numFileStates = iota
)

// fileEvent is what happens to a file of a chain.
type fileEvent uint8

const (
	gaveLines     fileEvent = iota // some of it was handed on
	atItsEnd                       // there is nothing more to read now
	lostItsName                    // another file was found under the name
	gotItsName                     // the name leads to it again
	startedAgain                   // truncated, or filled after it was empty
	wasCompressed                  // it was taken for text before anything was in it
	wasReadUp                      // an archive ends for good
	couldNotRead                   // an error
	stayedQuiet                    // for so long that its writer must be gone
	wasTooMany                     // over maxOlder files are open
	wasDropped                     // nobody asks for the log any more
	numFileEvents = iota
)

// fileSteps is the transition table. What is not in it cannot happen.
// TestEveryTransitionOfAFile goes through all of it with real files.
//
//	           lines     end      loses name  gets name  restarts  closed by
//	newest     newest    newest   replaced    -          newest    error, quiet while the name leads nowhere
//	replaced   replaced  drained  -           newest     replaced  error, compressed
//	drained    late      drained  -           newest     drained   error, quiet, too many
//	late       late      late     -           newest     late      error, quiet, too many
//	archive    archive   -        -           -          -         its end, error
var fileSteps = [numFileStates][numFileEvents]fileState{
	newest: {
		gaveLines: newest, atItsEnd: newest, lostItsName: replaced, startedAgain: newest,
		couldNotRead: closed, stayedQuiet: closed, wasDropped: closed,
	},
	replaced: {
		gaveLines: replaced, atItsEnd: drained, gotItsName: newest, startedAgain: replaced,
		wasCompressed: closed, couldNotRead: closed, wasDropped: closed,
	},
	drained: {
		gaveLines: late, atItsEnd: drained, gotItsName: newest, startedAgain: drained,
		couldNotRead: closed, stayedQuiet: closed, wasTooMany: closed, wasDropped: closed,
	},
	late: {
		gaveLines: late, atItsEnd: late, gotItsName: newest, startedAgain: late,
		couldNotRead: closed, stayedQuiet: closed, wasTooMany: closed, wasDropped: closed,
	},
	archive: {
		gaveLines: archive, wasReadUp: closed, couldNotRead: closed, wasDropped: closed,
	},
}

// step lets ev happen to s.
func (e *engine) step(s *segment, ev fileEvent) {
	to := fileSteps[s.state][ev]
	if e.opts.trace != nil {
		e.opts.trace(s.state, ev, to)
	}
	if to != 0 {
		s.state = to
	}
}
