package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// chain writes records into segments of so many lines and returns the
// directory, the lines of each segment, and the head.
func chain(t testing.TB, segments, each int) (dir string, lines [][][]byte, head Head) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "audit")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := segment{prev: zeroHash}
	for range segments {
		var seg [][]byte
		for range each {
			body, err := encode(Record{Event: EventVerdict, Tool: fmt.Sprint("tool-", s.seq), Time: testWall})
			if err != nil {
				t.Fatal(err)
			}
			head = s.add(body)
			seg = append(seg, bytes.Clone(s.buf))
			s.buf = s.buf[:0]
		}
		lines = append(lines, seg)
	}
	writeChain(t, dir, lines, each)
	return dir, lines, head
}

func writeChain(t testing.TB, dir string, lines [][][]byte, each int) {
	t.Helper()
	for i, seg := range lines {
		path := filepath.Join(dir, segmentName(uint64(i*each+1)))
		if err := os.WriteFile(path, bytes.Join(seg, nil), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerifyFindsAndNames(t *testing.T) {
	const each = 4 // segments: records 1 to 4, 5 to 8, 9 to 12
	name := func(first uint64) string { return segmentName(first) }
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string, l [][][]byte) [][][]byte
		kind   FaultKind
		file   string
		line   int
		seq    uint64
	}{
		{name: "nothing"},
		{"a character of a line", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[1][1] = bytes.Replace(l[1][1], []byte("tool-5"), []byte("tool-X"), 1)
			return l
		}, FaultEdit, name(5), 2, 6},
		{"a line's hash of the one before", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[1][2][bytes.Index(l[1][2], []byte(`"prev":"`))+8] = 'x'
			return l
		}, FaultEdit, name(5), 3, 7},
		{"the last line of a segment", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[0][3] = bytes.Replace(l[0][3], []byte("tool-3"), []byte("tool-X"), 1)
			return l
		}, FaultEdit, name(1), 4, 4},
		{"the very last line", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[2][3] = bytes.Replace(l[2][3], []byte("tool-11"), []byte("tool-XX"), 1)
			return l
		}, FaultEdit, name(9), 4, 12},
		{"a line that is no record", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[0][2] = []byte("hello\n")
			return l
		}, FaultEdit, name(1), 3, 3},
		{"a line too long", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[0][2] = append(bytes.Repeat([]byte("x"), 3*MaxRecord), '\n')
			return l
		}, FaultEdit, name(1), 3, 3},
		{"a missing line", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[1] = slices.Delete(l[1], 1, 2)
			return l
		}, FaultGap, name(5), 2, 6},
		{"the first line of a segment", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[1] = slices.Delete(l[1], 0, 1)
			return l
		}, FaultGap, name(5), 1, 5},
		{"the very first line", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[0] = slices.Delete(l[0], 0, 1)
			return l
		}, FaultGap, name(1), 1, 1},
		{"two lines exchanged", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[1][1], l[1][2] = l[1][2], l[1][1]
			return l
		}, FaultReorder, name(5), 2, 6},
		{"a line moved to the end", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[2] = append(l[2], l[0][1])
			l[0] = slices.Delete(l[0], 1, 2)
			return l
		}, FaultReorder, name(1), 2, 2},
		{"a line twice", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[1] = slices.Insert(l[1], 1, l[1][0])
			return l
		}, FaultReorder, name(5), 2, 5},
		{"a missing segment", func(t *testing.T, dir string, l [][][]byte) [][][]byte {
			remove(t, dir, 5)
			return nil
		}, FaultGap, name(9), 1, 5},
		{"the oldest segment", func(t *testing.T, dir string, l [][][]byte) [][][]byte {
			remove(t, dir, 1)
			return nil
		}, FaultCut, name(5), 1, 1},
		{"the newest segment", func(t *testing.T, dir string, l [][][]byte) [][][]byte {
			remove(t, dir, 9)
			return nil
		}, FaultCut, name(5), 4, 9},
		{"the last lines", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[2] = l[2][:2]
			return l
		}, FaultCut, name(9), 2, 11},
		{"everything", func(t *testing.T, dir string, l [][][]byte) [][][]byte {
			remove(t, dir, 1)
			remove(t, dir, 5)
			remove(t, dir, 9)
			return nil
		}, FaultCut, "", 0, 1},
		{"a segment renamed", func(t *testing.T, dir string, _ [][][]byte) [][][]byte {
			if err := os.Rename(filepath.Join(dir, segmentName(9)), filepath.Join(dir, segmentName(10))); err != nil {
				t.Fatal(err)
			}
			return nil
		}, FaultReorder, name(10), 1, 9},
		{"an unfinished line amid", func(_ *testing.T, _ string, l [][][]byte) [][][]byte {
			l[0] = append(l[0], []byte(`{"seq":5`))
			return l
		}, FaultEdit, name(1), 4, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, lines, head := chain(t, 3, each)
			if tt.change != nil {
				if l := tt.change(t, dir, lines); l != nil {
					writeChain(t, dir, l, each)
				}
			}
			r := verify(t, dir, &head)
			if tt.kind == "" {
				if r.Fault != nil || !r.HeadChecked || r.Records != 12 || r.Segments != 3 || r.Head != head || r.First != 1 {
					t.Errorf("Verify = %+v, fault %v", r, r.Fault)
				}
				return
			}
			if r.Fault == nil {
				t.Fatalf("Verify found nothing: %+v", r)
			}
			got := *r.Fault
			got.What = ""
			if want := (Fault{Kind: tt.kind, File: tt.file, Line: tt.line, Seq: tt.seq}); got != want {
				t.Errorf("Verify found %v, want %s at %s line %d, record %d", r.Fault, want.Kind, want.File, want.Line, want.Seq)
			}
		})
	}
}

