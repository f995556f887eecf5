package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

var indent = json.JoinOptions(jsontext.WithIndent("  "))

// colour is an SGR parameter; empty is plain.
type colour string

// The few colours there are: what holds, what waits, what is refused.
const (
	green  colour = "32"
	yellow colour = "33"
	red    colour = "31"
	faint  colour = "2"
)

// paint colours text if stdout is a terminal and NO_COLOR is not set.
func (c Command) paint(col colour, text string) string {
	if col == "" || c.env("NO_COLOR") != "" || c.env("TERM") == "dumb" || !isTerminal(c.Stdout) {
		return text
	}
	return "\x1b[" + string(col) + "m" + text + "\x1b[0m"
}

// isTerminal reports whether w or r is a terminal.
func isTerminal(stream any) bool {
	f, ok := outputOf(stream).(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// cell is one field of a table.
type cell struct {
	text string
	col  colour
}

// table writes rows with their columns aligned. Colours don't count as width.
func (c Command) table(w io.Writer, rows [][]cell) {
	var width []int
	for _, row := range rows {
		for i, f := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(f.text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, f := range row {
			line.WriteString(c.paint(f.col, f.text))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(f.text)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// left writes a lease's remaining seconds for people.
func left(seconds int64) string {
	if seconds <= 0 {
		return "-"
	}
	return (time.Duration(seconds) * time.Second).String()
}

// clockTime is the local time of day of a record, as a log line starts with.
func clockTime(t time.Time) string { return t.Local().Format("15:04:05") }

// dayTime is a local time that stands alone, with no line of the date before it.
func dayTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// count is a number with its noun: 1 record, 2 records.
func count[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
