package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary plays these roles when it is started again with childRole.
const (
	childRole = "GUARD_TEST_AUDIT_CHILD"
	childDir  = "GUARD_TEST_AUDIT_DIR"
)

// child appends records and says after each what is on disk by then.
func child(role string) {
	w, err := Open(Options{Dir: os.Getenv(childDir), SegmentSize: 3000, Max: 60_000,
		OnHead: func(h Head) error { return nil }})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	if role == "full" {
		limit := unix.Rlimit{Cur: 1500, Max: 1500}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println("error", err)
			return
		}
	}
	for range 200 {
		w.Log(Record{Event: EventVerdict, Tool: "log"})
		h, err := w.Append(context.Background(), Record{Event: EventVerdict, Tool: "append"})
		if err != nil {
			_, again := w.Append(context.Background(), Record{})
			fmt.Printf("failed sticky=%t\n", errors.Is(again, w.Err()) && w.Err() != nil)
			return
		}
		fmt.Println("head", h.Seq, h.Hash)
	}
}

func command(role, dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childRole+"="+role, childDir+"="+dir), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// assertKept holds the last head that a dead child reported against its files:
// the next writer goes on after it, and the chain is good.
func assertKept(t *testing.T, dir string, last *Head) {
	t.Helper()
	w := open(t, Options{Dir: dir, Stored: last})
	if w.Fault() != "" {
		t.Errorf("restart: %s", w.Fault())
	}
	head := appendN(t, w, 1)
	closeWriter(t, w)
	r := verify(t, dir, last)
	if r.Fault != nil || last != nil && !r.HeadChecked || r.Head != head {
		t.Errorf("Verify = %+v, fault %v, head %+v", r, r.Fault, head)
	}
}

// lastHead reads the child's report.
func lastHead(out *bufio.Scanner, lines int) (last *Head, rest string) {
	for i := 0; i < lines && out.Scan(); i++ {
		var h Head
		if _, err := fmt.Sscanf(out.Text(), "head %d %s", &h.Seq, &h.Hash); err == nil {
			last = &h
		} else {
			rest = out.Text()
		}
	}
	return last, rest
}

func TestKilledAnywhere(t *testing.T) {
	for _, lines := range []int{0, 1, 2, 9, 60, 150} {
		t.Run(fmt.Sprintf("after %d records", lines), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			cmd := command("append", dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			last, _ := lastHead(bufio.NewScanner(out), lines)
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
			assertKept(t, dir, last)
		})
	}
}

// The disk is full from some record on (RLIMIT_FSIZE): the writer stays failed,
// what was acknowledged stays, and the half line is cut at the next start.
func TestB3_DiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	out, err := command("full", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	last, rest := lastHead(bufio.NewScanner(strings.NewReader(string(out))), 1000)
	if rest != "failed sticky=true" {
		t.Fatalf("child said %q", out)
	}
	if r := verify(t, dir, last); r.Unfinished == 0 {
		t.Errorf("no half line: the test didn't meet the limit: %+v", r)
	}
	assertKept(t, dir, last)
}
