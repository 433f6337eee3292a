// Package figure computes the figures that the benchmark prints: medians, percentiles and Markdown tables.
package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Median returns the middle sample, the mean of the two middle ones if their number is even, and NaN without samples.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Percentile returns the smallest sample that at least the fraction p (0 to 1) of all samples does not exceed; 0
// without samples.
func Percentile(samples []time.Duration, p float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Milliseconds returns d as a number for medians and differences.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Number formats a figure with about three significant digits; "-" for NaN.
func Number(x float64) string {
	size := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return "-"
	case size >= 100:
		return thousands(int64(math.Round(x)))
	case size >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// thousands writes n with a comma before every third digit.
func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// Table is a Markdown table.
type Table struct {
	Head []string
	Rows [][]string
}

// Add appends a row. It must have as many cells as the head.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// String returns the table with aligned columns, readable as plain text too.
func (t *Table) String() string {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
	}
	var text strings.Builder
	for _, row := range append([][]string{t.Head, rule}, t.Rows...) {
		for i, cell := range row {
			fmt.Fprintf(&text, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		text.WriteString("|\n")
	}
	return text.String()
}
