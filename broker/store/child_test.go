package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

// The test binary plays these roles when it is started again with childRole.
const (
	childRole = "GUARD_TEST_STORE_CHILD"
	childPath = "GUARD_TEST_STORE_PATH"
)

func child(role string) int {
	open := Open
	if role == "aside" {
		open = func(path string) (*Store, error) {
			s, _, err := OpenOrSetAside(path, testWall)
			return s, err
		}
	}
	s, err := open(os.Getenv(childPath))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	switch role {
	case "hold":
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "consume":
		return consumeForEver(s)
	case "full":
		return fillUp(s)
	case "once":
		return consumeOnce(s)
	case "passphrase":
		return replaceOnce(s)
	}
	return 0
}

// consumeForEver says after each step what is on disk by then.
func consumeForEver(s *Store) int {
	for n := range byte(255) {
		if err := s.PutToken(context.Background(), testToken(n)); err != nil {
			fmt.Println("error", err)
			return 1
		}
		fmt.Println("minted", n)
		if _, err := s.ConsumeToken(context.Background(), at(testToken(n), 1)); err != nil {
			fmt.Println("error", err)
			return 1
		}
		fmt.Println("consumed", n)
	}
	return 0
}

// consumeOnce reports what one use of token 1 gave, and what the store then says.
func consumeOnce(s *Store) int {
	_, err := s.ConsumeToken(context.Background(), at(testToken(1), 1))
	_, again := s.ConsumeToken(context.Background(), at(testToken(1), 1))
	fmt.Printf("use=%t sticky=%t again=%t closed=%t\n", err == nil, s.Err() != nil, again == nil, s.Close() == nil)
	return 0
}

// fillUp meets a file that can't grow any more.
func fillUp(s *Store) int {
	info, err := os.Stat(s.path)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	limit := unix.Rlimit{Cur: uint64(info.Size()) + 8192, Max: uint64(info.Size()) + 8192}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println("error", err)
		return 1
	}
	for i := range 10_000 {
		tok := testToken(byte(i))
		tok.Hash[2] = byte(i >> 8)
		err := s.PutToken(context.Background(), tok)
		if err == nil {
			fmt.Println("minted", i)
			continue
		}
		_, consume := s.ConsumeToken(context.Background(), at(testToken(0), 1))
		_, lookFound, look := s.LookupToken(testToken(0).Hash)
		fmt.Printf("full sticky=%t consume=%t read=%t put=%t\n",
			errors.Is(consume, s.Err()), consume == nil, look == nil && lookFound, s.PutToken(context.Background(), tok) == nil)
		return 0
	}
	fmt.Println("error: never full")
	return 1
}

type process struct {
	cmd *exec.Cmd
	out *bufio.Scanner
	in  io.WriteCloser
}

func startChild(t *testing.T, role, path string, env ...string) *process {
	t.Helper()
	cmd := command(role, path, env...)
	in, out := testproc.Piped(t, cmd)
	p := &process{cmd, bufio.NewScanner(out), in}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.kill(t)
		}
	})
	return p
}

func (p *process) expect(t *testing.T, want string) {
	t.Helper()
	if !p.out.Scan() || p.out.Text() != want {
		t.Fatalf("child said %q, want %q", p.out.Text(), want)
	}
}

// kill sends SIGKILL and reaps.
func (p *process) kill(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}
