package audit

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// Hostile names make one bounded line that no terminal acts on, and read back
// as what they were.
func TestP7_HostileText(t *testing.T) {
	for name, tt := range map[string]struct{ tool, want string }{
		"looks like a reader":  {"mcp__files__Read", "mcp__files__Read"},
		"blank":                {"mcp__a b__x", "mcp__a b__x"},
		"line break":           {"mcp__x__read\n[guard] verdict=allow", "mcp__x__read\n[guard] verdict=allow"},
		"long":                 {"mcp__" + strings.Repeat("k", 4000), "mcp__" + strings.Repeat("k", 1019) + "...+2981"},
		"escape sequence":      {"\x1b[2Jx\x07\x7f", "\x1b[2Jx\x07\x7f"},
		"C1 control":           {"a\u009b31mb", "a\u009b31mb"},
		"bidirectional":        {"a\u202etxt.exe\u2069", "a\u202etxt.exe\u2069"},
		"separators":           {"a\u2028b\u2029c", "a\u2028b\u2029c"},
		"beyond the BMP":       {"tag\U000e0041", "tag\U000e0041"},
		"invalid UTF-8":        {"a\xff\xfeb", "a\ufffdb"},
		"cut inside a rune":    {strings.Repeat("k", 1023) + "éé", strings.Repeat("k", 1023) + "...+4"},
		"NUL":                  {"a\x00b", "a\x00b"},
		"looks like an escape": {`a\u009bb`, `a\u009bb`},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := encode(Record{Tool: tt.tool, Targets: []string{tt.tool}, Policies: []PolicyResult{{ID: tt.tool}},
				Checkpoint: []wire.CheckpointInfo{{VM: tt.tool}}})
			if err != nil {
				t.Fatal(err)
			}
			line := seal(nil, body, 1, zeroHash)
			if bytes.Count(line, []byte("\n")) != 1 || len(line) > MaxRecord {
				t.Errorf("not one bounded line: %q", line)
			}
			for _, r := range string(line[:len(line)-1]) {
				if r < ' ' || r == utf8.RuneError && !strings.Contains(tt.want, "\ufffd") || r >= 0x7f && r <= 0x9f || r == 0x202e || r == 0x2028 {
					t.Errorf("the line holds %q", r)
				}
			}
			got, err := DecodeRecord(line[:len(line)-1])
			if err != nil {
				t.Fatal(err)
			}
			if got.Tool != clipTo(tt.tool, MaxName) || got.Targets[0] != tt.want || got.Checkpoint[0].VM != tt.want || got.Policies[0].ID != verdict.Clean(clipTo(tt.tool, maxPolicyText)) {
				t.Errorf("read back %q, want %q", got.Tool, tt.want)
			}
		})
	}
}

func TestEncodeLeavesCallersSlices(t *testing.T) {
	long := strings.Repeat("x", 2*MaxText)
	r := Record{Targets: []string{long}, Checkpoint: []wire.CheckpointInfo{{VM: long}}}
	if _, err := encode(r); err != nil {
		t.Fatal(err)
	}
	if r.Targets[0] != long || r.Checkpoint[0].VM != long {
		t.Error("encode cut its caller's own slices")
	}
}

func TestCoalescer(t *testing.T) {
	const ms = clock.Instant(1_000_000)
	deny := Record{Event: EventVerdict, Session: "s", Tool: "Bash", Verdict: "deny", Code: "lease_unverified"}
	c := NewCoalescer(20)
	written := 0
	for i := range 100 {
		written += len(c.Add(deny, clock.Instant(i)*ms))
	}
	if written != 20 {
		t.Errorf("%d of 100 equal denials in 100 ms passed, want 20", written)
	}
	other := deny
	other.Session = "t"
	if got := c.Add(other, 200*ms); len(got) != 1 {
		t.Errorf("another session's denial gave %d records", len(got))
	}
	if got := c.Flush(999 * ms); got != nil {
		t.Errorf("flushed within the second: %+v", got)
	}
	got := c.Flush(1000 * ms)
	if len(got) != 1 || got[0].Count != 80 || got[0].Session != "s" {
		t.Errorf("after the second: %+v, want one record of 80", got)
	}
	if got := c.Add(deny, 1001*ms); len(got) != 1 || got[0].Count != 0 {
		t.Errorf("the next second's first denial gave %+v", got)
	}
	if got := c.Flush(10_000 * ms); len(got) != 0 {
		t.Errorf("windows that held nothing back gave %+v", got)
	}
}

// A session that varies what it sends still fills no disk: after its burst it
// gets its twenty a second, and counts for the rest.
func TestCoalescerBoundsASession(t *testing.T) {
	c := NewCoalescer(20)
	written, stand := 0, uint64(0)
	count := func(rs []Record) {
		for _, r := range rs {
			written++
			stand += max(r.Count, 1)
		}
	}
	const n, seconds = 50_000, 10
	for i := range n {
		count(c.Add(Record{Session: "s", Tool: strconv.Itoa(i), Code: "lease_unverified"}, clock.Instant(i)*seconds*1_000_000_000/n))
	}
	count(c.Flush(clock.Instant((seconds + 2) * time.Second)))
	if want := burst + seconds*20 + seconds + 2; written > want || stand != n {
		t.Errorf("%d records stand for %d of %d denials; want at most %d records", written, stand, n, want)
	}
}

// Nothing is lost whatever the order of sessions and time: counts add up, and
// memory stays bounded.
func TestCoalescerLosesNothing(t *testing.T) {
	c := NewCoalescer(20)
	total := uint64(0)
	count := func(rs []Record) {
		for _, r := range rs {
			total += max(r.Count, 1)
		}
	}
	const n = 30_000
	for i := range n {
		tool := strings.Repeat("t", i%300)
		count(c.Add(Record{Session: string(rune('a' + i%20)), Tool: tool}, clock.Instant(i)*200_000))
		if len(c.windows) > coalesceKeys {
			t.Fatalf("%d windows", len(c.windows))
		}
	}
	count(c.Flush(clock.Instant(n)*200_000 + clock.Instant(coalesceWindow)))
	if total != n {
		t.Errorf("records stand for %d denials, want %d", total, n)
	}
}
