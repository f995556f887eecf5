package checkpoint

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zerto"
)

// TestOneInFlightAndJoins has calls come at once and while one is in flight.
func TestOneInFlightAndJoins(t *testing.T) {
	f := newFake(vm("app-01", "v"), vm("db-01", "w"))
	inBubble(t, f, func(t *testing.T, s *Service) {
		var wg sync.WaitGroup
		call := func(session, name string) {
			wg.Go(func() {
				began := time.Now()
				infos, err := s.Ensure(t.Context(), ask(session, name))
				if err != nil || infos[0].Time.Before(began.Truncate(time.Second)) {
					t.Errorf("%s: %+v, %v, began %v", session, infos, err, began)
				}
			})
		}
		call("s1", "app-01") // sent at once
		time.Sleep(time.Second)
		call("s2", "app-01") // wait for it, and share the next
		time.Sleep(time.Second)
		call("s3", "app-01")
		call("s1", "app-01")
		call("s1", "db-01") // another VPG has its own
		wg.Wait()
		byVPG := map[string][]post{}
		for _, p := range f.inserted() {
			byVPG[p.vpg] = append(byVPG[p.vpg], p)
		}
		if len(byVPG["v"]) != 2 || len(byVPG["w"]) != 1 {
			t.Fatalf("inserts %+v", byVPG)
		}
		if gap := byVPG["v"][1].at.Sub(byVPG["v"][0].at); gap < f.visible {
			t.Errorf("the second insert was sent %v after the first", gap)
		}
	})
}

// TestNoJoinOnceSealed holds that a call which comes while an insert asks for
// the ZVM's time already needs the next one.
func TestNoJoinOnceSealed(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	f.nowWait = 10 * time.Second
	inBubble(t, f, func(t *testing.T, s *Service) {
		tags := make(chan string, 2)
		for range 2 {
			go func() {
				infos, err := s.Ensure(t.Context(), ask("s1", "app-01"))
				if err != nil {
					t.Error(err)
				}
				tags <- infos[0].Tag
			}()
			time.Sleep(5 * time.Second)
		}
		if first, second := <-tags, <-tags; first == second {
			t.Error("a call was handed a checkpoint whose request came before its own")
		}
	})
}

// TestJoinNeverOlderThanCall has calls at random times against a ZVM with
// random times, and holds the promise of doc.go for each.
func TestJoinNeverOlderThanCall(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := func(label string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(rt, label)) * time.Millisecond
		}
		f := newFake(vm("app-01", "v"))
		f.nowWait, f.visible, f.delay = ms("now", 900), ms("visible", 4000), ms("delay", 900)
		var waits, budgets []time.Duration
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			waits = append(waits, ms("wait", 3000))
			budgets = append(budgets, ms("budget", 20000)+time.Millisecond)
		}
		synctest.Test(t, func(t *testing.T) {
			s := New(f, bubbleClock{time.Now()}, Options{AcceptStatus: []string{"MeetingSLA"}, Timeout: 15 * time.Second})
			defer s.Close()
			var wg sync.WaitGroup
			for i, wait := range waits {
				time.Sleep(wait)
				wg.Go(func() { callOnce(t, f, s, i, budgets[i]) })
			}
			wg.Wait()
			time.Sleep(20 * time.Second)
			if n := lanesOf(s); n != 0 {
				t.Errorf("%d lanes are left", n)
			}
			posts := f.inserted()
			for i := 1; i < len(posts); i++ {
				if posts[i].at.Sub(posts[i-1].at) < f.visible {
					t.Errorf("inserts at %v and %v", posts[i-1].at, posts[i].at)
				}
			}
		})
	})
}

// callOnce makes one call with a budget and checks what it gets.
func callOnce(t *testing.T, f *fakeZVM, s *Service, i int, budget time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), budget)
	defer cancel()
	began := time.Now()
	infos, err := s.Ensure(ctx, ask(fmt.Sprint("s", i), "app-01"))
	if took := time.Since(began); took > budget {
		t.Errorf("a call with %v took %v", budget, took)
	}
	if err != nil {
		return // late, which others of these tests look at
	}
	for _, p := range f.inserted() {
		if p.tag == infos[0].Tag && p.at.Before(began) {
			t.Errorf("call %d of %v has the insert of %v", i, began, p.at)
		}
	}
}

