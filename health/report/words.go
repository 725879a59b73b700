package report

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// age is a duration for people: 12s, 3m10s, 5h2m, 4d3h.
func age(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < 0:
		return "-" + age(-d)
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// since is how long ago something was; "-" where it is not known.
func since(now time.Time, t *time.Time) string {
	if t == nil {
		return "-"
	}
	return age(now.Sub(*t))
}

// clock is a time of day, and the day where it is another one.
func clock(now time.Time, t *time.Time) string {
	switch {
	case t == nil:
		return "-"
	case t.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly):
		return t.UTC().Format("15:04:05Z")
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// dash stands for what is not there.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// printable is text without what moves a terminal's cursor, or begins a line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// columns are rows as lines, with each cell as wide as the widest of its column.
func columns(rows [][]string) (lines []string) {
	var width []int
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
			cell := row[i]
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			if line += cell; i < len(row)-1 {
				line += fmt.Sprintf("%*s", width[i]-utf8.RuneCountInString(cell)+2, "")
			}
		}
		lines = append(lines, line)
	}
	return lines
}
