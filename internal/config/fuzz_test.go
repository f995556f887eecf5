package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/paths"
)

// FuzzDecode holds that what is accepted is TOML to the library's own decoder
// too, and that its catalog is one.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(goodZVM))
	f.Add([]byte(uncomment(string(Template(Answers{})))))
	for _, k := range keys {
		_, name := k.split()
		if k.def != "" {
			f.Add([]byte(fileWith(k, name+" = "+k.def)))
		}
	}
	for _, s := range []string{"", "[lease]\nTTL = 1", "[lease]\n[lease]\n", "a.b.c = 1", "[[tool]]\n[tool]\n", "[policy_server]\nheaders = {}\n", "[lease]\ncontext = [\"\"\"\na\"\"\"]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(path, paths.User, data)
		if err != nil {
			if c != nil {
				t.Fatal("a configuration beside an error")
			}
			return
		}
		var other map[string]any
		if err := toml.Unmarshal(data, &other); err != nil {
			t.Fatalf("the library refuses it: %v", err)
		}
		if _, err := catalog.New(c.Tools); err != nil {
			t.Fatalf("the catalog is refused: %v", err)
		}
		again, err := decode(path, paths.User, data)
		if d := cmp.Diff(c, again); err != nil || d != "" {
			t.Fatalf("read twice: %v %s", err, d)
		}
	})
}
