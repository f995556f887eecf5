package checkpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
)

// refusedAs returns the refusal behind err, of which it checks the code.
func refusedAs(t *testing.T, err error, code verdict.Code) Refusal {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Code != code {
		t.Fatalf("error %v, want a refusal of code %s", err, code)
	}
	if r.Object == "" || r.Cause == "" || r.Next == "" {
		t.Fatalf("refusal %+v says too little", r)
	}
	return *r
}

func TestConfirmed(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	inBubble(t, f, func(t *testing.T, s *Service) {
		infos, err := s.Ensure(t.Context(), ask("s1", "app-01"))
		if err != nil || len(infos) != 1 {
			t.Fatalf("%+v, %v", infos, err)
		}
		got, p := infos[0], f.inserted()[0]
		if got.VM != "app-01" || got.VPG != "v" || got.VPGID != "v" || got.Tag != p.tag || got.ID != "1" || got.Reused || got.Time.Before(p.at.Truncate(time.Second)) {
			t.Errorf("%+v of %+v", got, p)
		}
		if !strings.HasPrefix(p.tag, "guard:call-1:") || len(p.tag) > 80 {
			t.Errorf("tag %q", p.tag)
		}
		if n := lanesOf(s); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
	})
}

// TestAddedTimeIsOnePoll holds that whatever the ZVM takes, what we add between
// a visible tag and its confirmation is at most one step of the poll.
func TestAddedTimeIsOnePoll(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		f := newFake(vm("app-01", "v"))
		f.visible = time.Duration(random.Int64N(int64(4900 * time.Millisecond)))
		f.delay = time.Duration(random.Int64N(int64(1500 * time.Millisecond)))
		inBubble(t, f, func(t *testing.T, s *Service) {
			from := time.Now()
			if _, err := s.Ensure(t.Context(), ask("s1", "app-01")); err != nil {
				t.Fatal(err)
			}
			if added := time.Since(from) - f.visible - f.delay; added < 0 || added > defaultPace.fast {
				t.Errorf("visible after %v, list takes %v: %v are added", f.visible, f.delay, added)
			}
		})
	}
}

func TestPollSlowsDown(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	f.visible = -1
	inBubble(t, f, func(t *testing.T, s *Service) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := s.Ensure(ctx, ask("s1", "app-01"))
		refusedAs(t, err, verdict.CheckpointTimeout)
		s.Close()
		fast, slow := 0, 0
		for i := 1; i < len(f.lists); i++ {
			switch f.lists[i].Sub(f.lists[i-1]) {
			case 100 * time.Millisecond:
				fast++
			case 500 * time.Millisecond:
				slow++
			default:
				t.Errorf("read %d comes after %v", i, f.lists[i].Sub(f.lists[i-1]))
			}
		}
		if fast != 50 || slow < 28 || slow > 30 {
			t.Errorf("%d fast and %d slow reads in 20 s", fast, slow)
		}
	})
}

