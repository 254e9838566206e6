// Package lean keeps an idle process small.
package lean
