package nft_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/nft"
)

// TestNFTRemake: whatever stands under our table's name, the wall stands after
// the second Setup at the latest, and holds what it is given.
func TestNFTRemake(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	for name, table := range map[string]string{
		"a set of another type":      "set allow4 {\n type ether_addr\n}",
		"a block set of other flags": "set v4.28.drop {\n type ipv4_addr\n flags interval\n}",
		"a map":                      "map v4.28.drop {\n type ipv4_addr : verdict\n}",
		"a base chain of our name":   "chain walls {\n type filter hook input priority 0\n}",
		"a chain of a base's name":   "chain input {\n accept\n}",
		"rules of others":            "chain blocks {\n}\nchain mine {\n jump blocks\n}",
		"nothing but sleep":          "flags dormant",
		"a base chain that sleeps":   "flags dormant\nchain input {\n type filter hook input priority 0\n}",
	} {
		t.Run(name, func(t *testing.T) {
			firewalltest.Namespace(t)
			nftRun(t, "table inet stoplog {\n"+table+"\n}\n")
			w := firewalltest.Must(nft.New(firewall.Options{}))(t)
			if w.Setup(t.Context(), firewall.Policy{}) != nil {
				if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
					t.Fatal(err)
				}
			}
			holds(t, w)
		})
	}
}

// TestNFTDormant: a table that somebody puts to sleep is noticed, and wakes.
func TestNFTDormant(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Namespace(t)
	w := firewalltest.Must(nft.New(firewall.Options{}))(t)
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	nftRun(t, "add table inet stoplog { flags dormant; }\n")
	if err := w.Check(t.Context()); !errors.Is(err, firewall.ErrBroken) {
		t.Errorf("got %v, want it broken", err)
	}
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	holds(t, w)
}

func nftRun(t *testing.T, lines string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v: %s", err, out)
	}
}

// holds blocks something and looks whether the table stands and is awake.
func holds(t *testing.T, w *nft.Wall) {
	t.Helper()
	e := firewalltest.Entry("192.0.2.0/28", time.Hour)
	if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
		t.Fatal(err)
	}
	if es, err := firewall.ListAll(t.Context(), w); err != nil || len(es) != 1 || es[0].Prefix != e.Prefix {
		t.Errorf("got %v, %v, want %v", es, err, e)
	}
	if err := w.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if got := firewalltest.Output(t, "nft", "list", "table", "inet", "stoplog"); strings.Contains(got, "dormant") {
		t.Errorf("got\n%s", got)
	}
}
