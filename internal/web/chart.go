package web

import (
	"fmt"

	"stoplog/internal/control"
)

// Size of a chart's drawing; the page scales it.
const (
	chartWidth  = 600
	chartHeight = 100
)

// chart is a bar for each minute.
type chart struct {
	Name string
	Bars []bar
	Top  uint64 // the tallest bar's count
	Now  uint64 // of the minute that runs
	All  uint64
	Said string // in words, for who cannot see it
}

type bar struct {
	X, Y, W, H int
	Title      string
}

func newChart(name string, ms []control.Minute, of func(control.Minute) uint64) chart {
	c := chart{Name: name}
	at := ""
	for _, m := range ms {
		n := of(m)
		c.All += n
		if n > c.Top {
			c.Top, at = n, m.At.Local().Format("15:04")
		}
	}
	w := chartWidth / max(1, len(ms))
	for i, m := range ms {
		n := of(m)
		c.Now = n
		if n == 0 {
			continue
		}
		h := max(2, int(float64(n)/float64(c.Top)*chartHeight))
		c.Bars = append(c.Bars, bar{X: i * w, Y: chartHeight - h, W: w - 2, H: h, Title: fmt.Sprintf("%s: %d", m.At.Local().Format("15:04"), n)})
	}
	c.Said = fmt.Sprintf("%s over the last hour: %d in total", name, c.All)
	if c.Top > 0 {
		c.Said += fmt.Sprintf(", at most %d, at %s", c.Top, at)
	}
	return c
}
