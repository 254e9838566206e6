// Package bucket counts events by key: how full a leaky bucket is (Table),
// how many fell into a rolling window (Window), how many different values
// came up in one (Distinct), and which lines they were (Evidence). It is
// arithmetic on the log's own time: no clock, no I/O, no goroutine, and the
// same calls give the same answers whatever the seed.
//
// # Time
//
// Time is an argument, in Unix nanoseconds. For one key it never goes back: an
// event older than one already seen counts as being of that one's time. So a
// late event drains nothing and lowers no level.
//
// # The bucket
//
// A bucket is the instant at which it would be empty. Its level at t is
// (empty − t) / leak. An event fills it by one leak; the bucket breaches when
// it then holds more than capacity × leak, so capacity 5 breaches at the sixth
// event, if those six came before one leak had drained. It keeps filling to at
// most capacity + n events, n being what the breaching pour brought, so that
// a bucket poured for ever while its rule only observes is as full as after
// its first breach, and drains in the time an administrator would expect. A
// pour never lowers a level, even one with less capacity than those before.
//
// # Bounds
//
// An attacker chooses the keys, so everything has a maximum. A Table that is
// full first forgets its drained buckets; when that leaves less than an eighth
// of room it drops others, down to seven eighths of its maximum, and counts
// them. They are the emptiest, those that would drain first, of the networks
// (/20 or /48, then /12 or /32) that hold most of the buckets, if some do, and
// of all otherwise. To push out a stranger's bucket that would take d to
// drain, a flood therefore needs seven eighths of the maximum in buckets that
// would all take longer than d and that lie in so many networks that none
// stands out: with 250,000 buckets and a bucket that holds five events, 1.25
// million events, within the time that one drains, from 3,900 different /32s
// of IPv6 or from all over IPv4. A /32 of one's own, or sixteen, do not do it,
// whatever is sent from them. Window and Distinct go by the same rule with what they
// have instead of a level: the fewest counted go first, of those the longest
// silent.
//
// Placement within a Table is keyed with a seed that the caller draws at
// random, so nobody can choose keys that collide. What is dropped depends on
// levels and keys alone, never on the placement.
package bucket
