package firewall_test

import (
	"testing"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
)

func BenchmarkIPSetRestore100000(b *testing.B) {
	firewalltest.Namespace(b)
	es := benchmarkEntries(100_000, 20)
	for range b.N {
		b.StopTimer()
		w, err := firewall.NewIPSet(firewall.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Setup(b.Context(), firewall.Policy{}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := w.Block(b.Context(), es); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if got, err := firewall.ListAll(b.Context(), w); err != nil || len(got) != len(es) {
			b.Fatalf("got %d, %v", len(got), err)
		}
		if err := w.Teardown(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIPSetOneMoreInto100000(b *testing.B) {
	firewalltest.Namespace(b)
	w, err := firewall.NewIPSet(firewall.Options{})
	if err != nil {
		b.Fatal(err)
	}
	oneMore(b, w)
}

func BenchmarkIPTablesOneMoreInto1000(b *testing.B) {
	firewalltest.Namespace(b)
	w, err := firewall.NewIPTables(firewall.Options{MaxRules: 100_000})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Setup(b.Context(), firewall.Policy{}); err != nil {
		b.Fatal(err)
	}
	if err := w.Block(b.Context(), benchmarkEntries(1000, 20)); err != nil {
		b.Fatal(err)
	}
	more := benchmarkEntries(1000, 30)
	b.ResetTimer()
	for i := range b.N {
		if err := w.Block(b.Context(), more[i%1000:i%1000+1]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIPTablesRestore2000(b *testing.B) {
	firewalltest.Namespace(b)
	es := benchmarkEntries(2000, 20)
	for range b.N {
		b.StopTimer()
		w, err := firewall.NewIPTables(firewall.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Setup(b.Context(), firewall.Policy{}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := w.Block(b.Context(), es); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := w.Teardown(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// oneMore adds one block after the other to a wall that holds 100,000.
func oneMore(b *testing.B, w firewall.Backend) {
	if err := w.Setup(b.Context(), firewall.Policy{}); err != nil {
		b.Fatal(err)
	}
	if err := w.Block(b.Context(), benchmarkEntries(100_000, 20)); err != nil {
		b.Fatal(err)
	}
	more := benchmarkEntries(1000, 30)
	b.ResetTimer()
	for i := range b.N {
		if err := w.Block(b.Context(), more[i%1000:i%1000+1]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWallRestore100000 goes through the socket into memory: what the
// protocol costs.
func BenchmarkWallRestore100000(b *testing.B) {
	p := spawnFor(b, "dry-run")
	if err := p.Setup(b.Context(), firewall.Policy{}); err != nil {
		b.Fatal(err)
	}
	es := benchmarkEntries(100_000, 20)
	b.ResetTimer()
	for range b.N {
		if err := p.Block(b.Context(), es); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWallOneMore(b *testing.B) {
	p := spawnFor(b, "dry-run")
	if err := p.Setup(b.Context(), firewall.Policy{}); err != nil {
		b.Fatal(err)
	}
	more := benchmarkEntries(1000, 30)
	b.ResetTimer()
	for i := range b.N {
		if err := p.Block(b.Context(), more[i%1000:i%1000+1]); err != nil {
			b.Fatal(err)
		}
	}
}
