package firewall_test

import (
	"testing"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/ipset"
	"stoplog/internal/firewall/iptables"
	"stoplog/internal/firewall/nft"
)

func BenchmarkIPSetRestore100000(b *testing.B) {
	firewalltest.Namespace(b)
	es := firewalltest.BenchmarkEntries(100_000, 20)
	for range b.N {
		b.StopTimer()
		w, err := ipset.New(firewall.Options{})
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
	w, err := ipset.New(firewall.Options{})
	if err != nil {
		b.Fatal(err)
	}
	oneMore(b, w)
}

func BenchmarkIPTablesOneMoreInto1000(b *testing.B) {
	firewalltest.Namespace(b)
	w, err := iptables.New(firewall.Options{MaxRules: 100_000})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Setup(b.Context(), firewall.Policy{}); err != nil {
		b.Fatal(err)
	}
	if err := w.Block(b.Context(), firewalltest.BenchmarkEntries(1000, 20)); err != nil {
		b.Fatal(err)
	}
	more := firewalltest.BenchmarkEntries(1000, 30)
	b.ResetTimer()
	for i := range b.N {
		if err := w.Block(b.Context(), more[i%1000:i%1000+1]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIPTablesRestore2000(b *testing.B) {
	firewalltest.Namespace(b)
	es := firewalltest.BenchmarkEntries(2000, 20)
	for range b.N {
		b.StopTimer()
		w, err := iptables.New(firewall.Options{})
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
	if err := w.Block(b.Context(), firewalltest.BenchmarkEntries(100_000, 20)); err != nil {
		b.Fatal(err)
	}
	more := firewalltest.BenchmarkEntries(1000, 30)
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
	es := firewalltest.BenchmarkEntries(100_000, 20)
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
	more := firewalltest.BenchmarkEntries(1000, 30)
	b.ResetTimer()
	for i := range b.N {
		if err := p.Block(b.Context(), more[i%1000:i%1000+1]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNFTablesRestore100000(b *testing.B) {
	firewalltest.Namespace(b)
	es := firewalltest.BenchmarkEntries(100_000, 20)
	for range b.N {
		b.StopTimer()
		w, err := nft.New(firewall.Options{})
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
		w.Close()
	}
}

func BenchmarkNFTablesOneMoreInto100000(b *testing.B) {
	firewalltest.Namespace(b)
	w, err := nft.New(firewall.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	oneMore(b, w)
}

func BenchmarkNFTables5000Breaches(b *testing.B) {
	firewalltest.Namespace(b)
	w, err := nft.New(firewall.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if err := w.Setup(b.Context(), firewall.Policy{}); err != nil {
		b.Fatal(err)
	}
	es := firewalltest.BenchmarkEntries(5000, 40)
	b.ResetTimer()
	for range b.N {
		if err := w.Block(b.Context(), es); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNFTablesRefresh100000: what stands already gets its end again.
func BenchmarkNFTablesRefresh100000(b *testing.B) {
	firewalltest.Namespace(b)
	w, err := nft.New(firewall.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if err := w.Setup(b.Context(), firewall.Policy{}); err != nil {
		b.Fatal(err)
	}
	es := firewalltest.BenchmarkEntries(100_000, 20)
	if err := w.Block(b.Context(), es); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		if err := w.Block(b.Context(), es); err != nil {
			b.Fatal(err)
		}
	}
}
