package fakemodel

import (
	"slices"
	"strings"
)

// Compaction answers Claude's request for a summary, which it asks of the same
// conversation with all its tools.
func Compaction() Conversation {
	return Conversation{
		Name: "compaction",
		Match: func(r *Request) bool {
			return len(r.Messages) > 0 && strings.Contains(r.Messages[len(r.Messages)-1].Text(), "an <analysis> block followed by a <summary> block")
		},
		Steps: slices.Repeat([]Step{Say("<analysis>short</analysis>\n<summary>we touched a file</summary>")}, 8),
	}
}
