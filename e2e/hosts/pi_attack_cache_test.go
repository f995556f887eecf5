//go:build hosts

package hosts

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/launcher/runtime"
)

// Pi's node and the loader of its extensions keep compiled code below TMPDIR,
// where an approved call, an earlier session or another user may write.

// TestPiAttackExtensionCache: the loader runs what its cache holds in place of an
// extension, also where that is in sealed memory.
func TestPiAttackExtensionCache(t *testing.T) {
	t.Parallel()
	hole{ID: "extension_cache", State: "closed",
		What: "the loader of extensions keeps their code in TMPDIR/jiti and runs what it finds there, by a file name and a mark that anybody can compute",
		By:   "JITI_FS_CACHE=false, which guard sets, and without which its extension doesn't load"}.of("pi").report(t)
	poison := func(w *world) {
		all, err := filepath.Glob(filepath.Join(w.Dir, "jiti", "*"))
		must(w.t, err)
		if len(all) == 0 {
			w.t.Fatal("the loader has no cache any more")
		}
		for _, path := range all {
			text, err := readAll(path)
			must(w.t, err)
			w.write(path, `require("fs").writeFileSync("`+w.Marker+`", "x");`+text)
		}
	}
	t.Run("control", func(t *testing.T) {
		w := newWorld(t)
		w.forPi()
		w.Env = append(w.Env, "TMPDIR="+w.Dir)
		w.piSteps(fakemodel.Say("one"), fakemodel.Say("two"))
		w.write(w.hookFile(), denies)
		args := append([]string{"-p", "go"}, piFlags...)
		w.ok(w.piAs(args...))
		poison(w)
		w.ok(w.piAs(args...))
		if !w.marked() {
			t.Error("the poisoned cache wasn't used")
		}
	})
	t.Run("guarded", func(t *testing.T) {
		g := newPi(t, "")
		g.Env = append(g.Env, "TMPDIR="+g.Dir)
		g.piSteps(fakemodel.Use("bash", g.touch()))
		g.cacheExtension()
		poison(g.world)
		g.ok(g.launchPi())
		g.denied()
	})
}

// cacheExtension has Pi itself put guard's own extension into the cache, by the
// path that it has under guard.
func (w *world) cacheExtension() {
	w.t.Helper()
	fd, err := unix.MemfdCreate("guard.js", unix.MFD_CLOEXEC)
	must(w.t, err)
	f := os.NewFile(uintptr(fd), "guard.js")
	defer f.Close()
	_, err = f.Write(runtime.PiExtension)
	must(w.t, err)
	const as = 64
	cmd := exec.Command(piNode, piScript, "-ne", "-e", "/proc/self/fd/64", "--offline", "-p", "go")
	cmd.ExtraFiles = append(make([]*os.File, as-3), f)
	cmd.Dir, cmd.Env = w.Project, w.environ()
	_ = cmd.Run() // it lacks its description, so that it ends Pi; the cache is written before
}

// TestPiAttackCompileCache: node runs what its compile cache holds in place of
// Pi's own code.
func TestPiAttackCompileCache(t *testing.T) {
	t.Parallel()
	hole{ID: "compile_cache", State: "closed",
		What: "Pi has node keep compiled code in TMPDIR/node-compile-cache, and runs what it finds there in place of its own code",
		By:   "NODE_DISABLE_COMPILE_CACHE=1, which guard sets"}.of("pi").report(t)
	t.Run("control", func(t *testing.T) {
		w := newWorld(t)
		w.forPi()
		w.piSteps()
		script := w.poisonedPi()
		w.ok(w.as(piNode, append([]string{script, "-p", "go"}, piFlags...)...))
		if !w.marked() {
			t.Error("the poisoned cache wasn't used")
		}
	})
	t.Run("guarded", func(t *testing.T) {
		g := newPi(t, "")
		g.Marker = filepath.Join(g.Project, "m")
		g.piSteps(fakemodel.Use("bash", g.touch()))
		script := g.poisonedPi()
		g.ok(g.launchAs(append([]string{"--client", script, "--", "-p", "go"}, piFlags...)...))
		g.denied()
	})
}

// poisonedPi makes a Pi whose files are as they came, and a compile cache in
// which one of them is another: compiled from a text of the same length, under
// the first one's checksum.
func (w *world) poisonedPi() (script string) {
	w.t.Helper()
	w.Marker = filepath.Join(w.Project, "m")
	w.Env = append(w.Env, "TMPDIR="+w.Dir)
	from := filepath.Dir(piScript)
	to := filepath.Join(w.Dir, "lib/node_modules/@earendil-works/pi-coding-agent")
	manifest, err := readAll(filepath.Join(from, "../../package.json"))
	must(w.t, err)
	w.write(filepath.Join(to, "package.json"), manifest)
	bundle := filepath.Join(to, "dist/bundle")
	text, err := readAll(piScript)
	must(w.t, err)
	w.write(filepath.Join(bundle, "cli.js"), text)
	must(w.t, os.Chmod(filepath.Join(bundle, "cli.js"), 0o755))
	must(w.t, os.Symlink(filepath.Join(from, "chunks"), filepath.Join(bundle, "chunks")))

	good, err := readAll(filepath.Join(from, "cli-runtime.js"))
	must(w.t, err)
	const harmless = `setupCli();main(process.argv.slice(2));` // functions are compiled later, from the file
	evil := `require("fs").writeFileSync("m","");`
	evil += strings.Repeat(" ", len(harmless)-len(evil))
	bad := strings.Replace(good, harmless, evil, 1)
	if bad == good {
		w.t.Fatal("Pi's start is written otherwise now")
	}
	runtimeFile := filepath.Join(bundle, "cli-runtime.js")
	script = filepath.Join(bundle, "cli.js")
	w.write(runtimeFile, bad)
	w.ok(w.as(piNode, script, "--version"))
	w.write(runtimeFile, good)
	must(w.t, os.Remove(w.Marker))
	w.forge([]byte(bad), []byte(good))
	return script
}

// forge gives the cached code of one text the checksum of another. A file of the
// cache begins with five words, of which the fourth is the text's checksum.
func (w *world) forge(of, as []byte) {
	w.t.Helper()
	all, err := filepath.Glob(filepath.Join(w.Dir, "node-compile-cache/*/*"))
	must(w.t, err)
	for _, path := range all {
		data, err := os.ReadFile(path)
		must(w.t, err)
		have := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(of))
		if len(data) > 20 && bytes.Equal(data[12:16], have) {
			binary.LittleEndian.PutUint32(data[12:], crc32.ChecksumIEEE(as))
			must(w.t, os.WriteFile(path, data, 0o600))
			return
		}
	}
	w.t.Fatalf("none of the %d files of the cache is of that text", len(all))
}
