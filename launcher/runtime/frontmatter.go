package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// field is a value of a text's front matter: one text, or a list of them.
type field struct {
	text   string
	list   []string
	nested bool // a map or a list of maps, which nothing here reads
}

func (f field) given() bool { return f.text != "" || f.list != nil || f.nested }

// names are the words of a list, or of a text that is a list with commas. A
// comma in brackets belongs to its word, as in Bash(git:*, ls:*).
func (f field) names() []string {
	if f.list != nil || f.text == "" {
		return f.list
	}
	all := []string{}
	depth, from := 0, 0
	for i, r := range f.text + "," {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case r == ',' && (depth == 0 || i == len(f.text)):
			if word := strings.TrimSpace(f.text[from:i]); word != "" {
				all = append(all, word)
			}
			from = i + 1
		}
	}
	return all
}

var errFrontMatter = errors.New("its front matter holds more of YAML than is read here")

// frontMatter reads the head of a Markdown file, between two lines of ---: the
// part of YAML that such heads are written in. What it doesn't know is an error,
// never a guess. A text without a head is all body.
func frontMatter(text []byte) (map[string]field, []byte, error) {
	text = bytes.TrimPrefix(text, bom)
	lines := strings.SplitAfter(string(text), "\n")
	if strings.TrimRight(lines[0], "\r\n") != "---" {
		return nil, text, nil
	}
	end := 1
	for ; ; end++ {
		if end == len(lines) {
			return nil, text, nil // the line that ends the head is missing: it is none
		}
		if strings.TrimRight(lines[end], " \r\n") == "---" {
			break
		}
	}
	fields := map[string]field{}
	head := lines[1:end]
	for len(head) > 0 {
		n, err := takeField(fields, head)
		if err != nil {
			return nil, nil, err
		}
		head = head[n:]
	}
	return fields, []byte(strings.Join(lines[end+1:], "")), nil
}

// takeField reads one key with all that belongs to it, and says how many lines
// that is.
func takeField(fields map[string]field, lines []string) (int, error) {
	line := strings.TrimRight(lines[0], "\r\n")
	if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
		return 1, nil
	}
	key, value, ok := strings.Cut(line, ":")
	if !ok || !isKey(key) || value != "" && value[0] != ' ' && value[0] != '\t' {
		return 0, errFrontMatter
	}
	if _, twice := fields[key]; twice {
		return 0, fmt.Errorf("its front matter has %q twice", key)
	}
	n := 1
	for n < len(lines) && belongs(lines[n]) {
		n++
	}
	f, err := readValue(strings.TrimSpace(value), lines[1:n])
	fields[key] = f
	return n, err
}

// isKey reports whether a key is a plain word.
func isKey(key string) bool {
	return key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" && key[0] != '-'
}

// belongs reports whether a line goes on with the key before it.
func belongs(line string) bool {
	trimmed := strings.TrimSpace(line)
	return trimmed == "" || line[0] == ' ' || line[0] == '\t' || strings.HasPrefix(line, "- ")
}

// readValue reads the value of a key: what stands behind it, and the lines below.
func readValue(value string, below []string) (field, error) {
	switch {
	case value == "|" || value == ">" || value == "|-" || value == ">-":
		return field{text: block(below, value[0] == '>')}, nil
	case value == "":
		return listBelow(below)
	case strings.TrimSpace(strings.Join(below, "")) != "":
		if strings.ContainsAny(value[:1], `"'[{&*!%@`+"`") {
			return field{}, errFrontMatter
		}
		return field{text: value + " " + block(below, true)}, nil // a text that goes on
	case value[0] == '[':
		inner, ok := strings.CutSuffix(value[1:], "]")
		if !ok || strings.ContainsAny(inner, "[]{}") {
			return field{}, errFrontMatter
		}
		return words(field{text: inner}.names())
	}
	text, err := scalar(value)
	return field{text: text}, err
}

// block joins the lines of a text that is written below its key.
func block(lines []string, fold bool) string {
	var all []string
	for _, line := range lines {
		all = append(all, strings.TrimSpace(line))
	}
	sep := "\n"
	if fold {
		sep = " "
	}
	return strings.TrimSpace(strings.Join(all, sep))
}

// listBelow reads lines of "- word"; anything else below a key is nested.
func listBelow(lines []string) (field, error) {
	var all []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		word, ok := strings.CutPrefix(line, "- ")
		switch {
		case line == "" || line[0] == '#':
		case !ok || strings.HasSuffix(word, ":") || strings.Contains(word, ": "):
			return field{nested: true}, nil
		default:
			all = append(all, word)
		}
	}
	if len(all) == 0 {
		return field{}, nil
	}
	return words(all)
}

func words(all []string) (field, error) {
	f := field{list: []string{}}
	for _, w := range all {
		text, err := scalar(strings.TrimSpace(w))
		if err != nil {
			return field{}, err
		}
		f.list = append(f.list, text)
	}
	return f, nil
}

// scalar reads one text: plain, 'single' or "double".
func scalar(value string) (string, error) {
	switch {
	case value == "":
		return "", nil
	case value[0] == '\'':
		inner, ok := strings.CutSuffix(value[1:], "'")
		if !ok || len(value) < 2 || strings.Contains(strings.ReplaceAll(inner, "''", ""), "'") {
			return "", errFrontMatter
		}
		return strings.ReplaceAll(inner, "''", "'"), nil
	case value[0] == '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return "", errFrontMatter
		}
		return string(text), nil
	case strings.ContainsAny(value[:1], "[]{}&*!%@|>`"):
		return "", errFrontMatter
	}
	plain, _, _ := strings.Cut(value, " #")
	return strings.TrimSpace(plain), nil
}
