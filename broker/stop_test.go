package broker

import (
	"context"
	"net"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// Peers that say half a request, or take no answer, don't hold up the end, and
// every record is on disk then. All their own deadlines are longer than the wait
// here is.
func TestStopWithHungConnections(t *testing.T) {
	f := newFixture(t, nil)
	f.verified()
	hold := make(chan struct{}) // for ever: the checkpoint never comes
	f.zvm.set(hold, nil)
	payload := []byte(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Write","tool_input":{}}`)
	whole := wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: payload})
	var conns []net.Conn
	for range 8 {
		for _, n := range []int{0, 3, len(whole) - 5} {
			conn := f.dial()
			_, err := conn.Write(whole[:n])
			f.must(err)
			conns = append(conns, conn)
		}
	}
	waiting := f.dial()
	_, err := waiting.Write(whole)
	f.must(err)
	conns = append(conns, waiting)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		conn, err := peer.Dial(ctx, f.opt.Paths.OperatorSocket, f.opt.UID)
		cancel()
		f.must(err)
		conns = append(conns, conn)
	}
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	f.eventually("the call waits for its checkpoint", func() bool { return f.zvm.asked() == 1 })
	ended := make(chan struct{})
	go func() { f.stop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Fatal("the broker doesn't end")
	}
	reply, err := wire.ReadReply(waiting, wire.MaxOutput)
	if err == nil && reply.Exit == 0 {
		t.Errorf("a call that was under way passes: %s", reply.Out)
	}
	var last audit.Record
	f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error { last = r; return nil }))
	if last.Event != audit.EventBroker || last.Code != "stopped" {
		t.Errorf("the last record is %s %s", last.Event, last.Code)
	}
	report, err := audit.Verify(f.opt.Paths.AuditDir, nil)
	if err != nil || report.Fault != nil || report.Unfinished != 0 {
		t.Errorf("the audit: %+v, %v", report, err)
	}
}