func TestWhatEndsTheWatch(t *testing.T) {
	unknown := &zerto.Error{Op: "inserting", Status: 500, Message: "no", Unknown: true}
	tests := map[string]struct {
		change func(f *fakeZVM)
		code   verdict.Code // "": confirmed
		within time.Duration
		cause  string
	}{
		"task fails": {func(f *fakeZVM) {
			f.visible = -1
			f.onTask = func(d time.Duration) (zerto.Task, error) {
				if d < 2*time.Second {
					return zerto.Task{State: zerto.Enum{Name: "InProgress"}}, nil
				}
				return zerto.Task{State: zerto.Enum{Name: "Failed"}, Reason: "no\nmarker"}, nil
			}
		}, verdict.CheckpointFailed, 3 * time.Second, `no\nmarker`},
		"task is cancelled": {func(f *fakeZVM) { f.visible = -1; f.onTask = state("Cancelling") }, verdict.CheckpointFailed, time.Second, "Cancelling"},
		"task completes, no tag": {func(f *fakeZVM) { f.visible = -1; f.onTask = state("Completed") },
			verdict.CheckpointFailed, 17 * time.Second, "reports its task as completed"},
		"task completes, tag follows": {func(f *fakeZVM) { f.visible = 12 * time.Second; f.onTask = state("Completed") }, "", 13 * time.Second, ""},
		"task state is unknown":       {func(f *fakeZVM) { f.onTask = state("") }, "", 4 * time.Second, ""},
		"task is gone, tag follows":   {func(f *fakeZVM) { f.visible = 10 * time.Second; f.onTask = taskError(404) }, "", 11 * time.Second, ""},
		"task is gone, no tag": {func(f *fakeZVM) { f.visible = -1; f.onTask = taskError(404) },
			verdict.CheckpointFailed, 17 * time.Second, "no longer knows the task"},
		"task can't be read": {func(f *fakeZVM) { f.onTask = taskError(401) }, "", 4 * time.Second, ""},
		"insert is refused": {func(f *fakeZVM) { f.onInsert = fails(&zerto.Error{Status: 400, Message: "bad"}) },
			verdict.CheckpointFailed, time.Second, "bad"},
		"insert is forbidden": {func(f *fakeZVM) { f.onInsert = fails(&zerto.Error{Status: 403}) }, verdict.CheckpointFailed, time.Second, "403"},
		"insert wasn't sent": {func(f *fakeZVM) { f.visible = -1; f.onInsert = fails(&zerto.Error{Err: errors.New("no route")}) },
			verdict.CheckpointFailed, time.Second, "no route"},
		"outcome unknown, tag follows": {func(f *fakeZVM) { f.onInsert = fails(unknown) }, "", 4 * time.Second, ""},
		"outcome unknown, no tag": {func(f *fakeZVM) { f.visible = -1; f.onInsert = fails(unknown) },
			verdict.CheckpointFailed, 16 * time.Second, `the ZVM answered 500 "no"`},
		"answer never comes, tag does": {func(f *fakeZVM) {
			f.onInsert = func(ctx context.Context, _ int) error { return clock.Sleep(ctx, time.Hour) }
		}, "", 4 * time.Second, ""},
		"list fails for a while": {func(f *fakeZVM) {
			f.onList = func(_ context.Context, n int) error {
				if n < 35 {
					return &zerto.Error{Status: 503}
				}
				return nil
			}
		}, "", 4 * time.Second, ""},
		"list is unauthorized": {func(f *fakeZVM) { f.onList = fails(&zerto.Error{Op: "listing", Status: 401}) },
			verdict.CheckpointFailed, time.Second, "refuses guard's credential"},
		"vpg has gone": {func(f *fakeZVM) { f.onList = fails(&zerto.Error{Op: "listing", Status: 404}) }, verdict.CheckpointFailed, time.Second, "404"},
		"first read hangs": {func(f *fakeZVM) {
			f.onList = func(ctx context.Context, n int) error {
				if n == 0 {
					return clock.Sleep(ctx, time.Minute)
				}
				return nil
			}
		}, "", 4 * time.Second, ""},
		"everything hangs": {func(f *fakeZVM) { f.delay = time.Hour }, verdict.CheckpointTimeout, 140 * time.Second, "in time"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(vm("app-01", "v"))
			tt.change(f)
			inBubble(t, f, func(t *testing.T, s *Service) {
				from := time.Now()
				_, err := s.Ensure(t.Context(), ask("s1", "app-01"))
				if took := time.Since(from); took > tt.within {
					t.Errorf("it took %v", took)
				}
				if n := len(f.inserted()); n != 1 {
					t.Errorf("%d inserts", n)
				}
				if tt.code == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if r := refusedAs(t, err, tt.code); !strings.Contains(r.Cause, tt.cause) {
					t.Errorf("cause %q, want %q in it", r.Cause, tt.cause)
				}
			})
		})
	}
}

func state(name string) func(time.Duration) (zerto.Task, error) {
	return func(time.Duration) (zerto.Task, error) { return zerto.Task{State: zerto.Enum{Name: name}}, nil }
}

func taskError(status int) func(time.Duration) (zerto.Task, error) {
	return func(time.Duration) (zerto.Task, error) { return zerto.Task{}, &zerto.Error{Status: status} }
}

func fails(err error) func(context.Context, int) error {
	return func(context.Context, int) error { return err }
}

