package hookfile

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/wire"
)

// Three digests name a definition, each SHA-256 over a JSON array without white
// space. None covers its id, its place in the file or whether it is switched on.
const (
	oldForm  = 1 // of files of before, without what a failure means
	keyForm  = 2
	fullForm = 3
)

// event is the only one that hooks are for.
const event = "PreToolUse"

// Key names the definition within an identity: what it is, not what is in the
// files that it names. Trust is asked for and taken back by it.
func (d Definition) Key(identity string) string {
	return d.digest(keyForm, identity, d.appendMeaning)
}

// Hash names the definition together with the bytes that it runs: the command's
// and those of each argument that is a file.
func (d Definition) Hash(identity string, files []wire.HookFile) string {
	return d.digest(fullForm, identity, func(b []byte) []byte {
		b = append(d.appendMeaning(b), ",["...)
		for i, f := range files {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendInt(append(b, '['), int64(f.Arg), 10), ',')
			b = append(appendString(b, f.SHA256), ']')
		}
		return append(b, ']')
	})
}

// OldHash is what the definition is called in hook-trust.json of the system that
// the format comes from: it covers neither onError nor any file's bytes.
func (d Definition) OldHash(identity string) string {
	return d.digest(oldForm, identity, func(b []byte) []byte { return b })
}

func (d Definition) appendMeaning(b []byte) []byte {
	onError := Deny
	if d.Allows() {
		onError = Allow
	}
	return appendString(append(b, ','), string(onError))
}

func (d Definition) digest(form int64, identity string, more func([]byte) []byte) string {
	b := strconv.AppendInt([]byte{'['}, form, 10)
	for _, s := range []string{string(d.Source), identity, event, d.Matcher, "command", d.Command} {
		b = appendString(append(b, ','), s)
	}
	b = append(b, ",["...)
	for i, arg := range d.Args {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, arg)
	}
	b = append(strconv.AppendInt(append(b, "],"...), d.TimeoutMS, 10), ']')
	b = append(more(b[:len(b)-1]), ']')
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// appendString quotes as JSON.stringify does. What comes from a file is valid
// UTF-8; anything else is made so.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its error tells of bytes that it has replaced
	return b
}
