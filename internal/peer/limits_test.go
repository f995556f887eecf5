package peer

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLimits: what the kernel says of this process, also once it was lowered.
func TestLimits(t *testing.T) {
	p, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	was, err := p.Limits()
	if err != nil {
		t.Fatal(err)
	}
	for i, resource := range []int{unix.RLIMIT_NPROC, unix.RLIMIT_NOFILE, unix.RLIMIT_STACK, unix.RLIMIT_AS, unix.RLIMIT_DATA} {
		var want unix.Rlimit
		if err := unix.Getrlimit(resource, &want); err != nil || was[i] != want.Cur {
			t.Errorf("%s is %d, %v; want %d", limitNames[i], was[i], err, want.Cur)
		}
		now := was
		now[i]--
		if got := now.Below(was); got != limitNames[i] || was.Below(now) != "" {
			t.Errorf("with one less of %s, %q is below", limitNames[i], got)
		}
	}
}

func TestParseLimits(t *testing.T) {
	const text = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max data size             unlimited            unlimited            bytes     \n" +
		"Max stack size            8388608              unlimited            bytes     \n" +
		"Max processes             63711                63711                processes \n" +
		"Max open files            1024                 524288               files     \n" +
		"Max address space         unlimited            unlimited            bytes     \n"
	if l, err := parseLimits(text); err != nil || l != (Limits{63711, 1024, 8388608, math.MaxUint64, math.MaxUint64}) {
		t.Errorf("got %v, %v", l, err)
	}
	for _, bad := range []string{"", "\nMax processes ", "\nMax processes x 1\n", text[:len(text)-100]} {
		if l, err := parseLimits(bad); err == nil {
			t.Errorf("%q gives %v", bad, l)
		}
	}
}
