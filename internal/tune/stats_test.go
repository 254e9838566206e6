package tune

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestBootstrapHoldsWhatItSays: of intervals of many samples about 95 % hold the
// true sum, and noise around nothing holds nothing.
func TestBootstrapHoldsWhatItSays(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	const samples, networks, mean = 200, 150, 10
	held := 0
	for range samples {
		values := make([]int, networks)
		for i := range values {
			values[i] = mean + int(rnd.NormFloat64()*30)
		}
		if in := bootstrap(values); in.Low <= networks*mean && networks*mean <= in.High {
			held++
		}
	}
	// Rounding towards zero moves the mean by less than a twentieth of the interval.
	if share := float64(held) / samples; share < .88 || share > .99 {
		t.Errorf("%.0f %% of the intervals hold the true sum, want about 95 %%", 100*share)
	}
	if in := bootstrap(make([]int, 100)); in != (Interval{}) {
		t.Errorf("got %+v of networks without a difference, want nothing", in)
	}
	if in := bootstrap([]int{1000}); in.Low > 0 {
		t.Errorf("got %+v of one network, want an interval that holds 0", in)
	}
	same := []int{5, -3, 8, 0, 12, 7, 7, 1}
	if a, b := bootstrap(same), bootstrap(same); a != b {
		t.Errorf("got %+v and then %+v of the same values", a, b)
	}
}

func TestPoisson(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	sum, squares := 0.0, 0.0
	const n = 200_000
	for range n {
		v := float64(poisson(rnd))
		sum, squares = sum+v, squares+v*v
	}
	if mean, variance := sum/n, squares/n-sum/n*sum/n; math.Abs(mean-1) > .02 || math.Abs(variance-1) > .03 {
		t.Errorf("got mean %.3f and variance %.3f, want 1 and 1", mean, variance)
	}
}

// TestPageShowsHostileTextAsText: what a log holds is neither markup nor invisible.
func TestPageShowsHostileTextAsText(t *testing.T) {
	evil := "</p><script>alert(1)</script>\x1b[31m\u202e\u200b"
	r := &Report{Rule: evil, Verdict: TooLittle, Why: "no", Notes: []string{evil}, Warnings: []string{evil}, Others: []string{evil}, Proposal: -1, Candidate: -1,
		Tried: []Tried{{Today: true, Changes: []Change{{evil, evil, evil}}}, {Front: true, Changes: []Change{{evil, evil, evil}}}},
		Diff:  []string{"+ " + evil}, Paste: "x",
		Figures: Figures{Near: []Nearest{{Addr: evil, Lines: []Shown{{Source: evil, Text: evil}}}}}}
	var page strings.Builder
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "\x1b", "\u202e", "\u200b"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if n := strings.Count(page.String(), `\u202e`); n < 8 {
		t.Errorf("got %d escapes, want one for each place", n)
	}
}
