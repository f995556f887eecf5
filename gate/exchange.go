package gate

import "syscall"

var buffer [20 + 2*maxOutput + len(endMark) + 1]byte // from the heap it would cost a twentieth more per call

// ask is the exchange: one connection, one request, one reply.
func ask(c call, frame []byte) (r reply, failure string) {
	if failure = checkSocket(c); failure != "" {
		return r, failure
	}
	fd, _ := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0) // without one, do fails
	_, e := do(fd, syscall.SO_SNDTIMEO, c.end, func() (int, error) { return 0, syscall.Connect(fd, &syscall.SockaddrUnix{Name: c.socket}) })
	if e != 0 {
		return r, broken("connecting to", c, e)
	}
	defer func() { _ = syscall.Close(fd) }()
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil || peer.Uid != 0 && int64(peer.Uid) != c.uid {
		return r, reason("broker_untrusted", "checking who listens at", c.socket, "its uid is neither 0 nor "+digits(c.uid, 10), "guard broker restart")
	}
	for n := 0; len(frame) > 0 && e == 0; frame = frame[n:] {
		n, e = do(fd, syscall.SO_SNDTIMEO, c.end, func() (int, error) { return syscall.Write(fd, frame) })
	}
	for n, got, want := 0, 0, 20; n < want && e == 0; n += got {
		got, e = do(fd, syscall.SO_RCVTIMEO, c.end, func() (int, error) { return syscall.Read(fd, buffer[n:]) })
		if r, want = parseReply(buffer[:], n+got, c.role); e == 0 && (got == 0 || want < 0) {
			e = syscall.EPROTO
		}
	}
	if e == 0 && r.hooks {
		return r, broken("starting guard hooks run for", c, max(runHooks(fd), syscall.EPERM))
	}
	return r, broken("asking", c, e)
}

// runHooks becomes guard hooks run, which stands beside this program: it gets the connection as descriptor 3, no
// environment, line or group of ours, asks what to run, and answers the host. It returns on failure alone.
func runHooks(conn int) syscall.Errno {
	dir := make([]byte, 4096)
	n, err := syscall.Readlink("/proc/self/exe", dir)
	for n > 0 && dir[n-1] != '/' {
		n--
	}
	if group := syscall.Getgid(); err == nil && group != syscall.Getegid() {
		err = syscall.Setresgid(group, group, group)
	}
	if err == nil {
		err = syscall.Dup3(conn, 3, 0)
	}
	_ = syscall.Close(lineFD) // most gates have none
	if err == nil {
		err = syscall.Exec(string(dir[:n])+"guard", []string{"guard", "hooks", "run"}, nil) // #nosec G204 -- of our own directory
	}
	e, _ := err.(syscall.Errno) //nolint:errorlint // syscall wraps none
	return e
}

type reply struct {
	exit     int
	hooks    bool // run policy hooks
	out, err []byte
}

// parseReply looks at the n bytes that have come and says how many it takes; -1: it is no reply. A refusal must say
// why, on both outputs, or a host would let the tool run; an observer is never refused.
func parseReply(b []byte, n int, role byte) (r reply, want int) {
	size := func(at int) int { return int(b[at])<<24 | int(b[at+1])<<16 | int(b[at+2])<<8 | int(b[at+3]) }
	out, err, exit, hooks := size(12), size(16), int(b[6]), b[5] == kindHooks
	want = 20 + out + err + len(endMark)
	switch {
	case n < 20:
		return r, 20
	case string(b[:5]) != "LGr1\x01" || b[5] != kindAnswer && (!hooks || role != roleDecide || out+err+exit != 0) || string(b[7:12]) != "\x00\x00\x00\x00\x00" || out > maxOutput || err > maxOutput,
		exit != 0 && (exit != exitDeny || role != roleDecide || out == 0 || err == 0),
		n > want || n == want && string(b[want-len(endMark):want]) != endMark:
		return r, -1
	case n < want:
		return r, want
	}
	return reply{exit, hooks, b[20 : 20+out], b[20+out : 20+out+err]}, want
}

