package runtime

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

// managedDir is where an administrator's settings of Claude are.
const managedDir = "/etc/claude-code"

// DropIn is guard's own file among them. The client reads managed-settings.json
// and then the drop-ins by the bytes of their names, and the last of equal keys
// counts: so the name is one that hardly any other comes after. Its text is the
// same in each version that asks the same: a session whose managed settings
// change is locked.
const DropIn = managedDir + "/managed-settings.d/zz-leaseguard.json"

// dropInComment is by what guard knows its own file. The client takes keys that
// it doesn't know, and no comments.
const dropInComment = "Written by guard init --system, which replaces it as long as this line stands here."

// DropInText is what stands in DropIn: the gate's hooks, and that no hooks but an
// administrator's run, since another's could change a call after it was judged.
func (in Install) DropInText() ([]byte, error) {
	text, err := json.Marshal(map[string]any{
		"$comment": dropInComment, "allowManagedHooksOnly": true, "hooks": in.hooks(),
	}, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("writing managed settings: %w", err)
	}
	return append(text, '\n'), nil
}

// IsDropIn says whether a text is one that some version of guard wrote there.
func IsDropIn(text []byte) bool {
	var top struct {
		Comment string `json:"$comment"`
	}
	return json.Unmarshal(text, &top) == nil && top.Comment == dropInComment
}

// Managed is a settings file of an administrator's, which no launcher can
// override and only a proof can judge.
type Managed struct {
	Path  string
	Data  []byte
	Error string // why it could not be read
	Loose string // why others than root may change it
}

// ReadManaged reads them all, in the order in which the client does. A directory
// of theirs is among them only when others may write it.
func ReadManaged() []Managed { return readManaged(managedDir) }

func readManaged(dir string) []Managed {
	below := filepath.Join(dir, "managed-settings.d")
	paths := []string{filepath.Join(dir, "managed-settings.json"), filepath.Join(dir, "managed-mcp.json")}
	more, _ := filepath.Glob(filepath.Join(escapeGlob(below), "*"))
	slices.Sort(more)
	var all []Managed
	for _, path := range []string{dir, below} {
		if info, err := os.Stat(path); err == nil && loose(info) != "" {
			all = append(all, Managed{Path: path, Loose: loose(info)})
		}
	}
	for _, path := range append(paths, more...) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // #nosec G304 -- where the client looks for it
		if os.IsNotExist(err) {
			continue
		}
		m := Managed{Path: path}
		if err == nil {
			if info, err := f.Stat(); err == nil {
				m.Loose = loose(info)
			}
			m.Data, err = io.ReadAll(io.LimitReader(f, maxSettings))
			f.Close()
		}
		if err != nil {
			m.Error = err.Error()
		}
		all = append(all, m)
	}
	return all
}

// WithDropIn puts guard's file among others', in the client's order; no text
// changes nothing.
func WithDropIn(all []Managed, text []byte) []Managed {
	if text == nil {
		return all
	}
	own := Managed{Path: DropIn, Data: text}
	at := slices.IndexFunc(all, func(m Managed) bool { return m.Path == DropIn })
	if at >= 0 {
		own.Loose = all[at].Loose
		all = slices.Delete(slices.Clone(all), at, at+1)
	}
	at = slices.IndexFunc(all, func(m Managed) bool { return filepath.Dir(m.Path) == filepath.Dir(DropIn) && m.Path > DropIn })
	if at < 0 {
		at = len(all)
	}
	return slices.Insert(slices.Clone(all), at, own)
}

// loose says why somebody else than root may change a file; "" when nobody may.
func loose(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return "it has no owner"
	case st.Uid != 0:
		return fmt.Sprintf("it belongs to uid %d", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("its mode is %04o", info.Mode().Perm())
	}
	return ""
}

// parsed reads a file as the client does, if the client reads it at all: as one
// JSON object, of equal keys the last. An empty file is one that says nothing.
func (m Managed) parsed() (top object, err error) {
	name := filepath.Base(m.Path)
	if filepath.Base(filepath.Dir(m.Path)) == "managed-settings.d" {
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".json") {
			return nil, nil
		}
	} else if name != "managed-settings.json" {
		return nil, nil
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(m.Data, bom))
	if len(text) == 0 {
		return nil, nil
	}
	err = json.Unmarshal(text, &top, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err == nil && top == nil {
		err = fmt.Errorf("it is null")
	}
	return top, err
}
