package runtime

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/verdict"
)

// Versions of Pi that matter.
const (
	PiOldest = "1.6.0" // the first whose behaviour was measured
	PiTested = "1.6.0" // the newest that the whole suite runs with
)

// piPackage is what npm calls Pi. Before version 1 it had another name.
const piPackage = "@earendil-works/pi-coding-agent"

// PiProgram is Pi's own script, which node runs.
var PiProgram = Program{
	Name:    "pi",
	Beside:  []string{"lib/node_modules/" + piPackage + "/dist/bundle/cli.js", "node_modules/" + piPackage + "/dist/bundle/cli.js"},
	Install: "npm install -g " + piPackage + "@" + PiTested,
	Oldest:  PiOldest, Tested: PiTested, Older: "guard knows Pi from " + PiOldest + " on",
	Script: isPi,
}

// Pi is Pi's script and the node that runs it, both held open.
type Pi struct {
	Script, Node *Client
	Version      string
	parts        string // digest of what the script is made of
}

// FindPi looks for both. What starts them by other means, such as the shims of
// version managers, is refused: the process that the launcher becomes has to be
// node with the script that was proved. s.File is the script's.
func FindPi(s Search) (*Pi, error) {
	s.Program = PiProgram
	c, err := Find(s)
	if err != nil {
		return nil, err
	}
	p := &Pi{Script: c}
	if p.Version, err = piVersion(c.Path); err == nil {
		p.Node, err = findNode(s)
	}
	if err == nil {
		p.parts, err = digestOf(filepath.Dir(c.Path))
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close lets go of both files.
func (p *Pi) Close() {
	p.Script.Close()
	if p.Node != nil {
		p.Node.Close()
	}
}

// Parts tells one state of the files beside the script from every other.
func (p *Pi) Parts() string { return p.parts }

// Check says whether everything is still what it was when it was found.
func (p *Pi) Check() error {
	if err := p.Script.Check(); err != nil {
		return err
	}
	if err := p.Node.Check(); err != nil {
		return err
	}
	now, err := digestOf(filepath.Dir(p.Script.Path))
	if err == nil && now != p.parts {
		return refuse(verdict.WiringUnproved, "executing", p.Script.Path, "a file beside it was replaced or written while it was proved", "launch again")
	}
	return err
}

// CheckVersion judges Pi's version. The warning is for one that nobody tested
// with guard yet.
func (p *Pi) CheckVersion() (warning string, err error) {
	if !piVersions.MatchString(p.Version) {
		return "", refuse(verdict.WiringUnproved, "finding the version of", p.Script.Path, "its package.json says "+verdict.Object(p.Version), PiProgram.Install)
	}
	return PiProgram.judge(p.Script.Path, p.Version)
}

// piVersions is how Pi writes its version.
var piVersions = regexp.MustCompile(`^[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}(?:-[0-9A-Za-z.-]+)?$`)

// isPi tells Pi's own script: node runs it, and it lies in Pi's package, under
// whatever name a link has.
func isPi(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Base(real) != "cli.js" {
		return false
	}
	text, _, err := head(real)
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if err != nil || !bytes.HasPrefix(first, []byte("#!")) || !bytes.Contains(first, []byte("node")) {
		return false
	}
	_, is := piManifest(real)
	return is
}

// manifest is what is read of a package.json.
type manifest struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// piManifest finds the package that a script lies in, where it is Pi's, today's
// or the one before.
func piManifest(script string) (manifest, bool) {
	for dir := filepath.Dir(script); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		file, err := readUser(filepath.Join(dir, "package.json"), maxSettings)
		if err != nil || file.top == nil {
			continue
		}
		var m manifest
		err = json.Unmarshal(file.data, &m)
		return m, err == nil && (m.Name == piPackage || m.Name == "@mariozechner/pi-coding-agent")
	}
	return manifest{}, false
}

func piVersion(script string) (string, error) {
	m, is := piManifest(script)
	if !is {
		return "", refuse(verdict.WiringUnproved, "finding the version of", script, "no package.json of "+piPackage+" is above it", PiProgram.Install)
	}
	return m.Version, nil
}

// findNode looks for the node that env would run the script with. A shim in its
// place is refused; so is a program that only bears node's name.
func findNode(s Search) (*Client, error) {
	const next = "put the directory of node's own program before the others in PATH"
	for _, dir := range filepath.SplitList(s.Path) {
		n := Search{Program: Program{Name: "node", Install: "install Node.js 22.19 or newer"}, Self: s.Self}
		path := filepath.Join(dir, "node")
		if !filepath.IsAbs(dir) {
			continue
		}
		is := n.kind(path)
		if is == absent || is == own {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil || is != native || !strings.HasPrefix(filepath.Base(real), "node") {
			return nil, refuse(verdict.WiringUnproved, "finding node", path, "it is a shim, which starts node as another process", next)
		}
		return n.pin(path)
	}
	return nil, refuse(verdict.WiringUnproved, "finding", "node", "no executable of that name is in PATH, and Pi's script needs one", "install Node.js 22.19 or newer, or "+next)
}

// maxParts is more files than any build of Pi has in one directory tree.
const maxParts = 5000

// digestOf names the state of all files below a directory, as their identities.
// It says whether the script that was proved is the one that runs; who may write
// there could also replace it later.
func digestOf(dir string) (string, error) {
	h, files := sha256.New(), 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if files++; files > maxParts {
			return fmt.Errorf("%s has more than %d files", verdict.Object(dir), maxParts)
		}
		id, err := IdentityOf(path)
		fmt.Fprintf(h, "%#v\n", id)
		return err
	})
	if err != nil {
		return "", refuse(verdict.WiringUnproved, "looking at the files of", dir, err.Error(), PiProgram.Install)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// PiProjectFiles are those of a project's files of Pi's that a session doesn't
// load, as Pi itself finds them.
func PiProjectFiles(dir string) []string {
	return there(dir, ".pi/settings.json", ".pi/mcp.json", ".pi/extensions", ".pi/skills", ".pi/prompts", ".pi/themes", ".pi/SYSTEM.md", ".pi/APPEND_SYSTEM.md")
}

// PiSettings is what a user's agent directory says of Pi, for a proof's digest.
// Settings that Pi would skip, with a line that nobody reads, end the launch.
func PiSettings(env func(string) string) ([]byte, error) {
	dir := cmp.Or(env("PI_CODING_AGENT_DIR"), filepath.Join(env("HOME"), ".pi", "agent"))
	settings, err := readUser(filepath.Join(dir, "settings.json"), maxSettings)
	if err != nil {
		return nil, err
	}
	all := fmt.Appendf(nil, "%q %q\n", dir, settings.data)
	for _, name := range []string{"models.json", "trust.json"} {
		file, err := readUser(filepath.Join(dir, name), maxSettings) // Pi's form of JSON is wider; the bytes count
		all = fmt.Appendf(all, "%q %v\n", file.data, err)
	}
	return all, nil
}