// readPayload returns the request's frame. Of what is over the cap, which is read and dropped, the broker gets a flag.
func readPayload(c call) (frame []byte, e syscall.Errno) {
	chunk := buffer[:64<<10]
	frame = append(make([]byte, 0, 4096), 'L', 'G', 'q', '1', 1, 1, c.host, c.role, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for n := 1; n > 0 && e == 0; {
		n, e = do(0, 0, c.end, func() (int, error) { return syscall.Read(0, chunk) })
		if frame = append(frame, chunk[:n]...); frame[8] != 0 || len(frame) > 20+16<<20 {
			frame, frame[8] = frame[:20], 2 // wire.FlagOversize
		}
	}
	// Who made the socketpair (Codex has pipes: its line), if Linux from 6.5 on doesn't say that it has lost its number. The broker compares.
	made := map[byte]int{hostCodex: lineFD}[c.host]
	peer, err := syscall.GetsockoptUcred(made, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	pidfd, no := syscall.GetsockoptInt(made, syscall.SOL_SOCKET, peerPidfd)
	_, _, gone := syscall.RawSyscall6(pidfdSignal, uintptr(pidfd), 0, 0, 0, 0, 0)
	if err == nil && (no == nil && (gone == 0 || gone == syscall.EPERM) || no == syscall.ENOPROTOOPT) {
		copy(frame[9:12], []byte{byte(peer.Pid >> 16 & 0xff), byte(peer.Pid >> 8 & 0xff), byte(peer.Pid & 0xff)})
	}
	size := len(frame) - 20
	copy(frame[16:20], []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size & 0xff)})
	return append(frame, endMark...), e
}

func now() int64 { n, _ := syscall.Times(&syscall.Tms{}); return int64(n) } //nolint:gosec // ticks since boot: no 63 bits

// do runs one operation on stdin or a socket within the deadline.
func do(fd, option int, end int64, op func() (int, error)) (int, syscall.Errno) {
	for {
		tv := syscall.NsecToTimeval((end - now()) * (1e9 / ticksPerSecond))
		if tv.Sec < 0 || tv.Sec == 0 && tv.Usec <= 0 {
			return 0, syscall.ETIMEDOUT
		}
		n, ready, err := 0, 1, error(nil)
		if fd == 0 {
			ready, err = syscall.Select(1, &syscall.FdSet{Bits: [16]int64{1}}, nil, nil, &tv)
		} else {
			err = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &tv)
		}
		if ready > 0 && err == nil {
			n, err = op()
		}
		if e, _ := err.(syscall.Errno); ready != 0 && e != syscall.EINTR && e != syscall.EAGAIN { //nolint:errorlint // syscall wraps none
			return max(n, 0), e
		}
	}
}

// checkSocket makes sure that nobody but root and the broker's uid can have put the socket there: each directory on the
// way is no link, belongs to one of them and can be written by nobody else, sticky ones of root's excepted.
func checkSocket(c call) string {
	if c.socket[0] != '/' || len(c.socket) > 107 { // sun_path: a cut-off path may be somebody else's
		return reason("broker_unavailable", "checking socket path", c.socket, "it has "+digits(int64(len(c.socket)), 10)+" bytes; it must be absolute and have at most 107", "set XDG_RUNTIME_DIR to a shorter path, then guard broker restart")
	}
	for i, last := len(c.socket)-1, true; i >= 0; i-- {
		if c.socket[i] != '/' {
			continue
		}
		st, dir := syscall.Stat_t{}, c.socket[:max(i, 1)]
		if err := syscall.Lstat(dir, &st); err != nil {
			return reason("broker_unavailable", "finding directory", dir, err.Error(), "guard broker start")
		}
		perm, uid := st.Mode&0o777, int64(st.Uid)
		open := perm&0o022 != 0 && (uid != 0 || st.Mode&syscall.S_ISVTX == 0)
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || uid != 0 && uid != c.uid || open || last && perm != 0o700 && perm != 0o755 {
			return reason("broker_untrusted", "checking directory", dir, "a link, or others than root and uid "+digits(c.uid, 10)+" can change it: owner "+digits(uid, 10)+", mode "+digits(int64(st.Mode), 8), "set XDG_RUNTIME_DIR to a directory of mode 0700 of that uid, then guard broker restart")
		}
		last = false
	}
	return ""
}

// reason follows verdict.Reason: one line of ASCII below 1,000 bytes. All but the object is ours or an errno's text.
func reason(code, what, object, cause, next string) string {
	clean := []byte(object[:min(len(object), 150)])
	for i, ch := range clean {
		if ch < ' ' || ch > '~' || ch == '"' || ch == '\'' || ch == '\\' {
			clean[i] = map[bool]byte{true: ' ', false: '?'}[ch == 0] // NULs part arguments
		}
	}
	return "guard: " + code + ": " + what + " '" + string(clean) + "': " + cause + ". Next: " + next
}

// broken says why an exchange ended; it is empty if it didn't.
func broken(what string, c call, e syscall.Errno) string {
	if e == 0 {
		return ""
	}
	if e == syscall.ETIMEDOUT {
		return reason("deadline", what+" the broker at", c.socket, "not done within "+digits(c.seconds, 10)+" s", "guard status, then repeat the call")
	}
	return reason("broker_unavailable", what+" the broker at", c.socket, e.Error(), "guard broker start")
}

func digits(n, base int64) (s string) {
	for ; n > 0 || s == ""; n /= base {
		s = "0123456789"[n%base:n%base+1] + s
	}
	return s
}
