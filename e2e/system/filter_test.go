//go:build system

package system

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"leaseguard.internal/packaging"
)

// This binary under the name confine is a launcher: confine FILTER PROGRAM ARGS…
// puts itself under a filter of system calls and becomes the program. What the
// filter refuses ends the program by SIGSYS, so that nothing refused goes by.
const confineName = "confine"

func confine(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: confine FILTER PROGRAM ARGS…")
	}
	raw, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw)/8)
	if _, err := binary.Decode(raw, binary.LittleEndian, filter); err != nil {
		return err
	}
	runtime.LockOSThread() // exec makes this thread the program's first
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("loading the filter: %w", errno)
	}
	return unix.Exec(args[1], args[1:], os.Environ())
}

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg2   = 32
)

var arches = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// unitFilter is what the service manager makes of the unit: its list of system
// calls, its address families, and no memory that can be written and run.
func unitFilter(t testing.TB) []byte {
	t.Helper()
	numbers := callNumbers(t)
	f := assembly{
		stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArch),
		jump(unix.BPF_JEQ, arches[runtime.GOARCH], 1, 0), trap,
		stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offNumber),
	}
	writeRun := uint32(unix.PROT_WRITE | unix.PROT_EXEC)
	for _, name := range allowedCalls(t) {
		number, known := numbers[name]
		if !known {
			continue // of another architecture
		}
		var body assembly
		switch name {
		case "socket":
			body = assembly{stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArg0)}
			for _, family := range addressFamilies(t) {
				body = append(body, jump(unix.BPF_JEQ, family, 0, 1), allow)
			}
			body = append(body, trap)
		case "mmap":
			body = assembly{stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArg2), stmt(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, writeRun),
				jump(unix.BPF_JEQ, writeRun, 0, 1), trap, allow}
		case "mprotect", "pkey_mprotect":
			body = assembly{stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArg2), jump(unix.BPF_JSET, unix.PROT_EXEC, 0, 1), trap, allow}
		default:
			body = assembly{allow}
		}
		f = append(f, jump(unix.BPF_JEQ, number, 0, uint8(len(body))))
		f = append(f, body...)
	}
	f = append(f, trap)
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, []unix.SockFilter(f)); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

type assembly []unix.SockFilter

var (
	allow = stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	trap  = stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_TRAP)
)

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, K: k, Jt: yes, Jf: no}
}

// allowedCalls expands the unit's SystemCallFilter as systemd does: the first line
// allows, lines with ~ take away.
func allowedCalls(t testing.TB) []string {
	t.Helper()
	allowed := map[string]bool{}
	for _, line := range values(packaging.BrokerService, "SystemCallFilter") {
		list, refuse := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(list) {
			for _, call := range expand(t, name) {
				if refuse {
					delete(allowed, call)
				} else {
					allowed[call] = true
				}
			}
		}
	}
	var names []string
	for name := range allowed {
		names = append(names, name)
	}
	if len(names) < 100 || allowed["setuid"] || allowed["io_uring_setup"] || !allowed["pidfd_open"] {
		t.Fatalf("the unit's filter was expanded to %d calls: %v", len(names), names)
	}
	return names
}

func expand(t testing.TB, name string) (calls []string) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	for line := range strings.Lines(run(t, "systemd-analyze", "syscall-filter", "--no-pager", name)) {
		entry := strings.TrimSpace(line)
		if !strings.HasPrefix(line, " ") || strings.HasPrefix(entry, "#") {
			continue
		}
		calls = append(calls, expand(t, entry)...)
	}
	return calls
}

var callConstant = regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s*=\s*(\d+)$`)

// callNumbers reads the numbers of system calls where x/sys has them for us.
func callNumbers(t testing.TB) map[string]uint32 {
	t.Helper()
	dir := strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys"))
	text, err := os.ReadFile(filepath.Join(dir, "unix", "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint32{}
	for _, m := range callConstant.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		numbers[strings.ToLower(m[1])] = uint32(n)
	}
	return numbers
}

func addressFamilies(t testing.TB) (families []uint32) {
	t.Helper()
	known := map[string]uint32{"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6}
	for _, name := range strings.Fields(values(packaging.BrokerService, "RestrictAddressFamilies")[0]) {
		family, ok := known[name]
		if !ok {
			t.Fatalf("the unit allows %s, which the broker doesn't need", name)
		}
		families = append(families, family)
	}
	return families
}

// The filter does refuse: a program that needs a call that the unit doesn't
// allow ends by it.
func TestFilterRefuses(t *testing.T) {
	bare(t)
	filter, launcher := installFilter(t)
	for _, tc := range []struct {
		name string
		argv []string
		ends bool
	}{
		{"allowed", []string{"/bin/true"}, true},
		{"setpriority", []string{"/usr/bin/nice", "-n", "5", "/bin/true"}, false},
		{"chown", []string{"/bin/chown", "0", filter}, false},
		{"unshare", []string{"/usr/bin/unshare", "--mount", "/bin/true"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := exec.Command(launcher, append([]string{filter}, tc.argv...)...).CombinedOutput()
			if refused := err != nil && strings.Contains(err.Error(), "bad system call"); refused == tc.ends || (err == nil) != tc.ends {
				t.Errorf("%q: %v %s", tc.argv, err, out)
			}
		})
	}
}

// installFilter puts the filter, and this binary as confine, where every user
// can read them.
func installFilter(t testing.TB) (filter, launcher string) {
	t.Helper()
	filter, launcher = filepath.Join(filepath.Dir(programs), "filter"), filepath.Join(filepath.Dir(programs), confineName)
	if err := os.WriteFile(filter, unitFilter(t), 0o644); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(launcher); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(launcher, self, 0o755); err != nil {
		t.Fatal(err)
	}
	return filter, launcher
}
