package hookrun

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// mute mounts a file system that takes every question and answers none: who asks it
// can't even be killed. Any user may have one where fusermount is installed; the
// test needs to be root.
func mute(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ended := make(chan struct{})
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	if err := unix.Mount("mute", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())); err != nil {
		_ = dev.Close()
		t.Skip("mounting: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err == nil { // whoever waits is let go
			<-ended
		}
		_ = dev.Close()
	})
	const opInit = 26
	ready := make(chan struct{})
	go func() {
		defer close(ended)
		asked := make([]byte, 1<<20)
		for first := true; ; first = false {
			n, err := unix.Read(int(dev.Fd()), asked)
			if err != nil {
				return
			}
			if !first || n < 56 || binary.NativeEndian.Uint32(asked[4:]) != opInit {
				continue
			}
			answer := make([]byte, 16+64)
			binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
			copy(answer[8:16], asked[8:16])
			binary.NativeEndian.PutUint32(answer[16:], 7)
			binary.NativeEndian.PutUint32(answer[20:], 31)
			binary.NativeEndian.PutUint32(answer[36:], 4096) // the longest write
			_, _ = unix.Write(int(dev.Fd()), answer)
			close(ready)
		}
	}()
	<-ready
	return dir
}

// TestAFileSystemThatNeverAnswers: a hook that can't be killed any more, and a file
// of one that can't be opened, deny in time. A host that loses patience with the
// runner would run the tool.
func TestAFileSystemThatNeverAnswers(t *testing.T) {
	t.Parallel()
	hung := script(t, "cat "+filepath.Join(mute(t), "x"))
	hung.TimeoutMS = 300
	direct := trusted(t, wire.Hook{ID: "cat", Command: "/bin/cat", Args: []string{"." + filepath.Join(mute(t), "x")}, TimeoutMS: 300})
	lost := script(t, "exit 0")
	lost.TimeoutMS = 300
	lost.Command, lost.Files[0].Stamp = filepath.Join(mute(t), "hook"), "" // as of whom its user can change
	for name, h := range map[string]wire.Hook{"a child of the hook": hung, "the hook": direct, "its file": lost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.send(wire.HookJob{Hooks: []wire.Hook{h}, TotalMS: 3000, AnswerMS: 60_000}, line)
			if name != "its file" { // there the broker has lost patience
				want(t, r.results()[0], wire.HookFailed)
			}
			if status := r.answer(wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{1}"), Err: []byte("no")}); status != exitDeny {
				t.Errorf("status %d, %q", status, r.err.String())
			}
		})
	}
}
