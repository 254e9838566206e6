package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchdogAsksTheLoop: it is the loop that says it lives, not a timer
// beside it.
func TestWatchdogAsksTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		said := 0
		d := &daemon{asks: make(chan func()), stopped: make(chan struct{}),
			opt: Options{Alive: func() { said++ }, AliveEvery: time.Second}}
		done := make(chan error, 1)
		go func() { done <- d.watchdog(ctx) }()
		for range 3 {
			(<-d.asks)()
		}
		if said != 3 {
			t.Errorf("the loop lives: said so %d times, want 3", said)
		}
		time.Sleep(time.Hour) // of the bubble; the loop hangs
		synctest.Wait()
		if said != 3 {
			t.Errorf("the loop hangs: said to live %d times, want 3", said)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
}

func TestWatchdogOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&daemon{}).watchdog(ctx); err != nil {
		t.Error(err)
	}
}
