package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
)

func TestReuse(t *testing.T) {
	const reuse = time.Minute
	again := func(r *Request) { r.Targets[0].Reuse = reuse }
	tests := map[string]struct {
		wait   time.Duration
		change func(*Request, *Service, *fakeZVM)
		reused bool
		code   verdict.Code
	}{
		"young":              {10 * time.Second, func(r *Request, _ *Service, _ *fakeZVM) { again(r) }, true, ""},
		"not allowed":        {10 * time.Second, func(*Request, *Service, *fakeZVM) {}, false, ""},
		"too old":            {reuse, func(r *Request, _ *Service, _ *fakeZVM) { again(r) }, false, ""},
		"lease was lowered":  {10 * time.Second, func(r *Request, _ *Service, _ *fakeZVM) { again(r); r.Lowered++ }, false, ""},
		"other session":      {10 * time.Second, func(r *Request, _ *Service, _ *fakeZVM) { again(r); r.Session = "s2" }, false, ""},
		"session forgotten":  {10 * time.Second, func(r *Request, s *Service, _ *fakeZVM) { again(r); s.Forget("s1") }, false, ""},
		"other forgotten":    {10 * time.Second, func(r *Request, s *Service, _ *fakeZVM) { again(r); s.Forget("s2") }, true, ""},
		"journal is empty":   {10 * time.Second, func(r *Request, _ *Service, f *fakeZVM) { again(r); f.edit = none }, false, verdict.CheckpointGone},
		"tag was moved":      {10 * time.Second, func(r *Request, _ *Service, f *fakeZVM) { again(r); f.edit = moved }, false, verdict.CheckpointGone},
		"tag was renamed":    {10 * time.Second, func(r *Request, _ *Service, f *fakeZVM) { again(r); f.edit = renamed }, false, verdict.CheckpointGone},
		"list fails once":    {10 * time.Second, func(r *Request, _ *Service, f *fakeZVM) { again(r); f.onList = failNext(f) }, false, ""},
		"stricter companion": {10 * time.Second, func(r *Request, _ *Service, _ *fakeZVM) { again(r); r.Targets = append(r.Targets, target("db-01")) }, false, ""},
		"status fell": {10 * time.Second, func(r *Request, _ *Service, f *fakeZVM) { again(r); f.vpg.Status = zerto.Enum{Name: "Moving"} },
			false, verdict.CheckpointFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(vm("app-01", "v"), vm("db-01", "v"))
			inBubble(t, f, func(t *testing.T, s *Service) {
				req := ask("s1", "app-01")
				first, err := s.Ensure(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.wait)
				f.mu.Lock()
				tt.change(&req, s, f)
				f.mu.Unlock()
				infos, err := s.Ensure(t.Context(), req)
				if tt.code != "" {
					refusedAs(t, err, tt.code)
					f.mu.Lock()
					f.edit = nil // what has gone isn't asked for again
					f.mu.Unlock()
					f.vpg.Status = zerto.Enum{Name: "MeetingSLA"}
					infos, err = s.Ensure(t.Context(), req)
				}
				if err != nil {
					t.Fatal(err)
				}
				reused := tt.reused || tt.code == verdict.CheckpointFailed
				if infos[0].Reused != reused || (infos[0].Tag == first[0].Tag) != reused {
					t.Errorf("%+v after %+v", infos[0], first[0])
				}
			})
		})
	}
}

func target(name string) catalog.Target { return catalog.Target{Name: name, Kind: catalog.ByName} }

func none([]zerto.Checkpoint) []zerto.Checkpoint { return nil }

func moved(list []zerto.Checkpoint) []zerto.Checkpoint {
	for i := range list {
		list[i].ID += "0"
	}
	return list
}

func renamed(list []zerto.Checkpoint) []zerto.Checkpoint {
	for i := range list {
		list[i].Tag += "x"
	}
	return list
}

func failNext(f *fakeZVM) func(context.Context, int) error {
	from := len(f.lists)
	return func(_ context.Context, n int) error {
		if n == from {
			return errors.New("no list")
		}
		return nil
	}
}

func TestForgetWaitsForNothing(t *testing.T) {
	f := newFake(vm("app-01", "v"))
	f.nowWait = time.Hour
	inBubble(t, f, func(t *testing.T, s *Service) {
		go func() { _, _ = s.Ensure(t.Context(), ask("s1", "app-01")) }()
		synctest.Wait()
		from := time.Now()
		s.Forget("s1")
		if time.Since(from) != 0 {
			t.Error("it waited for the ZVM")
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	f := newFake()
	inBubble(t, f, func(t *testing.T, s *Service) {
		for i := range 3 * maxEntries {
			s.memory.put(Request{Session: fmt.Sprint(i % 1000)}, &group{id: fmt.Sprint(i)}, 1)
			s.machines.put(target(fmt.Sprint(i)), nil)
			if i > 10 && i%97 != 0 {
				continue
			}
			s.memory.drop(fmt.Sprint(i%1000), fmt.Sprint(i))
			kept := 0
			for _, m := range s.memory.all {
				kept += len(m)
			}
			if kept != s.memory.n || kept > maxEntries || len(s.machines.all) > maxCache {
				t.Fatalf("%d entries, counted %d; %d look-ups", kept, s.memory.n, len(s.machines.all))
			}
		}
		for i := range 1000 {
			s.memory.forget(fmt.Sprint(i))
		}
		if s.memory.n != 0 {
			t.Errorf("%d entries after all sessions are forgotten", s.memory.n)
		}
	})
}
