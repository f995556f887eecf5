package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func benchRecord() Record {
	return Record{
		Event: EventVerdict, Session: "0123456789abcdef", Generation: 1, Cycle: 1, State: "VERIFIED", Runtime: "claude",
		CallerPID: 4711, CallerExe: "/usr/local/bin/guard-gate", HostSession: "6b1f", ToolUse: "toolu_01", HookEvent: "PreToolUse",
		Tool: "Bash", Class: "mutator", Verdict: "pass", Code: "checkpoint_confirmed", Targets: []string{"app-01"},
		InputSHA256: zeroHash,
	}
}

// BenchmarkAppend is one durable record per operation; compare it with
// BenchmarkRaw, which appends and syncs as many bytes without a chain.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			w := open(b, Options{})
			var wg sync.WaitGroup
			b.ResetTimer()
			for i := range writers {
				wg.Go(func() {
					for range share(b.N, writers, i) {
						if _, err := w.Append(context.Background(), benchRecord()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkRaw(b *testing.B) {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	body, err := encode(benchRecord())
	if err != nil {
		b.Fatal(err)
	}
	line := seal(nil, body, 1, zeroHash)
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
}

// share splits n operations among writers.
func share(n, writers, i int) int {
	s := n / writers
	if i < n%writers {
		s++
	}
	return s
}
