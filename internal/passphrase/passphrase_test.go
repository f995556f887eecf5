package passphrase

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leaseguard.internal/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const right = "correct horse battery"

// light is a hash of the right passphrase that is made quickly.
func light() Hash {
	h := Hash{memory: minMemory, passes: 1, lanes: 1, salt: [saltLen]byte{1}}
	h.key = h.derive(right)
	return h
}

func TestAcceptable(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		good       bool
	}{
		{"empty", "", false},
		{"seven characters", "1234567", false},
		{"seven characters of many bytes", strings.Repeat("€", 7), false},
		{"eight characters", "12345678", true},
		{"eight characters of many bytes", strings.Repeat("€", 8), true},
		{"blanks count", "a b c d ", true},
		{"longest", strings.Repeat("x", MaxBytes), true},
		{"too long", strings.Repeat("x", MaxBytes+1), false},
		{"no UTF-8", "12345678\xff", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := Acceptable(tt.text); (err == nil) != tt.good {
				t.Errorf("Acceptable = %v", err)
			}
		})
	}
}

// TestHash: a new hash fits its passphrase and no other, is salted, and comes
// back from its text.
func TestHash(t *testing.T) {
	c := NewChecker(clock.NewFake(0, time.Time{}))
	h, err := c.Make(context.Background(), right)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Make(context.Background(), right)
	if err != nil || again.salt == h.salt || again.key == h.key {
		t.Errorf("two hashes of one passphrase are the same, or %v", err)
	}
	back, err := Parse(h.PHC())
	if err != nil || back != h {
		t.Fatalf("Parse(PHC) = %v", err)
	}
	for _, text := range []string{"", right + " ", right[1:], strings.ToUpper(right), strings.Repeat("x", 1<<20)} {
		if light().fits(text) {
			t.Errorf("%.30q fits", text)
		}
	}
	if !back.fits(right) || (Hash{}).fits("") {
		t.Error("the passphrase doesn't fit, or nothing fits the zero hash")
	}
	if _, err := c.Make(context.Background(), "short"); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("Make of a short one: %v", err)
	}
}

// TestHashStaysSecret: neither a hash nor a passphrase gets into a text.
func TestHashStaysSecret(t *testing.T) {
	h := light()
	secret := strings.Split(h.PHC(), "$")[5]
	for _, text := range []string{
		fmt.Sprint(h), fmt.Sprintf("%v %+v %#v %s %q %x", h, h, h, h, h, h), fmt.Sprintf("%v %+v", struct{ H Hash }{h}, []Hash{h}),
	} {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", h.key)) || !strings.Contains(text, "kept secret") && !strings.ContainsAny(text, "0123456789abcdef") {
			t.Errorf("a hash prints as %s", text)
		}
	}
	_, err := Parse(strings.Replace(h.PHC(), "m=", "m=9", 1))
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("Parse says %v", err)
	}
}

func TestParse(t *testing.T) {
	good := light().PHC()
	f := strings.Split(good, "$")
	with := func(i int, text string) string {
		g := append([]string{}, f...)
		g[i] = text
		return strings.Join(g, "$")
	}
	if _, err := Parse(good); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":                    "",
		"another algorithm":        with(1, "argon2i"),
		"another version":          with(2, "v=16"),
		"no version":               strings.Replace(good, "$v=19", "", 1),
		"something before":         "x" + good,
		"something behind":         good + "$",
		"too little memory":        with(3, "m=1,t=1,p=1"),
		"gigabytes":                with(3, "m=4194304,t=1,p=1"),
		"just too much":            with(3, "m=47105,t=1,p=1"),
		"beyond the type":          with(3, "m=4294974464,t=1,p=1"), // 2^32 + 7168
		"no pass":                  with(3, "m=7168,t=0,p=1"),
		"hours":                    with(3, "m=7168,t=4294967295,p=1"),
		"no lane":                  with(3, "m=7168,t=1,p=0"),
		"lanes beyond the type":    with(3, "m=7168,t=1,p=257"),
		"signs":                    with(3, "m=+7168,t=1,p=1"),
		"leading zero":             with(3, "m=07168,t=1,p=1"),
		"another order":            with(3, "t=1,m=7168,p=1"),
		"twice":                    with(3, "m=7168,m=7168,p=1"),
		"a fourth":                 with(3, "m=7168,t=1,p=1,keyid=1"),
		"blank":                    with(3, "m=7168, t=1,p=1"),
		"short salt":               with(4, f[4][:21]),
		"short key":                with(5, f[5][:42]),
		"no key":                   with(5, ""),
		"padded":                   with(5, f[5]+"="),
		"line feed":                with(5, f[5]+"\n"),
		"line feed inside":         with(4, f[4][:4]+"\n"+f[4][4:]),
		"another alphabet":         with(5, "_"+f[5][1:]),
		"stray last bits":          with(5, f[5][:42]+"9"),
		"very long":                good + strings.Repeat("A", 1<<20),
		"many parts":               strings.Repeat("$", 150),
		"a passphrase, not a hash": right,
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Parse(text)
			if !errors.Is(err, ErrMalformed) || h != (Hash{}) {
				t.Errorf("Parse = %v, want ErrMalformed and no hash", err)
			}
		})
	}
}

