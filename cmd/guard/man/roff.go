package main

import (
	"fmt"
	"strings"

	"leaseguard.internal/internal/version"
)

// page is a manual page in the man macros, as groff and mandoc both read them.
// What is given to its methods is text: nothing in it can be a request or an
// escape of roff's.
type page struct {
	b     strings.Builder
	begun bool // the last line was a heading, below which no paragraph has to begin
}

// newPage begins a page. In the place of a date is nothing.
func newPage(name, section, summary string) *page {
	p := &page{}
	p.macro("TH", strings.ToUpper(name), section, "", "leaseguard "+version.Version, "leaseguard")
	p.macro("nh") // a name that is broken by a hyphen can't be copied
	p.macro("ad", "l")
	p.section("Name")
	p.text(escape(name) + ` \- ` + escape(summary))
	return p
}

func (p *page) String() string { return p.b.String() }

// section begins one. A table of guard.toml keeps its name as it is written.
func (p *page) section(title string) {
	if !strings.HasPrefix(title, "[") {
		title = strings.ToUpper(title)
	}
	p.macro("SH", title)
}

func (p *page) sub(title string) { p.macro("SS", title) }

// paragraph takes text that is escaped already.
func (p *page) paragraph(escaped string) {
	p.space()
	p.text(escaped)
}

// tag is a term, in bold, with what it means; both are escaped already.
func (p *page) tag(term string, meaning ...string) {
	p.macro("TP")
	p.line(term)
	for i, line := range meaning {
		if i > 0 {
			p.macro("br")
		}
		p.text(line)
	}
}

// verbatim is an example, line by line as it is.
func (p *page) verbatim(lines []string) {
	p.space()
	p.macro("RS", "4")
	p.macro("nf")
	for _, line := range lines {
		p.line(escape(line))
	}
	p.macro("fi")
	p.macro("RE")
}

// plain is text as a program's help has it: paragraphs, and indented lines that
// stay as they are.
func (p *page) plain(text string) {
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		var words, code []string
		for line := range strings.SplitSeq(block, "\n") {
			if strings.HasPrefix(line, " ") {
				code = append(code, strings.TrimPrefix(line, "  "))
			} else {
				words = append(words, line)
			}
		}
		if len(words) > 0 {
			p.paragraph(escape(strings.Join(words, " ")))
		}
		if len(code) > 0 {
			p.verbatim(code)
		}
	}
}

func (p *page) macro(name string, args ...string) {
	p.b.WriteString("." + name)
	for _, arg := range args {
		if name != "ad" && name != "RS" {
			arg = `"` + escape(arg) + `"`
		}
		p.b.WriteString(" " + arg)
	}
	p.b.WriteByte('\n')
	p.begun = name == "SH" || name == "SS"
}

func (p *page) space() {
	if !p.begun {
		p.macro("PP")
	}
}

// text writes text to be filled, in lines that a person can look at.
func (p *page) text(escaped string) {
	line := ""
	for word := range strings.FieldsSeq(escaped) {
		if line != "" && len(line)+len(word) >= 80 {
			p.line(line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	p.line(line)
}

// line writes one line of text, which no dot at its beginning makes a request; a
// quote there has been escaped.
func (p *page) line(escaped string) {
	if escaped == "" {
		escaped = `\&`
	}
	if strings.HasPrefix(escaped, ".") {
		escaped = `\&` + escaped
	}
	p.b.WriteString(escaped + "\n")
	p.begun = false
}

func bold(text string) string { return `\fB` + escape(text) + `\fR` }

func italic(text string) string { return `\fI` + escape(text) + `\fR` }

// escape has roff print text as it stands, with the very characters that a reader
// may copy: - is no hyphen and ' no apostrophe of typography. It gives one line of
// ASCII.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch special, ok := specials[r]; {
		case ok:
			b.WriteString(special)
		case r < 0x20 || r == 0x7f:
			b.WriteByte(' ')
		case r > 0x7e:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

var specials = map[rune]string{
	'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`, '"': `\(dq`,
}