// TestZ1_OnlyOurTagCounts has lists that show something like it.
func TestZ1_OnlyOurTagCounts(t *testing.T) {
	each := func(change func(*zerto.Checkpoint)) func([]zerto.Checkpoint) []zerto.Checkpoint {
		return func(list []zerto.Checkpoint) []zerto.Checkpoint {
			for i := range list {
				change(&list[i])
			}
			return list
		}
	}
	tests := map[string]func([]zerto.Checkpoint) []zerto.Checkpoint{
		"prefix":         each(func(c *zerto.Checkpoint) { c.Tag = c.Tag[:len(c.Tag)-1] }),
		"longer":         each(func(c *zerto.Checkpoint) { c.Tag += "0" }),
		"other case":     each(func(c *zerto.Checkpoint) { c.Tag = strings.ToUpper(c.Tag) }),
		"trailing blank": each(func(c *zerto.Checkpoint) { c.Tag += " " }),
		"other vpg":      each(func(c *zerto.Checkpoint) { c.VPGID = "w" }),
		"a second early": each(func(c *zerto.Checkpoint) { c.Time = c.Time.Add(-4 * time.Second) }),
		"a day early":    each(func(c *zerto.Checkpoint) { c.Time = c.Time.Add(-24 * time.Hour) }),
		"no tag":         each(func(c *zerto.Checkpoint) { c.Tag = "" }),
		"nothing":        func([]zerto.Checkpoint) []zerto.Checkpoint { return nil },
	}
	for name, edit := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(vm("app-01", "v"))
			f.edit = edit
			inBubble(t, f, func(t *testing.T, s *Service) {
				_, err := s.Ensure(t.Context(), ask("s1", "app-01"))
				refusedAs(t, err, verdict.CheckpointTimeout)
			})
		})
	}
}

// A ZVM whose clock is elsewhere is compared with itself.
func TestSkewedZVM(t *testing.T) {
	for _, skew := range []time.Duration{-48 * time.Hour, -700 * time.Millisecond, 700 * time.Millisecond, 48 * time.Hour} {
		for _, early := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
			f := newFake(vm("app-01", "v"))
			f.skew, f.visible = skew, 0 // the same whole second as the request
			inBubble(t, f, func(t *testing.T, s *Service) {
				time.Sleep(early)
				if _, err := s.Ensure(t.Context(), ask("s1", "app-01")); err != nil {
					t.Errorf("skew %v: %v", skew, err)
				}
			})
		}
	}
}

// TestReadsAreBounded has a list that never answers.
func TestReadsAreBounded(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	f.delay = time.Hour
	inBubble(t, f, func(t *testing.T, s *Service) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := s.Ensure(ctx, ask("s1", "app-01"))
		refusedAs(t, err, verdict.CheckpointTimeout)
		s.Close()
		if len(f.lists) != defaultPace.reads {
			t.Errorf("%d reads are under way", len(f.lists))
		}
	})
}

func TestCloseEndsWhatIsInFlight(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	f.visible = -1
	inBubble(t, f, func(t *testing.T, s *Service) {
		errs := make(chan error, 3)
		for range 3 { // one in flight, two that share the next
			go func() {
				_, err := s.Ensure(t.Context(), ask("s1", "app-01"))
				errs <- err
			}()
			time.Sleep(time.Second)
		}
		s.Close()
		for range 3 {
			refusedAs(t, <-errs, verdict.CheckpointFailed)
		}
		_, err := s.Ensure(t.Context(), ask("s1", "app-01"))
		refusedAs(t, err, verdict.CheckpointFailed)
		if n := len(f.inserted()); n != 1 {
			t.Errorf("%d inserts", n)
		}
		synctest.Wait()
	})
}

func TestTagIsAlwaysValid(t *testing.T) {
	for _, call := range []string{"", "toolu_01", "../../x", "a b\n", "ä", strings.Repeat("k", 4000), "\xff"} {
		tag := newTag(call)
		if len(tag) > 80 || strings.Trim(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:-") != "" {
			t.Errorf("tag %q of call %q", tag, call)
		}
		if newTag(call) == tag {
			t.Error("two tags are the same")
		}
	}
}
