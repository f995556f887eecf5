package zvmsim

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestManual holds docs/simulator.md to what the package knows.
func TestManual(t *testing.T) {
	data, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	want := append([]string{FileCA, FileSecret, FilePassword}, latencyKeys...)
	for _, o := range outcomes[1:] {
		want = append(want, string(o))
	}
	for name := range adminCalls {
		want = append(want, name)
	}
	for _, v := range []any{Settings{}, Faults{}, Answer{}} {
		for f := range reflect.TypeOf(v).Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want = append(want, key)
		}
	}
	for _, w := range want {
		if !strings.Contains(text, "`"+w+"`") {
			t.Errorf("%q isn't in the manual", w)
		}
	}
	_, example, _ := strings.Cut(text, "## Estate file")
	_, example, _ = strings.Cut(example, "```json\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := ParseEstate([]byte(example)); err != nil {
		t.Errorf("the estate of the manual: %v", err)
	}
}

// TestManualsExamples holds that every answer and fault in the manual's stories is
// one that the flags take.
func TestManualsExamples(t *testing.T) {
	data, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, stories, _ := strings.Cut(string(data), "## How to play some stories")
	flags := Flags{}
	lists := map[string]*[]string{"answer": &flags.Answers, "fault": &flags.Faults, "setting": &flags.Settings}
	found := 0
	for code := range strings.SplitSeq(stories, "`") {
		flag, value, _ := strings.Cut(strings.TrimPrefix(code, "--"), " ")
		if list := lists[flag]; list != nil && strings.HasPrefix(code, "--") {
			*list = append(*list, strings.Trim(value, "'"))
			found++
		}
	}
	b, err := flags.Parse()
	if err != nil || found < 10 {
		t.Errorf("%d examples: %v", found, err)
	}
	if _, err := newServer(&Options{Dir: "unused", Behaviour: &b}); err != nil {
		t.Error(err)
	}
}
