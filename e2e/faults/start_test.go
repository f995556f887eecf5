//go:build faults

package faults

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/audit"
)

// TestDamagedStore: the real programs beside a damaged guard.db: calls are
// denied, the broker starts, and guard status says what was lost.
func TestDamagedStore(t *testing.T) {
	w := prepare(t)
	w.start()
	w.stop()
	db := w.Paths.DB
	b, err := os.ReadFile(db)
	w.Must(err)
	for i := range b {
		b[i] ^= 0x5a
	}
	w.Must(os.WriteFile(db, b, 0o600))
	w.Must(w.StartBroker(w.Ctx()))
	w.expect("Write", "deny", "not_registered")
	out, err := w.Guard(w.Ctx(), "status")
	if err != nil || !bytes.Contains(out, []byte("a damaged store was set aside as")) || !bytes.Contains(out, []byte("if a passphrase was set")) ||
		!bytes.Contains(out, []byte("no head of it is stored")) {
		t.Errorf("guard status: %v\n%s", err, out)
	}
	asides, err := filepath.Glob(db + ".damaged-*")
	if err != nil || len(asides) != 1 {
		t.Fatalf("set aside: %q, %v", asides, err)
	}
	if kept, err := os.ReadFile(asides[0]); err != nil || !bytes.Equal(kept, b) {
		t.Errorf("what was set aside isn't what was there: %v", err)
	}
	w.launch()
	w.approve()
	w.expect("Write", "pass", "")
}

// TestVerifyOnReadOnlyDisk: with no broker, on a disk that nobody can write,
// guard audit verify still checks the chain against its head.
func TestVerifyOnReadOnlyDisk(t *testing.T) {
	needsRoot(t)
	w := prepare(t)
	d := w.own(tmpfs("size=4m"))
	w.start()
	w.stop()
	w.Must(unix.Mount("", d.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	out, err := w.Guard(w.Ctx(), "audit", "verify")
	if err != nil || !strings.Contains(string(out), "head: checked against the store") {
		t.Errorf("guard audit verify: %v\n%s", err, out)
	}
	cmd := exec.Command(programs.Broker)
	cmd.Env = w.Env
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), w.Paths.DB) || !strings.Contains(string(said), "read-only file system") {
		t.Errorf("the broker on it: %v\n%s", err, said)
	}
}

// TestRotationWithoutRoom: the next segment can't be made. The audit fails, and
// with room a new writer goes on with a whole chain.
func TestRotationWithoutRoom(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	if err := tmpfs("size=1m,nr_inodes=5,mode=700")(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	kept := audit.Head{}
	opt := audit.Options{Dir: filepath.Join(dir, "audit"), SegmentSize: 1000, Epoch: "e", Stored: &kept, OnHead: func(h audit.Head) error { kept = h; return nil }}
	w, err := audit.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	var last audit.Head
	for {
		h, err := w.Append(context.Background(), audit.Record{Event: audit.EventVerdict})
		if err != nil {
			break
		}
		if last = h; last.Seq > 1000 {
			t.Fatal("there was always room: this test shows nothing")
		}
	}
	if err := w.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("closing: %v", err)
	}
	if r, err := audit.Verify(opt.Dir, &last); err != nil || r.Fault != nil || !r.HeadChecked {
		t.Errorf("what was acknowledged: %+v, %v", r.Fault, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "nr_inodes=100"); err != nil {
		t.Fatal(err)
	}
	if w, err = audit.Open(opt); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if last, err = w.Append(context.Background(), audit.Record{Event: audit.EventVerdict}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(context.Background()); err != nil || w.Fault() != "" {
		t.Errorf("closing: %v, fault %q", err, w.Fault())
	}
	if r, err := audit.Verify(opt.Dir, &last); err != nil || r.Fault != nil || !r.HeadChecked {
		t.Errorf("with room again: %+v, %v", r.Fault, err)
	}
}
