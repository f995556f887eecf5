package wire

import "time"

// MaxProject is the most bytes that a project's file of policy hooks may have. It
// is the body of the frame that a ProjectHooks comes in.
const MaxProject = 1 << 20

// ProjectHooks is what was found where a project has its policy hooks. The zero
// value means that nobody has looked: then nothing may change there.
type ProjectHooks struct {
	State ProjectState `json:"state"`
	Why   string       `json:"why,omitempty"` // it is unreadable
}

// ProjectState says what was found.
type ProjectState string

// What can be found. Of ProjectRead the frame's body has the bytes.
const (
	ProjectAbsent     ProjectState = "absent"
	ProjectRead       ProjectState = "read"
	ProjectUnreadable ProjectState = "unreadable"
)

// Verbs of operator.sock about policy hooks.
const (
	VerbHooks       Verb = "hooks"        // which there are, and which are trusted
	VerbHooksTrust  Verb = "hooks_trust"  // trusts one as it was looked at
	VerbHooksRevoke Verb = "hooks_revoke" // takes trust back
)

// HooksRequest is what these verbs need. Dir and Project say what the operator's
// own program has found in a directory that need have no session; the bytes of the
// file are the frame's body.
type HooksRequest struct {
	Dir     string       `json:"dir,omitempty"`
	Project ProjectHooks `json:"project,omitzero"`

	Key   string     `json:"key,omitempty"`  // trust and revoke
	Files []HookFile `json:"files,omitzero"` // trust: what the operator has seen
	Seen  uint64     `json:"seen,omitzero"`  // trust: revocations there had been then
}

// Hooks is what there is of policy hooks.
type Hooks struct {
	Untrusted   string           `json:"untrusted"` // hooks.untrusted: deny or skip
	Path        string           `json:"path"`      // hooks.path
	Revocations uint64           `json:"revocations"`
	User        HookSource       `json:"user"`
	Projects    []HookSource     `json:"projects"`
	Definitions []HookDefinition `json:"definitions"`
}

// HookSource is one file of definitions, as the broker knows it.
type HookSource struct {
	Path     string   `json:"path"`
	Identity string   `json:"identity"`
	Dir      string   `json:"dir,omitempty"`
	Sessions []string `json:"sessions,omitempty"` // that were launched with it
	State    string   `json:"state"`              // absent, read, unreadable
	Fault    string   `json:"fault,omitempty"`    // why nothing of it is in force, with its line
	SHA256   string   `json:"sha256,omitempty"`   // of its bytes
	// Changed is set by who looks at the file itself: it isn't any more what the
	// sessions were launched with.
	Changed bool `json:"project_policy_changed,omitzero"`
}

// HookDefinition is one definition with what is known of its trust.
type HookDefinition struct {
	Key       string     `json:"key"` // of the definition in its identity
	ID        string     `json:"id"`
	Source    string     `json:"source"`
	Identity  string     `json:"identity"`
	Matcher   string     `json:"matcher"`
	Command   string     `json:"command"`
	Args      []string   `json:"args"`
	TimeoutMS int64      `json:"timeout_ms"`
	OnError   string     `json:"on_error"`
	Enabled   bool       `json:"enabled"`
	InFile    bool       `json:"in_file"`           // false: only trust keeps it in force
	Replaced  bool       `json:"replaced,omitzero"` // another was trusted in its place
	Trust     *HookTrust `json:"trust"`             // nil: nobody trusts it
}

// HookTrust says what was trusted.
type HookTrust struct {
	Hash  string     `json:"hash"` // of the definition and the bytes that it runs
	Files []HookFile `json:"files"`
	At    time.Time  `json:"at"`
	By    uint32     `json:"by"` // uid
	Seen  uint64     `json:"seen"`
}
