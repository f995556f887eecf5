package wire

import "time"

// Verb names what a control request asks for.
type Verb string

// Verbs of broker.sock.
const (
	VerbRegister Verb = "register" // a launcher, whose process becomes the anchor

	// A registered launcher asks these before it execs, each on a connection of
	// its own.
	VerbProofKnown Verb = "proof_known" // is a proof under this digest still fresh?
	VerbProofDone  Verb = "proof_done"  // keep the proof that the gate was just heard under

	// The session's own recovery tool asks these.
	VerbRecoverBegin   Verb = "recover_begin"
	VerbRecoverPromote Verb = "recover_promote"
)

// Verbs of operator.sock. A session that asks gets VerbStatus of itself alone.
const (
	VerbStatus  Verb = "status"
	VerbContext Verb = "context" // what a begin has to read: directory and documents
	VerbVerify  Verb = "verify"  // begin_verification: mints a token
	VerbPromote Verb = "promote"
	VerbApprove Verb = "approve" // begin and promote in one
	VerbRenew   Verb = "renew"   // mints and uses a renewal token
	VerbRevoke  Verb = "revoke"
	VerbAudit   Verb = "audit" // the stored head of the audit chain, for a check of it
	VerbStop    Verb = "stop"
	// VerbPassphrase sets, changes or, without new_passphrase, removes the
	// operators' passphrase.
	VerbPassphrase Verb = "passphrase"

	// VerbExplain says what would become of a call, whose input is the frame's
	// body, and does nothing. A session asks it of itself alone.
	VerbExplain Verb = "explain"
	// VerbCheckpoint takes a checkpoint of the machine vm, and confirms it.
	VerbCheckpoint Verb = "checkpoint"
	// VerbInspect asks the ZVM about itself and the machines of guard.toml.
	VerbInspect Verb = "inspect"
)

