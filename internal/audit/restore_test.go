package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every way to tear the last line heals, says so, and leaves a good chain.
func TestTornTail(t *testing.T) {
	_, lines, _ := chain(t, 1, 3)
	last := lines[0][2]
	for cut := 1; cut < len(last); cut += 37 {
		dir, lines, _ := chain(t, 1, 3)
		lines[0][2] = last[:len(last)-cut]
		writeChain(t, dir, lines, 3)
		stored := Head{Seq: 2, Hash: hashLine(bytes.TrimSpace(lines[0][1]))}
		w := open(t, Options{Dir: dir, Stored: &stored})
		head := appendN(t, w, 1)
		if w.Fault() != "" || head.Seq != 4 { // record 3 tells of the cut
			t.Fatalf("cut %d: fault %q, head %+v", cut, w.Fault(), head)
		}
		closeWriter(t, w)
		got := records(t, dir)
		if got[2].Code != CodeTorn || got[2].Count != uint64(len(last)-cut) {
			t.Fatalf("cut %d: record 3 is %+v", cut, got[2])
		}
		if r := verify(t, dir, &head); r.Fault != nil {
			t.Fatalf("cut %d: %v", cut, r.Fault)
		}
	}
}

func TestTornFirstLineOfSegment(t *testing.T) {
	for _, torn := range []string{"", `{"seq":4,`} {
		dir, _, head := chain(t, 1, 3)
		if err := os.WriteFile(filepath.Join(dir, segmentName(4)), []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		w := open(t, Options{Dir: dir, Stored: &head})
		head = appendN(t, w, 1)
		closeWriter(t, w)
		if r := verify(t, dir, &head); r.Fault != nil || w.Fault() != "" {
			t.Errorf("torn %q: %v, %q", torn, r.Fault, w.Fault())
		}
	}
}

// What the chain lacks of the stored head stays visible for ever, also when the
// broker has stored newer heads since.
func TestRestoreAlarms(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string, lines [][][]byte, stored *Head)
		want   string
		kind   FaultKind
	}{
		{"end cut", func(t *testing.T, dir string, lines [][][]byte, _ *Head) {
			lines[1] = lines[1][:1]
			writeChain(t, dir, lines, 3)
		}, "the end was cut", FaultGap},
		{"everything removed", func(t *testing.T, dir string, _ [][][]byte, _ *Head) {
			remove(t, dir, 1)
			remove(t, dir, 4)
		}, "the end was cut", FaultCut},
		{"head edited", func(t *testing.T, dir string, lines [][][]byte, _ *Head) {
			lines[1][2] = bytes.Replace(lines[1][2], []byte("tool-5"), []byte("tool-X"), 1)
			writeChain(t, dir, lines, 3)
		}, "it was edited", FaultAlarm},
		{"head in an older segment edited", func(t *testing.T, dir string, lines [][][]byte, stored *Head) {
			*stored = Head{Seq: 2, Hash: strings.Repeat("a", 64)}
		}, "it was edited", FaultAlarm},
		{"last line is no record", func(t *testing.T, dir string, lines [][][]byte, _ *Head) {
			lines[1][2] = []byte("hello\n")
			writeChain(t, dir, lines, 3)
		}, "not an audit record", FaultEdit},
		{"a line missing in the newest segment", func(t *testing.T, dir string, lines [][][]byte, _ *Head) {
			lines[1] = [][]byte{lines[1][0], lines[1][2]}
			writeChain(t, dir, lines, 3)
		}, "has number 6, want 5", FaultGap},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, lines, stored := chain(t, 2, 3)
			tt.change(t, dir, lines, &stored)
			w := open(t, Options{Dir: dir, Stored: &stored})
			if !strings.Contains(w.Fault(), tt.want) {
				t.Errorf("fault %q, want one with %q", w.Fault(), tt.want)
			}
			head := appendN(t, w, 2)
			if head.Seq != 9 { // 6, the alarm, and two
				t.Errorf("head is record %d, want 9", head.Seq)
			}
			closeWriter(t, w)
			if r := verify(t, dir, &head); r.Fault == nil || r.Fault.Kind != tt.kind {
				t.Errorf("Verify found %v, want %s", r.Fault, tt.kind)
			}
			w = open(t, Options{Dir: dir, Stored: &head}) // the alarm isn't raised twice
			if w.Fault() != "" {
				t.Errorf("second start: %q", w.Fault())
			}
		})
	}
}

func TestOpenRefusesUnsafePlaces(t *testing.T) {
	base := t.TempDir()
	file, link := filepath.Join(base, "file"), filepath.Join(base, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	piped, _, _ := chain(t, 1, 1)
	if err := os.Mkdir(filepath.Join(piped, segmentName(2)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, link, piped} {
		if w, err := Open(Options{Dir: dir}); err == nil {
			closeWriter(t, w)
			t.Errorf("Open(%q) accepted it", dir)
		}
	}
}

func TestFileModes(t *testing.T) {
	for dirMode, want := range map[os.FileMode]os.FileMode{0o700: 0o600, 0o750: 0o640, 0o755: 0o640} {
		dir := filepath.Join(t.TempDir(), "audit")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, dirMode); err != nil {
			t.Fatal(err)
		}
		open(t, Options{Dir: dir})
		info, err := os.Stat(filepath.Join(dir, segmentName(1)))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("in a directory of mode %o: %v, %v; want %o", dirMode, info.Mode(), err, want)
		}
	}
}
