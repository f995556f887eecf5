package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

// Event says what kind of thing a record tells of.
type Event string

// The kinds of records.
const (
	EventVerdict Event = "verdict" // the answer to one hook event
	EventHost    Event = "host"    // what a host only told of, such as a call that ran
	EventLease   Event = "lease"   // begin, promote, renew, and all that lowers
	EventSession Event = "session" // registered, exec'd, ended
	EventAlarm   Event = "alarm"
	EventBroker  Event = "broker" // start, stop, and what the writer says of itself
)

// Codes of the records that the writer itself makes.
const (
	CodeTorn      = "audit_torn"         // an unfinished last line was cut at start
	CodeDropped   = "audit_dropped"      // Count records of Log found no room
	CodePruned    = "audit_pruned"       // old segments removed; Targets names the oldest one kept
	CodeFault     = "audit_fault"        // alarm: at start the chain didn't reach the stored head
	CodeHeadError = "audit_head_unsaved" // the head couldn't be stored
)

// Record is one line of the audit. Seq, Time, BootNS and Prev are filled in by
// the writer, BootID and Epoch too where they are empty.
type Record struct {
	Seq  uint64 `json:"seq"`
	Prev string `json:"prev"` // hash of the line before

	Time        time.Time             `json:"time"` // wall clock, for people
	BootNS      int64                 `json:"boot_ns"`
	BootID      string                `json:"boot_id"`
	Epoch       string                `json:"epoch"` // one run of the broker
	Event       Event                 `json:"event"`
	Session     string                `json:"session"`
	Generation  uint64                `json:"generation"`
	Cycle       uint64                `json:"cycle"`
	State       string                `json:"state"` // of the lease, afterwards
	Runtime     string                `json:"runtime"`
	CallerPID   int                   `json:"caller_pid"`
	CallerExe   string                `json:"caller_exe"`
	HostSession string                `json:"host_session"`
	Agent       string                `json:"agent"`
	AgentType   string                `json:"agent_type"`
	ToolUse     string                `json:"tool_use"`
	HookEvent   string                `json:"hook_event"`
	Tool        string                `json:"tool"`
	Class       string                `json:"class"`
	Verdict     string                `json:"verdict"`
	Code        string                `json:"code"`
	Reason      string                `json:"reason"`
	Targets     []string              `json:"targets"`
	Checkpoint  []wire.CheckpointInfo `json:"checkpoint"`
	Policy      []string              `json:"policy,omitempty"` // of earlier versions, which left it empty
	Policies    []PolicyResult        `json:"policies"`         // of all policies that were asked
	Receipt     string                `json:"receipt"`
	InputSHA256 string                `json:"input_sha256"` // keyed; never the input itself
	DurationUS  int64                 `json:"duration_us"`
	Count       uint64                `json:"count"` // of equal denials that this record stands for; 0: itself alone
}

// Bounds of one record. A peer chooses some of its text.
const (
	MaxText   = 1024     // bytes of one field
	MaxName   = 256      // bytes of a tool's name and of a host's ids
	MaxRecord = 64 << 10 // bytes of the line without its newline
)

// ErrTooLarge is returned for a record that has more targets or checkpoints
// than a line can hold.
var ErrTooLarge = errors.New("record too large")

// ErrMalformed is what the error for a line that is no record wraps.
var ErrMalformed = errors.New("not an audit record")

// encode turns a record into JSON without sequence number and hash, which only
// the writing goroutine knows; see seal.
func encode(r Record) ([]byte, error) {
	r.Seq, r.Prev = 0, ""
	for _, s := range []*string{
		&r.BootID, &r.Epoch, (*string)(&r.Event), &r.Session, &r.State, &r.Runtime, &r.CallerExe, &r.Class,
		&r.Verdict, &r.Code, &r.Reason, &r.Receipt, &r.InputSHA256,
	} {
		*s = clip(*s)
	}
	// What a peer chooses of every call is short in honest records.
	for _, s := range []*string{&r.HostSession, &r.Agent, &r.AgentType, &r.ToolUse, &r.HookEvent, &r.Tool} {
		*s = clipTo(*s, MaxName)
	}
	r.Policy, r.Targets, r.Policies = nil, slices.Clone(r.Targets), clipPolicies(r.Policies)
	for i, s := range r.Targets {
		r.Targets[i] = clip(s)
	}
	r.Checkpoint = slices.Clone(r.Checkpoint)
	for i := range r.Checkpoint {
		c := &r.Checkpoint[i]
		c.VM, c.VPG, c.VPGID, c.Tag, c.ID = clip(c.VM), clip(c.VPG), clip(c.VPGID), clip(c.Tag), clip(c.ID)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding audit record: %w", err)
	}
	b = Escape(bytes.TrimPrefix(b, []byte(unsealed)))
	if len(b)+sealSize > MaxRecord {
		return nil, fmt.Errorf("encoding audit record of %d bytes: %w; at most %d", len(b), ErrTooLarge, MaxRecord)
	}
	return b, nil
}

// unsealed is how the JSON of a record without number and hash begins.
const unsealed = `{"seq":0,"prev":"",`

// sealSize is the most that seal adds.
const sealSize = len(unsealed) + 20 + sha256.Size*2

// seal appends the whole line, newline included, to dst.
func seal(dst, body []byte, seq uint64, prev string) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `,"prev":"`...)
	dst = append(dst, prev...)
	dst = append(dst, `",`...)
	dst = append(dst, body...)
	return append(dst, '\n')
}

// DecodeRecord reads one line without its newline, strictly: exact keys, each
// at most once, valid UTF-8, nothing after the object.
func DecodeRecord(line []byte) (Record, error) {
	if len(line) > MaxRecord {
		return Record{}, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, len(line), MaxRecord)
	}
	var r Record
	if err := strictjson.Decode(line, &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if r.Seq == 0 || len(r.Prev) != sha256.Size*2 {
		return Record{}, fmt.Errorf("%w: no sequence number or no hash of the line before", ErrMalformed)
	}
	return r, nil
}

// hashLine is what the next line has as prev.
func hashLine(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// zeroHash is the prev of the very first record.
var zeroHash = strings.Repeat("0", sha256.Size*2)

// clip bounds text and makes it valid UTF-8, and says how much it cut.
func clip(s string) string { return clipTo(s, MaxText) }

func clipTo(s string, most int) string {
	if len(s) > most {
		cut := most
		for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "...+" + strconv.Itoa(len(s)-cut)
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// Escape writes characters that a terminal may act on (C1 controls, formats
// such as bidirectional overrides, line separators) as JSON escapes. They can
// only stand inside strings, so the meaning stays exactly the same.
func Escape(b []byte) []byte {
	plain := true
	for _, c := range b {
		plain = plain && c < utf8.RuneSelf && c != 0x7f
	}
	if plain {
		return b
	}
	out := make([]byte, 0, len(b)+32)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r < ' ' || unicode.IsPrint(r) {
			out = append(out, b[:n]...)
		} else if r < 0x10000 {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		}
		b = b[n:]
	}
	return out
}
