// Package verdict holds the answers of leaseguard: three kinds, one stable code
// for each row of the decision table, and the one template of their reasons.
//
// The zero Verdict denies.
package verdict

// Kind is what the host is told.
type Kind uint8

// The kinds. Deny is the zero value: an answer that nobody filled in denies.
const (
	Deny Kind = iota
	Ask
	Pass
)

// String returns the kind's name in records and JSON.
func (k Kind) String() string {
	switch k {
	case Ask:
		return "ask"
	case Pass:
		return "pass"
	default:
		return "deny"
	}
}

// Verdict is one answer. Pass never means the host's allow: it means that
// guard has no objection.
type Verdict struct {
	Kind   Kind
	Code   Code
	Reason string // for deny and ask: the text that host, model and log get
	// Context is told to the model on a pass of a changing call: which
	// checkpoint would undo it.
	Context string
}

// Code names a row of the decision table. Codes are stable: programs match them.
type Code string

// Codes of a call's verdict.
const (
	Malformed         Code = "malformed"
	BrokerUnavailable Code = "broker_unavailable"
	BrokerUntrusted   Code = "broker_untrusted"
	Deadline          Code = "deadline"
	BrokerBusy        Code = "broker_busy"
	NotRegistered     Code = "not_registered"
	GenerationStale   Code = "generation_stale"
	NestedRuntime     Code = "nested_runtime"
	Proving           Code = "proving"
	ConfigChange      Code = "config_change"
	GuardFile         Code = "guard_file"
	ReadClass         Code = "read_class"
	Recover           Code = "recover"
	LeaseUnverified   Code = "lease_unverified"
	LeasePending      Code = "lease_pending"
	LeaseExpired      Code = "lease_expired"
	LeaseRevoked      Code = "lease_revoked"
	PolicyDenied      Code = "policy_denied"
	PolicyUnavailable Code = "policy_unavailable"
	CatalogReadOnly   Code = "catalog_read_only"
	LeaseOnly         Code = "lease_only"
	SelfUnprotected   Code = "self_unprotected"

	CheckpointConfirmed   Code = "checkpoint_confirmed"
	CheckpointFailed      Code = "checkpoint_failed"
	CheckpointUnsupported Code = "checkpoint_unsupported"
	CheckpointGone        Code = "checkpoint_gone"
	CheckpointTimeout     Code = "checkpoint_timeout"
	VMAmbiguous           Code = "vm_ambiguous"
	VMUnknown             Code = "vm_unknown"
	VMMissing             Code = "vm_missing"
	ToolUnlisted          Code = "tool_unlisted"

	Internal Code = "internal"
)

// Codes of lease events and of what an operator or launcher is refused.
const (
	TokenUsed      Code = "token_used"
	TokenExpired   Code = "token_expired"
	TokenUnknown   Code = "token_unknown"
	BindingChanged Code = "binding_changed"
	WrongAnchor    Code = "wrong_anchor"
	GateUnseen     Code = "gate_unseen"
	NotOperator    Code = "not_operator"

	PassphraseNeeded Code = "passphrase_needed"
	PassphraseWrong  Code = "passphrase_wrong"

	NoSuchSession  Code = "no_such_session"
	RootSession    Code = "root_session"
	NestedLaunch   Code = "nested_launch"
	LimitReached   Code = "limit_reached"
	ConfigInvalid  Code = "config_invalid"
	AlarmRaised    Code = "alarm_raised"
	FlagRefused    Code = "flag_refused"
	ClientTooOld   Code = "client_too_old"
	WiringUnproved Code = "wiring_unproved"
	BadRequest     Code = "bad_request"
	StoreFailed    Code = "store_failed"
	NoSuchHook     Code = "no_such_hook"
	HookRevoked    Code = "hook_revoked"
)