func remove(t *testing.T, dir string, first uint64) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, segmentName(first))); err != nil {
		t.Fatal(err)
	}
}

// No single changed byte of a chain goes unseen.
func TestVerifyFindsEveryFlip(t *testing.T) {
	dir, lines, head := chain(t, 1, 2)
	whole := bytes.Join(lines[0], nil)
	path := filepath.Join(dir, segmentName(1))
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 7)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, dir, &head); r.Fault == nil {
			t.Fatalf("byte %d changed from %q to %q, and Verify found nothing", i, whole[i], b[i])
		}
	}
}

func TestVerifyWithoutStoredHead(t *testing.T) {
	dir, _, head := chain(t, 2, 3)
	r := verify(t, dir, nil)
	if r.Fault != nil || r.HeadChecked || r.Head != head {
		t.Errorf("Verify = %+v, want no fault, head not checked", r)
	}
	older := Head{Seq: 2, Hash: head.Hash}
	if r := verify(t, dir, &older); r.Fault == nil || r.Fault.Kind != FaultEdit || r.Fault.Seq != 2 {
		t.Errorf("another hash under the stored number: %v", r.Fault)
	}
	if _, err := Verify(filepath.Join(dir, "nothing"), nil); err == nil {
		t.Error("a missing directory was verified")
	}
}

func TestVerifyRefusesLinksAndPipes(t *testing.T) {
	dir, _, _ := chain(t, 1, 2)
	path := filepath.Join(dir, segmentName(1))
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".moved", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir, nil); err == nil {
		t.Error("a symbolic link was read as a segment")
	}
	if err := Read(dir, func(Record, []byte) error { return nil }); err == nil {
		t.Error("Read followed a symbolic link")
	}
}

// An unfinished last line is no fault: the broker may be writing it.
func TestVerifyBesideWriter(t *testing.T) {
	dir, lines, head := chain(t, 1, 3)
	lines[0] = append(lines[0], []byte(`{"seq":4,"pr`))
	writeChain(t, dir, lines, 3)
	if r := verify(t, dir, &head); r.Fault != nil || r.Unfinished != 12 || r.Records != 3 {
		t.Errorf("Verify = %+v, fault %v", r, r.Fault)
	}
	if got := records(t, dir); len(got) != 3 {
		t.Errorf("Read gave %d records, want 3", len(got))
	}
}

func FuzzDecodeRecord(f *testing.F) {
	_, lines, _ := chain(f, 1, 2)
	f.Add(bytes.TrimSpace(lines[0][1]))
	f.Add([]byte(`{"seq":1,"seq":2}`))
	f.Add([]byte(`{"seq":1,"SEQ":2}`))
	f.Add([]byte(`{} `))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := DecodeRecord(line)
		if err != nil {
			return
		}
		body, err := encode(r)
		if err != nil {
			return // more than a record may hold
		}
		again := seal(nil, body, r.Seq, r.Prev)
		if bytes.Count(again, []byte("\n")) != 1 {
			t.Fatalf("one record gave several lines: %q", again)
		}
		same, err := DecodeRecord(again[:len(again)-1])
		if err != nil {
			t.Fatalf("own line refused: %v", err)
		}
		if same.Seq != r.Seq || same.Tool != clipTo(r.Tool, MaxName) || !same.Time.Equal(r.Time) {
			t.Errorf("round trip: %+v, want %+v", same, r)
		}
	})
}

// FuzzVerify reads anything as a segment: no panic, and no chain other than the
// one whose head is stored passes.
func FuzzVerify(f *testing.F) {
	_, lines, head := chain(f, 1, 3)
	whole := bytes.Join(lines[0], nil)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v := verifier{stored: &head, prev: zeroHash}
		if err := v.segment(bytes.NewReader(b), 1); err != nil {
			t.Fatal(err)
		}
		r := v.finish()
		if r.Fault == nil && r.HeadChecked && !bytes.HasPrefix(b, whole) {
			t.Errorf("another chain passed: %q", b)
		}
	})
}
