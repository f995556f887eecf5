package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/zerto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubbleClock tells the time of a synctest bubble.
type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() clock.Instant { return clock.Instant(time.Since(c.start)) + 1 }
func (c bubbleClock) Wall() time.Time    { return time.Now() }

// post is an insert that reached the fake.
type post struct {
	vpg, tag string
	at       time.Time
}

// fakeZVM is a ZVM in memory, for what needs exact times. Its answers can be
// replaced one by one.
type fakeZVM struct {
	rows    []zerto.VM
	vpg     zerto.VPG
	skew    time.Duration
	nowWait time.Duration
	visible time.Duration // from insert to tag; negative: never
	delay   time.Duration // of every list

	onInsert func(ctx context.Context, n int) error // before the nth insert, from 0, is answered
	onList   func(ctx context.Context, n int) error // before the nth list is answered
	onTask   func(posted time.Duration) (zerto.Task, error)
	edit     func([]zerto.Checkpoint) []zerto.Checkpoint

	mu    sync.Mutex
	posts []post
	lists []time.Time
}

func vm(name, vpg string) zerto.VM {
	return zerto.VM{
		ID: "id-" + name, Name: name, VPGID: vpg, VPGName: vpg,
		Protected: zerto.Enum{Name: "VCVpg", Raw: "0"}, Site: zerto.SiteRef{ID: "s", Type: "LocalSiteApi"},
	}
}

func newFake(rows ...zerto.VM) *fakeZVM {
	return &fakeZVM{rows: rows, visible: 3 * time.Second, vpg: zerto.VPG{
		Status: zerto.Enum{Name: "MeetingSLA", Raw: "1"}, SubStatus: zerto.Enum{Name: "None", Raw: "0"},
	}}
}

func (f *fakeZVM) VMs(_ context.Context, q zerto.Query) ([]zerto.VM, error) {
	return slices.DeleteFunc(slices.Clone(f.rows), func(vm zerto.VM) bool { return vm.Name != q.Name && vm.ID != q.Identifier }), nil
}

func (f *fakeZVM) VPG(_ context.Context, id string) (zerto.VPG, error) {
	g := f.vpg
	g.ID, g.Name = id, id
	return g, nil
}

func (f *fakeZVM) Site(context.Context, zerto.SiteRef) (zerto.Site, error) {
	return zerto.Site{Name: "HQ", Type: "VCenter"}, nil
}

func (f *fakeZVM) Now(ctx context.Context) (time.Time, error) {
	now := time.Now()
	return now.Add(f.skew), clock.Sleep(ctx, f.nowWait)
}

func (f *fakeZVM) InsertCheckpoint(ctx context.Context, vpg, tag string) (string, error) {
	f.mu.Lock()
	n := len(f.posts)
	f.posts = append(f.posts, post{vpg, tag, time.Now()})
	f.mu.Unlock()
	if f.onInsert != nil {
		if err := f.onInsert(ctx, n); err != nil {
			return "", err
		}
	}
	return "task-" + tag, nil
}

func (f *fakeZVM) Task(_ context.Context, id string) (zerto.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.posts {
		if "task-"+p.tag == id && f.onTask != nil {
			return f.onTask(time.Since(p.at))
		}
	}
	return zerto.Task{State: zerto.Enum{Name: "InProgress", Raw: "1"}}, nil
}

func (f *fakeZVM) Checkpoints(ctx context.Context, vpg string, since time.Time) ([]zerto.Checkpoint, error) {
	list, n := f.list(vpg, since)
	if f.onList != nil {
		if err := f.onList(ctx, n); err != nil {
			return nil, err
		}
	}
	return list, clock.Sleep(ctx, f.delay)
}

func (f *fakeZVM) list(vpg string, since time.Time) (list []zerto.Checkpoint, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = len(f.lists)
	f.lists = append(f.lists, time.Now())
	for i, p := range f.posts {
		at := p.at.Add(f.visible)
		stamp := at.Add(f.skew).Truncate(time.Second)
		if p.vpg == vpg && f.visible >= 0 && !at.After(time.Now()) && !stamp.Before(since) {
			list = append(list, zerto.Checkpoint{ID: fmt.Sprint(i + 1), Tag: p.tag, Time: stamp})
		}
	}
	if f.edit != nil {
		list = f.edit(list)
	}
	return list, n
}

func (f *fakeZVM) inserted() []post {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.posts)
}

// inBubble runs test with a service of its own, in a time that passes at once.
func inBubble(t *testing.T, f *fakeZVM, test func(t *testing.T, s *Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(f, bubbleClock{time.Now()}, Options{AcceptStatus: []string{"MeetingSLA"}, Timeout: 140 * time.Second})
		defer s.Close()
		test(t, s)
	})
}

// lanesOf counts the VPGs with an insert in flight, once everything waits.
func lanesOf(s *Service) int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes)
}

func ask(session string, names ...string) Request {
	req := Request{Session: session, Call: "call-1"}
	for _, name := range names {
		req.Targets = append(req.Targets, catalog.Target{Name: name, Kind: catalog.ByName})
	}
	return req
}
