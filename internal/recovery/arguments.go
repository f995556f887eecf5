package recovery

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"leaseguard.internal/internal/strictjson"
)

// errArguments is what all errors of decode wrap. None of them repeats a value.
var errArguments = errors.New("arguments are {} for the first call, then {\"token\": \"lgt_...\"} with the token of its answer and nothing else")

// decode reads the tool's arguments: none, for which the token is empty, or a
// well-formed token. It takes nothing that the broker wouldn't take of the
// host's gate event, since the two must say the same.
func decode(arguments []byte) (token string, err error) {
	if len(arguments) == 0 { // a host may leave them out
		return "", nil
	}
	fields, err := strictjson.Fields(arguments, "token")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errArguments, err)
	}
	if len(fields) == 0 {
		return "", nil
	}
	var in struct {
		Token string `json:"token"`
	}
	if err := strictjson.Decode(arguments, &in); err != nil {
		return "", fmt.Errorf("%w: %w", errArguments, err)
	}
	if !wellFormed(in.Token) {
		return "", fmt.Errorf("%w: the token is not one", errArguments)
	}
	return in.Token, nil
}

// wellFormed says whether s can be a token. Whether it is one, only the broker
// can tell.
func wellFormed(s string) bool {
	bits, ok := strings.CutPrefix(s, "lgt_")
	if !ok || strings.ContainsAny(bits, "\r\n") { // which the decoder would skip
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(bits)
	return err == nil && len(b) == 32
}
