package config

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documented is what docs/configuration.md says of one key.
type documented struct {
	def     string // as in guard.toml, "" for none
	example string // a line, "" for none yet
	bad     string // a line that is refused
	problem string // and with which words
}

const docs = "../../docs/configuration.md"

var (
	heading  = regexp.MustCompile(`(?m)^### (\S+)$`)
	defLine  = regexp.MustCompile("(?m)^- default: (?:none|`(.+)`)$")
	exLine   = regexp.MustCompile("(?m)^- example: (?:none yet|`(.+)`)$")
	errLine  = regexp.MustCompile("(?m)^- error: `(.+)` gives `(.+)`$")
	shapeRow = regexp.MustCompile("(?m)^- shape: .+$")
)

// readDocs returns the documented keys, and their names in order.
func readDocs(t *testing.T) (map[string]documented, []string) {
	t.Helper()
	b, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	all := make(map[string]documented)
	var order []string
	marks := heading.FindAllStringSubmatchIndex(text, -1)
	for i, m := range marks {
		name, end := text[m[2]:m[3]], len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		body, _, _ := strings.Cut(text[m[1]:end], "\n## ")
		def, ex, bad := defLine.FindStringSubmatch(body), exLine.FindStringSubmatch(body), errLine.FindStringSubmatch(body)
		if def == nil || ex == nil || bad == nil || !shapeRow.MatchString(body) {
			t.Errorf("%s: %s lacks its shape, default, example or error", docs, name)
			continue
		}
		if _, twice := all[name]; twice {
			t.Errorf("%s: %s is there twice", docs, name)
		}
		all[name] = documented{def[1], ex[1], bad[1], bad[2]}
		order = append(order, name)
	}
	return all, order
}

// companions are the lines that a table needs beside one of its keys.
func companions(k key) map[string]string {
	table, name := k.split()
	with := map[string]string{}
	switch table {
	case policyServer:
		with = map[string]string{"url": `"https://policy.example/"`}
	case "zvm":
		with = map[string]string{
			"url": `"https://zvm.example"`, "ca_file": `"ca.pem"`, "client_id": `"guard"`,
			"client_secret_file": `"secret"`, "accept_same_uid": `true`,
		}
		if name == "spki_sha256" {
			delete(with, "ca_file")
		}
		if name == "credential" {
			delete(with, "client_secret_file")
		}
		if name == "username" || name == "password_file" {
			delete(with, "client_id")
			delete(with, "client_secret_file")
			with["username"], with["password_file"] = `"guard"`, `"password"`
		}
	case toolTable:
		with = map[string]string{"match": `"x"`, "class": `"mutating"`, "vm_arg": `"vm_name"`}
		if name == "vm" {
			delete(with, "vm_arg")
		}
	}
	delete(with, name)
	return with
}

// fileWith is a file whose second line is the given one, with what the table
// needs below it.
func fileWith(k key, line string) string {
	table, _ := k.split()
	header := "[" + table + "]"
	if table == toolTable {
		header = "[" + header + "]"
	}
	with := companions(k)
	text := header + "\n" + line + "\n"
	for _, name := range slices.Sorted(maps.Keys(with)) {
		text += name + " = " + with[name] + "\n"
	}
	return text
}

func TestDocsListTheKeysOfTheDecoder(t *testing.T) {
	_, order := readDocs(t)
	var want []string
	for _, k := range keys {
		want = append(want, k.name)
	}
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("keys of the decoder (-) and of %s (+), in order:\n%s", docs, d)
	}
}

// modeOf is the mode in which a key means something.
func modeOf(k key) string {
	if k.name == "identity.operators" {
		return "system"
	}
	return "user"
}

func TestDocsSayWhatTheDecoderDoes(t *testing.T) {
	all, _ := readDocs(t)
	for _, k := range keys {
		t.Run(k.name, func(t *testing.T) {
			doc := all[k.name]
			if doc.def != k.def {
				t.Errorf("documented default %s, the decoder's is %s", doc.def, k.def)
			}
			if doc.example == "" {
				t.Error("no example")
			}
			if doc.example != "" {
				if _, err := decode("/x/guard.toml", modeOf(k), []byte(fileWith(k, doc.example))); err != nil {
					t.Errorf("the example is refused: %v", err)
				}
			}
			_, err := decode("/x/guard.toml", modeOf(k), []byte(fileWith(k, doc.bad)))
			fault, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%s is accepted", doc.bad)
			}
			if d := cmp.Diff(&Error{File: "/x/guard.toml", Line: 2, Key: k.name, Problem: doc.problem}, fault); d != "" {
				t.Errorf("documented error (-), the decoder's (+):\n%s", d)
			}
		})
	}
}
