//go:build faults

package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// disk is a file system of a few MiB under the broker's state.
type disk struct {
	t     *testing.T
	dir   string
	mount func() error
}

// own puts the state of w on a disk of its own.
func (w *world) own(mount func(dir string) error) *disk {
	w.T.Helper()
	d := &disk{t: w.T, dir: filepath.Dir(w.Paths.StateDir)}
	d.mount = func() error { return errors.Join(mount(d.dir), os.Chmod(d.dir, 0o700)) }
	w.Must(d.mount())
	w.T.Cleanup(d.drop)
	return d
}

// drop takes the disk away, whoever uses it.
func (d *disk) drop() { _ = unix.Unmount(d.dir, unix.MNT_DETACH) }

func tmpfs(options string) func(dir string) error {
	return func(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, options) }
}

// ext4 makes a file system in a file, and mounts it.
func ext4(t *testing.T, image string) func(dir string) error {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		testproc.Lacks(t, "mkfs.ext4 is not there")
	}
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(8<<20), f.Close())
	}
	if err == nil {
		var out []byte
		if out, err = exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(dir string) error {
		out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput()
		if err != nil && strings.Contains(string(out), "loop") {
			testproc.Lacks(t, "no loop device: "+string(out))
		}
		return err
	}
}

// fill leaves not one byte, and returns what undoes it.
func (d *disk) fill() (empty func()) {
	d.t.Helper()
	path := filepath.Join(d.dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		d.t.Fatal(err)
	}
	for size := 1 << 20; size > 0; size /= 2 {
		chunk := make([]byte, size)
		for err == nil {
			_, err = f.Write(chunk)
		}
		if !errors.Is(err, unix.ENOSPC) {
			d.t.Fatal(err)
		}
		err = nil
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			d.t.Error(err)
		}
	}
}

// TestB3_Disk takes the disk away between a token and its use. The promotion
// fails and the lease is UNVERIFIED; a revocation works and says that it isn't
// on disk; calls are answered in time, and none that changes anything passes.
// Once the disk is back, a new broker goes on with a whole audit, and no token of
// before works.
func TestB3_Disk(t *testing.T) {
	for _, tt := range []struct {
		name string
		root bool
		// lose takes the disk from a running broker; the function that it returns
		// brings it back once that broker has ended.
		prepare func(t *testing.T, w *world) (lose func() (back func()))
	}{
		{"tmpfs is full", true, func(_ *testing.T, w *world) func() func() {
			d := w.own(tmpfs("size=512k"))
			return d.fill
		}},
		{"ext4 is full", true, func(t *testing.T, w *world) func() func() {
			d := w.own(ext4(t, filepath.Join(w.Dir, "image")))
			return d.fill
		}},
		{"ext4 has gone read-only", true, func(t *testing.T, w *world) func() func() {
			d := w.own(ext4(t, filepath.Join(w.Dir, "image")))
			return func() func() { // what the kernel does after an error of the disk
				w.Must(unix.Mount("", d.dir, "", unix.MS_REMOUNT, "abort"))
				return func() { d.drop(); w.Must(d.mount()) }
			}
		}},
		{"ext4 answers with I/O errors", true, func(t *testing.T, w *world) func() func() {
			d := w.own(ext4(t, filepath.Join(w.Dir, "image")))
			return func() func() {
				f, err := os.Open(d.dir)
				w.Must(err)
				defer f.Close()
				const shutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
				w.Must(unix.IoctlSetPointerInt(int(f.Fd()), shutdown, 2 /* without a last sync */))
				return func() { d.drop(); w.Must(d.mount()) }
			}
		}},
		{"files may not grow", false, func(_ *testing.T, w *world) func() func() {
			return func() func() {
				w.Must(unix.Prlimit(w.BrokerPID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}, nil))
				return func() {}
			}
		}},
		{"the directory is gone", false, func(_ *testing.T, w *world) func() func() {
			return func() func() {
				gone := w.Paths.StateDir + ".gone"
				w.Must(os.Rename(w.Paths.StateDir, gone))
				return func() { w.Must(os.Rename(gone, w.Paths.StateDir)) }
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root {
				needsRoot(t)
			}
			w := prepare(t)
			lose := tt.prepare(t, w)
			w.start()
			first, err := w.operate(wire.Control{Verb: wire.VerbVerify})
			w.Must(err)
			w.judgeLoss(lose, first.Grant.Token)
		})
	}
}

// judgeLoss loses the disk and holds the broker to B3.
func (w *world) judgeLoss(lose func() (back func()), token string) {
	w.T.Helper()
	back := lose()
	tokens := w.promoteUntilRefused(token)
	if st := w.status(); st.Sessions[0].State != "UNVERIFIED" || st.Broker.StoreError+st.Broker.AuditError == "" {
		w.T.Fatalf("after the promotion failed: %+v %+v", st.Broker, st.Sessions)
	}
	w.expect("Write", "deny", "lease_unverified")
	w.expect("Read", "pass", "")
	if warned := w.revoke(); !strings.Contains(warned, "revoked in memory, but not durably recorded") {
		w.T.Errorf("the revocation says %q", warned)
	}
	w.expect("Write", "deny", "lease_revoked")
	if r, err := w.operate(wire.Control{Verb: wire.VerbApprove}); err == nil {
		w.T.Errorf("approved without a disk: %+v", r.Grant)
	}
	if out, err := w.Guard(w.Ctx(), "status"); err != nil || !strings.Contains(string(out), "nothing can be approved") {
		w.T.Errorf("guard status: %v\n%s", err, out)
	}
	w.stop()
	w.expect("Write", "deny", "broker_unavailable")

	back()
	w.Must(w.StartBroker(w.Ctx()))
	w.expect("Write", "deny", "lease_unverified")
	for _, token := range tokens {
		if _, err := w.operate(wire.Control{Verb: wire.VerbPromote, Token: token}); err == nil {
			w.T.Error("a token of before was accepted")
		}
	}
	if out, err := w.Guard(w.Ctx(), "audit", "verify"); err != nil {
		w.T.Errorf("the audit: %v\n%s", err, out)
	}
	w.approve()
	w.expect("Write", "pass", "")
}

// promoteUntilRefused promotes until the disk refuses: a page that was there
// already may take a few more.
func (w *world) promoteUntilRefused(token string) (tokens []string) {
	w.T.Helper()
	tokens = []string{token}
	for range 100 {
		if _, err := w.operate(wire.Control{Verb: wire.VerbPromote, Token: token}); err != nil {
			w.refusal(err)
			return tokens
		}
		r, err := w.operate(wire.Control{Verb: wire.VerbVerify})
		if err != nil {
			w.refusal(err)
			return tokens
		}
		token = r.Grant.Token
		tokens = append(tokens, token)
	}
	w.T.Fatal("the disk never refused: this test shows nothing")
	return nil
}

func (w *world) refusal(err error) {
	w.T.Helper()
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Code != "store_failed" || !strings.Contains(refused.Message, "guard broker restart") {
		w.T.Errorf("refused with %v, want store_failed and the remedy", err)
	}
}