// TestKnownAnswer: the hash that the argon2 reference's own command line wrote
// for "password" is read and fits.
func TestKnownAnswer(t *testing.T) {
	h, err := Parse("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$K13EBUiG7JV+9ZxztmHFTdb7J0WQsnj2V8bZaqyPptE")
	if err != nil || !h.fits("password") || h.fits("Password") {
		t.Errorf("Parse = %v, or it fits another passphrase", err)
	}
}

// TestDelays: a few wrong ones are free, then the wait grows to its bound; the
// right one within it isn't looked at, and after it ends it all.
func TestDelays(t *testing.T) {
	now := clock.NewFake(clock.Instant(time.Hour), time.Time{})
	c, h, ctx := NewChecker(now), light(), context.Background()
	for i, want := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 30, 30} {
		if err := c.Check(ctx, h, "wrong"); !errors.Is(err, ErrWrong) {
			t.Fatalf("failure %d: %v", i+1, err)
		}
		if want *= time.Second; want > 0 {
			var delay *DelayError
			if err := c.Check(ctx, h, right); !errors.As(err, &delay) || delay.Left != want || delay.Failures != i+1 {
				t.Fatalf("after failure %d: %v, want %s", i+1, err, want)
			}
			now.Advance(want - time.Nanosecond)
			if err := c.Check(ctx, h, right); !errors.As(err, &delay) || delay.Left != time.Second {
				t.Fatalf("just before the end: %v", err)
			}
			now.Advance(time.Nanosecond)
		}
	}
	for _, try := range []struct {
		text string
		want error
	}{{right, nil}, {"wrong", ErrWrong}, {right, nil}} {
		if err := c.Check(ctx, h, try.text); !errors.Is(err, try.want) {
			t.Errorf("after the right one: %v, want %v", err, try.want)
		}
	}
}

// TestManyAtOnce: however many ask, one computes; those behind the failures
// aren't computed at all.
func TestManyAtOnce(t *testing.T) {
	c, h := NewChecker(clock.NewFake(0, time.Time{})), light()
	answers := make(chan error, 64)
	for range cap(answers) {
		go func() { answers <- c.Check(context.Background(), h, "wrong") }()
	}
	wrong := 0
	for range cap(answers) {
		switch err := <-answers; {
		case errors.Is(err, ErrWrong):
			wrong++
		case !errors.As(err, new(*DelayError)):
			t.Errorf("Check = %v", err)
		}
	}
	if wrong != freeFailures+1 {
		t.Errorf("%d were computed, want %d", wrong, freeFailures+1)
	}
}

// TestTurnEndsWithContext: who waits for a turn can leave.
func TestTurnEndsWithContext(t *testing.T) {
	c := NewChecker(clock.NewFake(0, time.Time{}))
	if err := c.take(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Check(ctx, light(), right); !errors.Is(err, context.Canceled) {
		t.Errorf("Check = %v", err)
	}
	if _, err := c.Make(ctx, right); !errors.Is(err, context.Canceled) {
		t.Errorf("Make = %v", err)
	}
}

// TestMemoryIsGivenBack: after a check next to nothing of its memory is held,
// neither in use nor kept for later.
func TestMemoryIsGivenBack(t *testing.T) {
	c, ctx := NewChecker(clock.NewFake(0, time.Time{})), context.Background()
	h, err := c.Make(ctx, right)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(ctx, h, right); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if held := m.HeapSys - m.HeapReleased; held > newMemory<<10/2 {
		t.Errorf("%d KiB of heap are held after the checks, of which each took %d", held>>10, newMemory)
	}
}

// FuzzParse: whatever is read is written back byte for byte, and its parameters
// are within the bounds.
func FuzzParse(f *testing.F) {
	good := Hash{memory: newMemory, passes: newPasses, lanes: newLanes}.PHC()
	for _, text := range []string{good, "", "$argon2id$v=19$m=19456,t=2,p=1$$", strings.Replace(good, "t=2", "t=02", 1), good + "\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || h != (Hash{}) {
				t.Errorf("Parse = %v, %v", h, err)
			}
			return
		}
		if h.PHC() != text || h.memory < minMemory || h.memory > maxMemory || h.passes < minPasses || h.passes > maxPasses || h.lanes < 1 || h.lanes > maxLanes {
			t.Errorf("%q is read as %q", text, h.PHC())
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	c, ctx := NewChecker(clock.System{}), context.Background()
	h, err := c.Make(ctx, right)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := c.Check(ctx, h, right); err != nil {
			b.Fatal(err)
		}
	}
}
