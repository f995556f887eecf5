package main

import (
	"fmt"
	"regexp"
	"strings"
)

// markdown adds text to the page: headings, paragraphs, lists, tables, code, and
// within lines `code`, **bold** and [links](to). docs/ uses no more than that, and
// what is something else ends the generation rather than being printed as marks.
func (p *page) markdown(text string) error {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for len(lines) > 0 {
		n, err := p.block(lines)
		if err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

// block adds what the first lines are, and says how many those are.
func (p *page) block(lines []string) (int, error) {
	first := lines[0]
	switch {
	case first == "":
		return 1, nil
	case strings.HasPrefix(first, "```"):
		n := until(lines[1:], func(l string) bool { return strings.HasPrefix(l, "```") })
		if n == len(lines)-1 {
			return 0, fmt.Errorf("code that doesn't end: %q", first)
		}
		p.verbatim(lines[1 : n+1])
		return n + 2, nil
	case strings.HasPrefix(first, "## "):
		p.section(strip(first[3:]))
		return 1, nil
	case strings.HasPrefix(first, "###"):
		p.sub(strip(strings.TrimLeft(first, "# ")))
		return 1, nil
	case strings.HasPrefix(first, "|"):
		n := until(lines, func(l string) bool { return !strings.HasPrefix(l, "|") })
		return n, p.table(lines[:n])
	case strings.HasPrefix(first, "- "):
		n := 1 + until(lines[1:], func(l string) bool { return !strings.HasPrefix(l, "  ") })
		p.macro("IP", "*", "2")
		p.text(inline(strings.TrimPrefix(join(lines[:n]), "- ")))
		return n, nil
	case strings.HasPrefix(first, "#"), strings.HasPrefix(first, " "), strings.HasPrefix(first, "<"), strings.HasPrefix(first, ">"):
		return 0, fmt.Errorf("reading Markdown: %q isn't understood", first)
	}
	n := until(lines, func(l string) bool {
		return l == "" || strings.HasPrefix(l, "|") || strings.HasPrefix(l, "- ") || strings.HasPrefix(l, "```")
	})
	p.paragraph(inline(join(lines[:n])))
	return n, nil
}

// table turns each row into a tag, its first cell, and the others with their
// columns' names: a terminal has no room for wide cells.
func (p *page) table(lines []string) error {
	if len(lines) < 3 {
		return fmt.Errorf("a table without rows: %q", lines[0])
	}
	head := cells(lines[0])
	for _, line := range lines[2:] {
		row := cells(line)
		if len(row) != len(head) {
			return fmt.Errorf("a row of %d cells in a table of %d: %q", len(row), len(head), line)
		}
		var rest []string
		for i, c := range row[1:] {
			switch {
			case c == "":
			case len(row) == 2 || head[i+1] == "":
				rest = append(rest, inline(c))
			default:
				rest = append(rest, inline(head[i+1])+": "+inline(c))
			}
		}
		p.tag(`\fB`+escape(strip(row[0]))+`\fR`, rest...)
	}
	return nil
}

// cells are those of one line of a table; \| is no border.
func cells(line string) []string {
	const bar = "\x00"
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(line, `\|`, bar)), "|"), "|")
	parts := strings.Split(line, "|")
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.TrimSpace(parts[i]), bar, "|")
	}
	return parts
}

var marks = regexp.MustCompile("`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\*([^* ][^*]*)\\*|\\[([^]]+)\\]\\([^)]*\\)")

// inline escapes a text and sets what is marked in it.
func inline(text string) string {
	var b strings.Builder
	at := 0
	for _, m := range marks.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(escape(text[at:m[0]]))
		at = m[1]
		switch {
		case m[2] >= 0:
			b.WriteString(bold(text[m[2]:m[3]]))
		case m[4] >= 0:
			b.WriteString(`\fB` + escape(strip(text[m[4]:m[5]])) + `\fR`)
		case m[6] >= 0:
			b.WriteString(italic(text[m[6]:m[7]]))
		default:
			b.WriteString(inline(text[m[8]:m[9]]))
		}
	}
	return b.String() + escape(text[at:])
}

// strip takes the marks off.
func strip(text string) string { return marks.ReplaceAllString(text, "$1$2$3$4") }

func join(lines []string) string {
	var parts []string
	for _, l := range lines {
		parts = append(parts, strings.TrimSpace(l))
	}
	return strings.Join(parts, " ")
}

// until counts the lines before the first that stops.
func until(lines []string, stops func(string) bool) int {
	for i, l := range lines {
		if stops(l) {
			return i
		}
	}
	return len(lines)
}

// part is what stands in a document below a heading, up to the next of its level.
func part(text, heading string) (string, error) {
	_, rest, found := strings.Cut("\n"+text, "\n## "+heading+"\n")
	if !found {
		return "", fmt.Errorf("there is no %q", "## "+heading)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body, nil
}
