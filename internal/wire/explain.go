package wire

// Explain names a call that nobody has made. Its input is the frame's body.
type Explain struct {
	Tool    string `json:"tool"`
	Runtime string `json:"runtime,omitempty"` // empty: the session's own; outside of sessions claude
	Dir     string `json:"dir,omitempty"`     // what relative paths in the input are relative to
}

// Explained is what would become of it.
type Explained struct {
	Tool    string     `json:"tool"`
	Runtime string     `json:"runtime"`
	Session string     `json:"session"` // whose call it would be; empty: anybody's
	Class   string     `json:"class"`   // read, recover, mutator; empty: it doesn't come to that
	Builtin string     `json:"builtin"` // the host's own tool: changes_self or lease_only; empty: it is none
	Entry   *Entry     `json:"entry"`   // what the catalog says of it; null: nothing
	Targets []string   `json:"targets"` // machines that it changes
	Answers []Foreseen `json:"answers"` // one for each state of a lease that matters
	// Policies are met too, reads without a lease; an answer is what there is
	// when none of them denies. Empty where the call is denied anyway.
	Policies []ForeseenPolicy `json:"policies"`
}

// ForeseenPolicy is a policy that a call would meet. Nothing asked it.
type ForeseenPolicy struct {
	Kind    string `json:"kind"`   // hook or server
	ID      string `json:"id"`     // of a hook
	Source  string `json:"source"` // whose hook: user or project
	Becomes string `json:"becomes"`
	Fault   string `json:"fault"` // why it can't be known
}

// What becomes of a policy that a call would meet.
const (
	PolicyAsked   = "asked"   // it may deny
	PolicyDenies  = "denies"  // nobody trusts it as it is, so the call is denied
	PolicySkipped = "skipped" // nobody trusts it, and guard.toml lets the call go on
	PolicyUnknown = "unknown" // a file can't be read: what changes something is denied
)

// Entry is a [[tool]] of guard.toml.
type Entry struct {
	Match string `json:"match"`
	Class string `json:"class"`
	Line  int    `json:"line"`
}

// Foreseen is the answer that a call would get.
type Foreseen struct {
	Lease   string `json:"lease"` // the state in which it would; any: it makes no difference
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Row     string `json:"row"`    // the row of the decision table, in words
	Reason  string `json:"reason"` // what host and model would be told; empty for a pass
	// Checkpoints would be taken first: they have no tag, id or time yet.
	Checkpoints []CheckpointInfo `json:"checkpoints"`
	// Unasked says that the ZVM was not asked about the machines.
	Unasked bool `json:"unasked"`
}

// ZVM is what the ZVM says of itself and of the machines that guard.toml names.
type ZVM struct {
	URL      string    `json:"url"`     // empty: none is configured
	Fault    *Fault    `json:"fault"`   // why it can't be used
	SkewMS   int64     `json:"skew_ms"` // its clock ahead of ours
	Machines []Machine `json:"machines"`
}

// PolicyServer is what the policy server says to who only knocks.
type PolicyServer struct {
	Host  string `json:"host"`
	Fault string `json:"fault"` // why it can't be used; empty: it can
}

// Machine is one that guard.toml names.
type Machine struct {
	Name  string   `json:"name"`
	From  string   `json:"from"` // checkpoint.self, or the match of a [[tool]]
	VPGs  []string `json:"vpgs"`
	Fault *Fault   `json:"fault"` // why no checkpoint of it would be confirmed
}

// Fault is a refusal in its parts.
type Fault struct {
	Code   string `json:"code"`
	Object string `json:"object"`
	Cause  string `json:"cause"`
	Next   string `json:"next"`
}
