package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEscape(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"words", "a b", "a b"},
		{"backslash", `\fB\n\*x`, `\efB\en\e*x`},
		{"option", "--json -f", `\-\-json \-f`},
		{"quotes", "'a' \"b\" `c`", `\(aqa\(aq \(dqb\(dq \(gac\(ga`},
		{"accents", "~/x^2", `\(ti/x\(ha2`},
		{"not ASCII", "a…é€", `a\[u2026]\[u00E9]\[u20AC]`},
		{"beyond 16 bits", "😀", `\[u1F600]`},
		{"line ends and controls", "a\nb\tc\x00d\x7f", "a b c d "},
		{"not UTF-8", "\xff", `\[uFFFD]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := escape(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestNoRequests: no text becomes a request of roff's, wherever it stands and
// wherever its line is broken.
func TestNoRequests(t *testing.T) {
	words := strings.Repeat("word ", 15) + ".so /etc/passwd 'sy id " + strings.Repeat("word ", 15) + ".SH"
	tests := []struct {
		name string
		add  func(p *page)
	}{
		{"paragraph", func(p *page) { p.paragraph(escape(".so /etc/passwd")) }},
		{"second line", func(p *page) { p.paragraph(escape(words)) }},
		{"verbatim", func(p *page) { p.verbatim([]string{".so x", "'so x", "", "  .x"}) }},
		{"plain", func(p *page) { p.plain("a\n.so x\n  .so y\n\n'so z") }},
		{"tag", func(p *page) { p.tag(escape(".so x"), escape("'so y"), escape(words)) }},
		{"heading", func(p *page) { p.section("a\" \"b\n.so x") }},
		{"name", func(p *page) { *p = *newPage("a\n.so x", "1", "b\n.so y") }},
		{"Markdown", func(p *page) {
			if err := p.markdown(".so x\n\n- .so y\n\n| a | b |\n|---|---|\n| .so | 'so |\n\n```\n.so z\n```\n"); err != nil {
				t.Error(err)
			}
		}},
	}
	known := map[string]bool{"TH": true, "SH": true, "SS": true, "PP": true, "TP": true, "IP": true, "RS": true, "RE": true, "nf": true, "fi": true, "br": true, "nh": true, "ad": true}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &page{}
			tt.add(p)
			n := 0
			for line := range strings.Lines(p.String()) {
				n++
				name, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, ".")), " ")
				if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !known[name] {
					t.Errorf("line %q is a request", line)
				}
				if strings.Contains(line, ".SH") && tt.name != "heading" && tt.name != "name" && !strings.Contains(line, `\&.SH`) && strings.HasPrefix(line, ".SH") {
					t.Errorf("line %q is a heading of the text's", line)
				}
			}
			if n == 0 {
				t.Error("wrote nothing")
			}
		})
	}
}

func TestMarkdown(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"paragraphs", "one\ntwo\n\nthree", ".PP\none two\n.PP\nthree\n"},
		{"below a heading", "## `[a]` b\ntext\n\n### c d\n\ntext", ".SH \"[a] b\"\ntext\n.SS \"c d\"\ntext\n"},
		{"marks", "`a-b` **c `d`** *e* [f](g.md#h) [`i`](j) * k *", ".PP\n\\fBa\\-b\\fR \\fBc d\\fR \\fIe\\fR f \\fBi\\fR * k *\n"},
		{"list", "text:\n- a\n  b\n- c\n\nd", ".PP\ntext:\n.IP \"*\" \"2\"\na b\n.IP \"*\" \"2\"\nc\n.PP\nd\n"},
		{"code", "```toml\na = 1\n\n  b\n```", ".PP\n.RS 4\n.nf\na = 1\n\\&\n  b\n.fi\n.RE\n"},
		{"table of two", "| a | b |\n|---|---|\n| `x` | y \\| z |", ".TP\n\\fBx\\fR\ny | z\n"},
		{"table of three", "| a | b | c |\n|---|---|---|\n| x | y | z |\n| u | | w |", ".TP\n\\fBx\\fR\nb: y\n.br\nc: z\n.TP\n\\fBu\\fR\nc: w\n"},
		{"table without names", "| a | |\n|---|---|\n| x | y |", ".TP\n\\fBx\\fR\ny\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &page{}
			if err := p.markdown(tt.text); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, p.String()); d != "" {
				t.Error(d)
			}
		})
	}
	for _, text := range []string{"```\nx", "# a", "<br>", "    code", "> x", "| a |\n|---|", "| a | b |\n|---|---|\n| x |"} {
		if err := (&page{}).markdown(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
	if _, err := part("## a\nx\n## b\ny", "c"); err == nil {
		t.Error("a part that isn't there was found")
	}
	if got, err := part("## a\nx\n## b\ny", "a"); err != nil || got != "x" {
		t.Errorf("part a: %q, %v", got, err)
	}
}
