// Package ledger keeps what is blocked now, until when and why; what is
// allowed; who logged in lately; which flags are up; and all of it on disk, so
// that it is the same after a crash.
//
// # Time
//
// A block of a rule begins at the log's time of the line that breached and
// lasts its TTL from there. Found late, it gets what remains; if nothing
// remains it is entered all the same, because it decides about the lines after
// it and counts as a strike, but the walls are not told. Orders by hand are of
// the wall clock. An event is judged by what stood at its own time: a block
// stands for it when Since ≤ at < Until. What ended is therefore kept for ten
// minutes more, for lines that come late. A prefix has one block at a time; a
// rule's within a standing one prolongs it and is no new strike.
//
// # The allowlist wins
//
// Verdict asks it first. A prefix of which every address is allowed is never
// blocked, and unblocked when it becomes so; one with some allowed addresses
// is blocked, and the walls let those pass. An allowance by hand stands from
// the moment it is given.
//
// # On disk
//
// A snapshot (Save) holds the ledger and what the caller gives along: where
// every log was read to, the buckets, the sessions. All of it is of one
// instant. The journal tells what happened since: breaches of rules as they
// are answered, orders by hand synced to disk before they are confirmed. A
// snapshot is written beside the old one, synced, and renamed into place; the
// one before is kept, and the journal since then too. Entries are numbered and
// a snapshot knows its last, so a kill between any two steps leaves a snapshot
// and the entries after it. The audit trail is written after the journal; Open
// writes the lines that a kill left out.
//
// # After a crash
//
// The caller reads on from the snapshot's positions, so it reads again the
// lines that led to the breaches in the journal. These lines must fill the
// buckets again exactly as they did. So a rule's breach of the journal waits:
// its block stands for the walls and in lists at once, but Verdict does not
// see it, nor Flag its flag. When the same breach comes again, known by its
// rule, bucket, key, address and event time, it takes its place silently: with
// the end and the strikes that it had, without a second line in the trail,
// without telling anybody. From then on Verdict sees it, at the same point of
// the log as the first time. A breach that is not in the journal was never
// told of, and is treated as new. RecoveryDone puts in place what never came
// again.
//
// Orders by hand came between lines that nobody can name any more. They are
// therefore defined by time, before a crash and after, so that it does not
// matter when they are carried out:
//
//   - A block by hand or an allowance of the instant T stands for events of T
//     and later.
//   - A lifted block ends at T for late events too. The buckets of its prefix
//     are emptied, its strikes are forgotten, and events of that prefix up to
//     T are forgiven: not counted if they come late, and not counted again
//     when they are read again. So the bucket is empty at T in both lives.
//   - A flag cleared at T was up before it.
//
// What is not exact: forgiven events are not poured again into buckets of
// other keys (a user, all, a wider prefix) that did hold them before the
// crash, and were not emptied; such buckets may be less full after it. Lines of
// several logs that were read at the same time may be read in another order.
package ledger