// Control is the JSON of a control request. Which fields count depends on the
// verb; a field that doesn't belong to it must be absent.
type Control struct {
	Verb       Verb       `json:"verb"`
	Session    string     `json:"session,omitempty"`
	Generation uint64     `json:"generation,omitzero"` // cross-check: can only refuse
	TTLSeconds *int64     `json:"ttl_s,omitzero"`
	Token      string     `json:"token,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	All        bool       `json:"all,omitzero"`
	Kill       bool       `json:"kill,omitzero"` // revoke: then end what the session started and left running
	Documents  []Document `json:"documents,omitempty"`
	Register   *Register  `json:"register,omitempty"`
	Digest     string     `json:"digest,omitempty"`     // proof_*: SHA-256 in hex of all that was proved
	ClearAlarm bool       `json:"clear_alarm,omitzero"` // verify and approve: the operator has seen the alarm

	Passphrase    Secret `json:"passphrase,omitempty"`     // of the operator, with what raises authority
	NewPassphrase Secret `json:"new_passphrase,omitempty"` // passphrase: what it is to be

	Explain *Explain      `json:"explain,omitempty"`
	Hooks   *HooksRequest `json:"hooks,omitempty"` // hooks, hooks_trust and hooks_revoke

	VM         string `json:"vm,omitempty"`        // checkpoint
	Identifier bool   `json:"identifier,omitzero"` // checkpoint: vm is no name but an identifier of Zerto's
}

// Secret is text that no print of a request shows.
type Secret string

// String hides it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides it from %#v too.
func (s Secret) GoString() string { return s.String() }

// Register is what a launcher says of the session that it wants.
type Register struct {
	Runtime string `json:"runtime"`          // claude, claudex, pi, codex, exec
	Resume  string `json:"resume,omitempty"` // session id whose next generation this is
	Dir     string `json:"dir"`              // working directory, absolute
	Command string `json:"command"`          // what will be exec'd, for people
	// Unattended: nobody sits before the runtime, so that a gate which stays
	// silent is a fault (launch.unproved).
	Unattended bool         `json:"unattended,omitzero"`
	Hooks      ProjectHooks `json:"hooks,omitzero"` // of the project in Dir
}

// Document describes one context document; its bytes follow in the frame's
// body, in the order of the list.
type Document struct {
	Name    string `json:"name"`
	Missing bool   `json:"missing,omitzero"`
	Size    int    `json:"size"`
}

// Result is the JSON of the broker's answer to a control request. Error is nil
// when it was done.
type Result struct {
	Error    *Error    `json:"error,omitempty"`
	Status   *Status   `json:"status,omitempty"`
	Context  *Context  `json:"context,omitempty"`
	Session  *Session  `json:"session,omitempty"`
	Launch   *Launch   `json:"launch,omitempty"`
	Proof    *Proof    `json:"proof,omitempty"`
	Grant    *Grant    `json:"grant,omitempty"`
	Audit    *Head     `json:"audit,omitempty"`
	Revoked  []string  `json:"revoked,omitempty"`
	Ended    []Ended   `json:"ended,omitempty"` // revoke with kill: one for each of Revoked
	Warnings []string  `json:"warnings,omitempty"`
	Time     time.Time `json:"time"`

	Explained   *Explained       `json:"explained,omitempty"`
	Checkpoints []CheckpointInfo `json:"checkpoints,omitempty"`
	ZVM         *ZVM             `json:"zvm,omitempty"`
	Policies    *PolicyServer    `json:"policy_server,omitempty"`
	Hooks       *Hooks           `json:"hooks,omitempty"`
	Proofs      []string         `json:"proofs,omitempty"` // inspect: digests of the asking user's proofs that are fresh
}

// Error is a refusal: a stable code and a sentence that ends with the remedy.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Message }

// Context tells an operator's program what to read before it begins.
type Context struct {
	Session    string   `json:"session"`
	Generation uint64   `json:"generation"`
	Dir        string   `json:"dir"`
	Documents  []string `json:"documents"`
}

// Launch is what a launcher gets beside its session.
type Launch struct {
	Nonce  string `json:"nonce"`  // stands in the denial of every call before exec
	Server string `json:"server"` // name of the session's own MCP server; empty: no recovery by the agent
}

// Proof answers proof_known and proof_done.
type Proof struct {
	Fresh bool `json:"fresh"`
}

// Grant is the outcome of verify, promote, approve or renew.
type Grant struct {
	Session    string `json:"session"`
	State      string `json:"state"`
	Generation uint64 `json:"generation"`
	Cycle      uint64 `json:"cycle"`
	Token      string `json:"token,omitempty"` // verify only
	TokenInS   int64  `json:"token_expires_in_s,omitzero"`
	ExpiresInS int64  `json:"expires_in_s,omitzero"`
	Binding    string `json:"binding"`
}

// Ended says what became of the processes that a session had started and left
// running.
type Ended struct {
	Session string `json:"session"`
	Fence   string `json:"fence"` // by which they were found: cgroup or sweep
	Killed  int    `json:"killed"`
	Left    int    `json:"left"` // another user's, or not ended in time
}

// Head is the newest durable record of the audit chain.
type Head struct {
	Seq     uint64 `json:"seq"`
	Hash    string `json:"hash"`
	Dir     string `json:"dir"`
	Alarmed bool   `json:"alarmed,omitzero"`
}

// Status is what `guard status --json` prints.
type Status struct {
	Broker   BrokerStatus `json:"broker"`
	Sessions []Session    `json:"sessions"`
}

// BrokerStatus describes the broker itself.
type BrokerStatus struct {
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Mode       string    `json:"mode"` // user or system
	UID        uint32    `json:"uid"`
	BootID     string    `json:"boot_id"`
	Epoch      string    `json:"epoch"`
	Started    time.Time `json:"started"`
	Config     string    `json:"config"`
	ConfigRead time.Time `json:"config_read"` // when what is in force was read: at the start, or by a reload
	RunDir     string    `json:"run_dir"`
	StateDir   string    `json:"state_dir"`
	ZVM        string    `json:"zvm"` // url, or "none"
	Assurance  Assurance `json:"assurance"`
	InFlight   int       `json:"in_flight"`
	StoreError string    `json:"store_error,omitempty"`
	AuditError string    `json:"audit_error,omitempty"`
	AuditFault string    `json:"audit_fault,omitempty"` // what was found amiss in the chain at start
	// StoreAsides are damaged stores that lie beside the good one, which knows
	// nothing of what they kept.
	StoreAsides []string `json:"store_asides,omitempty"`
	ConfigError string   `json:"config_error,omitempty"` // why the last reload kept the configuration before it
	JournalLost uint64   `json:"journal_lost"`           // events that the journal didn't take; the audit has them
}

// Assurance says how well peers and operators are known.
type Assurance struct {
	Identity string `json:"identity"` // pidfs or pidfd
	Operator string `json:"operator"` // separate-uid, passphrase or cooperative
	Cgroup   string `json:"cgroup"`   // scope: each new session gets one; absent: lineage is the only fence
}

// Session describes one session.
type Session struct {
	ID             string          `json:"id"`
	Runtime        string          `json:"runtime"`
	State          string          `json:"state"`
	Generation     uint64          `json:"generation"`
	Cycle          uint64          `json:"cycle"`
	AnchorPID      int             `json:"anchor_pid"`
	UID            uint32          `json:"uid"`
	Dir            string          `json:"dir"`
	Command        string          `json:"command"`
	Launched       bool            `json:"launched"` // its runtime has been exec'd
	ExpiresInS     int64           `json:"expires_in_s"`
	Reason         string          `json:"reason,omitempty"` // why it is not VERIFIED
	GateSeen       bool            `json:"gate_seen"`
	Host           string          `json:"host"`            // gated, ungated host, unproved, waiting
	Alarm          string          `json:"alarm,omitempty"` // what locks promotion until an operator clears it
	Enforced       bool            `json:"enforced"`        // false: nothing is enforced against it (root session)
	OnlySelf       bool            `json:"only_self"`       // the answer shows only the asking session
	Cgroup         string          `json:"cgroup"`          // scope, user-scope (no boundary) or absent
	LastCheckpoint *CheckpointInfo `json:"last_checkpoint"`
	LastDenial     *Denial         `json:"last_denial"`
	Calls          uint64          `json:"calls"`
	Denied         uint64          `json:"denied"`
	Started        time.Time       `json:"started"`
}

// CheckpointInfo is a confirmed checkpoint, as status, audit and demo show it.
type CheckpointInfo struct {
	VM     string    `json:"vm"`
	VPG    string    `json:"vpg"`
	VPGID  string    `json:"vpg_id"`
	Tag    string    `json:"tag"`
	ID     string    `json:"id"`
	Time   time.Time `json:"time"` // the ZVM's own time
	Reused bool      `json:"reused,omitzero"`
}

// Denial is the latest refusal of a session.
type Denial struct {
	Tool string    `json:"tool"`
	Code string    `json:"code"`
	Time time.Time `json:"time"`
}