func TestAbandonedInserts(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	f.visible = 10 * time.Second
	inBubble(t, f, func(t *testing.T, s *Service) {
		short := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			_, err := s.Ensure(ctx, ask("s1", "app-01"))
			refusedAs(t, err, verdict.CheckpointTimeout)
		}
		short(time.Second) // sent, and watched to its end
		short(time.Second) // waits behind it, and is never sent
		if n, lanes := len(f.inserted()), lanesOf(s); n != 1 || lanes != 1 {
			t.Fatalf("%d inserts, %d lanes", n, lanes)
		}
		from := time.Now()
		if _, err := s.Ensure(t.Context(), ask("s1", "app-01")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(from); took < 18*time.Second || len(f.inserted()) != 2 {
			t.Errorf("the next call took %v with %d inserts", took, len(f.inserted()))
		}
		synctest.Wait()
		f.nowWait = 3 * time.Second
		short(time.Second) // gives up before the insert is sent
		time.Sleep(5 * time.Second)
		if n, lanes := len(f.inserted()), lanesOf(s); n != 2 || lanes != 0 {
			t.Errorf("%d inserts, %d lanes", n, lanes)
		}
	})
}

func TestSpentBudgetSendsNothing(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	inBubble(t, f, func(t *testing.T, s *Service) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Ensure(ctx, ask("s1", "app-01"))
		refusedAs(t, err, verdict.CheckpointFailed)
		_, err = s.Ensure(t.Context(), ask("s1"))
		refusedAs(t, err, verdict.CheckpointFailed)
		synctest.Wait()
		if n := len(f.inserted()); n != 0 {
			t.Errorf("%d inserts", n)
		}
	})
}

// Several machines and VPGs of one call.
func TestGroups(t *testing.T) {
	f := newFake(vm("app-01", "v"), vm("db-01", "v"), vm("multi", "v"), vm("multi", "w"))
	inBubble(t, f, func(t *testing.T, s *Service) {
		infos, err := s.Ensure(t.Context(), ask("s1", "multi", "db-01", "app-01", "app-01"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		tags := map[string]string{}
		for _, i := range infos {
			got = append(got, i.VM+"@"+i.VPG)
			tags[i.VPG] = i.Tag
		}
		if fmt.Sprint(got) != "[app-01@v db-01@v multi@v multi@w]" || len(f.inserted()) != 2 || tags["v"] == tags["w"] {
			t.Errorf("%v with %d inserts", got, len(f.inserted()))
		}
	})
}

// An unknown machine beside known ones: those are protected all the same, since
// the operator may let the call pass.
func TestUnknownBesideKnown(t *testing.T) {
	f := newFake(vm("app-01", "v"), vm("twin", "v"), zerto.VM{ID: "other", Name: "twin", VPGID: "w", VPGName: "w"})
	inBubble(t, f, func(t *testing.T, s *Service) {
		infos, err := s.Ensure(t.Context(), ask("s1", "ghost", "app-01"))
		refusedAs(t, err, verdict.VMUnknown)
		if len(infos) != 1 || infos[0].VM != "app-01" {
			t.Errorf("%+v", infos)
		}
		// What denies comes first, and before any insert.
		infos, err = s.Ensure(t.Context(), ask("s1", "ghost", "app-01", "twin"))
		refusedAs(t, err, verdict.VMAmbiguous)
		if len(infos) != 0 || len(f.inserted()) != 1 {
			t.Errorf("%+v with %d inserts", infos, len(f.inserted()))
		}
	})
}

var _ interface {
	Ensure(context.Context, Request) ([]wire.CheckpointInfo, error)
	Forget(string)
	Close()
} = (*Service)(nil)
