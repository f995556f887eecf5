// Package gate is guard-gate: a pipe between an agent's host and guard-broker. It reads the payload to its end, makes
// sure that the socket is the broker's, sends the bytes as they came and writes stdout, stderr and status of the reply,
// or becomes the program that runs policy hooks if that is the reply. It parses no payload, takes nothing from the
// environment, which a project may have chosen, and links only syscall: all else would be paid for at each call.
//
// Role decide: whatever goes wrong is one deny: JSON on stdout, the reason on stderr, status 2. Status 0 has one source,
// a whole reply of the authenticated broker; others don't exist (a Go crash exits 2 by itself). Role observe never
// disturbs the host: after one retry inside 2 s it exits 0 and says nothing.
package gate

import "syscall"

const (
	peerPidfd, pidfdSignal                           = 77, 424 // SO_PEERPIDFD and pidfd_send_signal, for which syscall has no names
	roleDecide, roleObserve, kindAnswer              = 1, 2, 3 // of internal/wire, and so is the next line
	hostCodex, lineFD, kindHooks, endMark, maxOutput = 2, 200, 5, ".end", 64 << 10
	exitDeny, ticksPerSecond                         = 2, 100 // what every host takes for a deny; times(2), a clock that nobody can set
)

// Main runs the gate and ends the process.
func Main() { syscall.Exit(run(ask)) }

// run takes ask as an argument for the test that puts a panic in its place.
func run(ask func(call, []byte) (reply, string)) (status int) {
	c, failure := commandLine()
	defer func() {
		if recover() != nil {
			status = refuse(c, reason("internal", "asking the broker at", c.socket, "guard-gate panicked", "repeat the call"))
		}
	}()
	// Read even if the answer is known: a host that gets EPIPE lets the tool run.
	frame, e := readPayload(c)
	if failure = max(failure, broken("reading the payload for", c, e)); failure != "" {
		return refuse(c, failure)
	}
	c.end = min(c.end, now()+map[byte]int64{roleDecide: 570, roleObserve: 2}[c.role]*ticksPerSecond)
	r, failure := ask(c, frame)
	if failure != "" && c.role == roleObserve { // its loss could hide a lost context
		_, _ = syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 200_000})
		r, failure = ask(c, frame)
	}
	if failure != "" {
		return refuse(c, failure)
	}
	// A pass that the host didn't get whole is a deny: half an object is no opinion.
	var out syscall.Stat_t // Go puts the null device in the place of a closed stdout
	if e, _ := max(write(1, r.out), write(2, r.err)), syscall.Fstat(1, &out); r.exit == 0 && (e != 0 || len(r.out) > 0 && out.Rdev == 1<<8|3) {
		return refuse(c, broken("writing out the answer of", c, max(e, syscall.EBADF)))
	}
	return r.exit
}

// refuse is the gate's own answer. No reason holds a byte that JSON escapes.
func refuse(c call, reason string) int {
	if c.role == roleObserve {
		return 0
	}
	_, _ = write(1, []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"`+reason+`"}}`)), write(2, []byte(reason+"\n"))
	return exitDeny
}

func write(fd int, b []byte) (e syscall.Errno) {
	for n, err := 0, error(nil); len(b) > 0 && e == 0; b = b[max(n, 0):] {
		n, err = syscall.Write(fd, b)
		e, _ = err.(syscall.Errno) //nolint:errorlint // syscall wraps none
	}
	return e
}

// call is what the hook's entry says.
type call struct {
	host, role        byte
	socket            string
	uid, seconds, end int64 // of the broker; of the deadline; when that is, in ticks
}

// commandLine reads the arguments where they are without package os. A wrong entry is shown, whatever role it was to have.
func commandLine() (call, string) {
	line := make([]byte, 4096)
	fd, _ := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	n, _ := syscall.Read(fd, line)
	if c, ok := parse(line[:max(n, 0)]); ok && n < len(line) {
		c.end = now() + c.seconds*ticksPerSecond
		return c, ""
	}
	return call{role: roleDecide, end: now() + 150*ticksPerSecond}, reason("malformed", "reading the command line",
		string(line[:max(n, 0)]), "an argument is unknown, missing, repeated or out of range", "fix the hook entry: guard-gate claude|codex|pi --socket PATH --broker-uid N --role decide|observe [--deadline 1..570]")
}

// parse takes NUL-terminated arguments: the program, the host, then options.
func parse(line []byte) (c call, ok bool) {
	c.uid, c.seconds = -1, 150
	n, from, option := 0, 0, ""
	for i := range line {
		if line[i] != 0 {
			continue
		}
		arg := string(line[from:i])
		switch n, from = n+1, i+1; {
		case n == 2:
			c.host = map[string]byte{"claude": 1, "codex": hostCodex, "pi": 3}[arg]
		case n%2 == 1:
			option = arg
		case option == "--socket" && c.socket == "":
			c.socket = arg
		case option == "--broker-uid" && c.uid < 0 && arg != "":
			c.uid = number(arg, 1<<32-2)
		case option == "--role" && c.role == 0 && (arg == "decide" || arg == "observe"):
			c.role = map[string]byte{"decide": roleDecide, "observe": roleObserve}[arg]
		case option == "--deadline" && c.seconds == 150:
			c.seconds = number(arg, 570)
		default:
			return c, false
		}
	}
	return c, n%2 == 0 && c.host > 0 && c.socket != "" && c.uid >= 0 && c.role > 0 && c.seconds > 0
}

// number reads plain decimal digits up to high; all else is -1.
func number(s string, high int64) (n int64) {
	for _, ch := range []byte(s) {
		if n = n*10 + int64(ch-'0'); ch < '0' || ch > '9' || n > high {
			return -1
		}
	}
	return n
}
