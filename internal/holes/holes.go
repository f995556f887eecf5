// Package holes knows the ways in which hosts' clients run a tool although a hook
// is there, as the suites of real clients have measured them, and what became of
// each: closed, compensated or open.
//
// The rows are data: holes.json, which is made of what the tests reported and
// never written by hand (make holes). What isn't in it isn't known; that doesn't
// make a client safe.
package holes

//go:generate go run ../house/holes -root ../..

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// States of a hole.
const (
	Closed      = "closed"      // it was tried, and no tool ran
	Compensated = "compensated" // it stands, and something else bounds what it does
	Open        = "open"        // it stands
)

// Row is one hole of one version of one host's client.
type Row struct {
	Host    string `json:"host"`    // claude, claudex, pi, codex
	Version string `json:"version"` // of the client that it was measured on
	ID      string `json:"id"`
	What    string `json:"what"`
	State   string `json:"state"`
	By      string `json:"by"` // what closes or compensates it; when open, what to do about it
	Test    string `json:"test"`
	Nightly bool   `json:"nightly,omitzero"` // only a run of that size tries it
}

//go:embed holes.json
var text []byte

// rows are read when somebody asks for them: a guard that runs a call's policy
// hooks never does, and a tool call waits for its start.
var rows = sync.OnceValue(func() []Row { return read(text) })

// read panics on a text that isn't understood: it is part of the program.
func read(text []byte) []Row {
	var all []Row
	if err := json.Unmarshal(text, &all, json.RejectUnknownMembers(true)); err != nil {
		panic(fmt.Sprintf("reading the embedded holes.json: %v", err))
	}
	return all
}

// All returns every row.
func All() []Row { return slices.Clone(rows()) }

// For returns the rows of a host's client of that version. One that nobody
// measured has those of the measured one before it and of the one after it: each
// row says which it was measured on. claudex is Claude, and has its holes too.
func For(host, version string) []Row { return choose(rows(), host, version) }

func choose(rows []Row, host, version string) []Row {
	found := ofVersion(rows, host, version)
	if host == "claudex" {
		for _, row := range ofVersion(rows, "claude", version) {
			if !slices.ContainsFunc(found, func(own Row) bool { return own.ID == row.ID }) {
				found = append(found, row)
			}
		}
	}
	return found
}

func ofVersion(rows []Row, host, version string) []Row {
	before, after := "", "" // the nearest ones; both are this version if it was measured
	for _, row := range rows {
		if row.Host != host {
			continue
		}
		if Compare(row.Version, version) <= 0 && (before == "" || Compare(row.Version, before) > 0) {
			before = row.Version
		}
		if Compare(row.Version, version) >= 0 && (after == "" || Compare(row.Version, after) < 0) {
			after = row.Version
		}
	}
	var found []Row
	for _, row := range rows {
		if row.Host == host && (row.Version == before || row.Version == after) {
			found = append(found, row)
		}
	}
	return found
}

// Compare orders versions by their numbers, part by part; what is no number
// counts as 0.
func Compare(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

// numbers are a version's parts without zeros at the end, so that 2.1 is 2.1.0.
func numbers(version string) []int {
	var all []int
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part)
		all = append(all, n)
	}
	for len(all) > 0 && all[len(all)-1] == 0 {
		all = all[:len(all)-1]
	}
	return all
}
