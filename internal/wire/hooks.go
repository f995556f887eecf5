package wire

import (
	"fmt"
	"io"
	"slices"
)

// Sizes of the exchange of policy hooks, which no configuration can raise.
const (
	MaxHookJob     = 8 << 20 // definitions of one call
	MaxHookResults = 1 << 20
	MaxHooks       = 512
)

// HookJob is what `guard hooks run` gets of the broker, as JSON in the first part
// of a reply of KindHooks. The second part is the line that each hook reads.
type HookJob struct {
	Hooks    []Hook `json:"hooks"`
	Path     string `json:"path"`           // PATH of the hooks
	TotalMS  int64  `json:"total_ms"`       // for all hooks together
	AnswerMS int64  `json:"answer_ms"`      // until the broker's answer has come
	Here     bool   `json:"here,omitempty"` // by the very process that reads this
}

// Hook is one definition to run.
type Hook struct {
	ID        string     `json:"id"`
	Command   string     `json:"command"`
	Args      []string   `json:"args"`
	TimeoutMS int64      `json:"timeout_ms"`
	Files     []HookFile `json:"files"` // what was trusted with it
}

// HookFile is a file that a hook runs: Arg 0 is the command, Arg n the argument
// n-1 of Args. Each argument that is the absolute path of a regular file is one.
type HookFile struct {
	Arg    int    `json:"arg"`
	SHA256 string `json:"sha256"` // in hex
	// Stamp is the kernel's word for the file when it was hashed, if only root could
	// change it: while that is the same, its bytes are. It is no part of what names a
	// definition.
	Stamp string `json:"stamp,omitempty"`
}

// SameFiles says whether both are the same bytes.
func SameFiles(a, b []HookFile) bool {
	return slices.EqualFunc(a, b, func(x, y HookFile) bool { return x.Arg == y.Arg && x.SHA256 == y.SHA256 })
}

// HookResults is what the runner sends back, as JSON in the body of a request of
// KindHookResults: one for each hook, in their order.
type HookResults struct {
	Results []HookResult `json:"results"`
}

// HookResult is what became of one hook.
type HookResult struct {
	Status     HookStatus `json:"status"`
	Reason     string     `json:"reason"` // of a denial or a failure
	Exit       int        `json:"exit"`   // -1: it had none
	Signal     string     `json:"signal"` // that ended it
	DurationUS int64      `json:"duration_us"`
}

// HookStatus says what became of a hook.
type HookStatus string

// What becomes of hooks. HookChanged: what it would run isn't what was trusted,
// and so it didn't run.
const (
	HookAllowed HookStatus = "allowed"
	HookDenied  HookStatus = "denied"
	HookFailed  HookStatus = "failed"
	HookChanged HookStatus = "changed"
	HookAborted HookStatus = "aborted"
)

// HooksFrame is what the broker answers to a gate that is to run hooks: nothing
// more comes before the runner has asked, since the gate must not read any of it.
func HooksFrame() []byte { return AppendReply(nil, Reply{Kind: KindHooks}) }

// HookJobHead is what goes before the line for the hooks, which is size bytes
// long and too large to be copied.
func HookJobHead(job []byte, size int) []byte {
	frame := AppendReply(nil, Reply{Kind: KindHooks, Out: job})
	frame = frame[:len(frame)-len(EndMark)]
	putLength(frame[16:], size)
	return frame
}

// WriteHookJob writes a job and the line for the hooks, where that is held whole.
func WriteHookJob(w io.Writer, job, line []byte) error {
	for _, part := range [][]byte{HookJobHead(job, len(line)), line, EndMark[:]} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// ReadHookJob reads the job and the line for the hooks.
func ReadHookJob(r io.Reader) (job, line []byte, err error) {
	reply, err := readReply(r, MaxHookJob, MaxHookLine)
	if err == nil && (reply.Kind != KindHooks || len(reply.Out) == 0) {
		err = fmt.Errorf("%w: kind %d where policy hooks were to come", ErrFrame, reply.Kind)
	}
	return reply.Out, reply.Err, err
}

// MaxHookLine is the longest line for hooks: a payload with what stands around it.
const MaxHookLine = MaxPayload + 256<<10

// ReadHooks reads a runner's next request, KindHooksReady or KindHookResults, on
// a connection whose first one was an event, and returns its body.
func ReadHooks(r io.Reader, kind Kind) ([]byte, error) {
	h, err := readHeader(r, Limits{Body: MaxHookResults})
	if err != nil {
		return nil, err
	}
	if h.Kind != kind || h.Host != HostNone || h.Role != RoleNone || h.Flags != 0 || h.Peer != 0 || (h.BodyLen == 0) != (kind == KindHooksReady) {
		return nil, fmt.Errorf("%w: kind %d of %d bytes, want kind %d", ErrFrame, h.Kind, h.BodyLen, kind)
	}
	req, err := ReadBody(r, h)
	return req.Body, err
}
