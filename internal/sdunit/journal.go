package sdunit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"leaseguard.internal/internal/clock"
)

// journalSocket is where journald takes entries.
const journalSocket = "/run/systemd/journal/socket"

const (
	journalQueue = 1024                   // entries that wait for journald
	journalTime  = 200 * time.Millisecond // how long one may wait for its turn
	journalRetry = 10 * time.Second       // how long a journald that didn't answer is left alone
	maxField     = 8 << 10                // bytes of one field
)

// Priorities of entries, as syslog numbers them.
const (
	Alert   = 1
	Warning = 4
	Notice  = 5
	Info    = 6
)

// Entry is one line of the journal. Fields are given as pairs of name and value;
// an empty value is left out.
type Entry struct {
	Priority int
	Message  string
	Fields   []string
}

// Journal hands entries to journald. It is best effort and never in the way: an
// entry that finds no room, or no journald, is dropped and counted, and all that
// it tells of is in the audit. One that journald takes and throws away is beyond
// what can be counted. A nil Journal takes nothing.
type Journal struct {
	path  string
	queue chan Entry
	lost  atomic.Uint64
	conn  *net.UnixConn // the sending goroutine's own
}

// NewJournal returns a journal, whose Run has to be started. Where there is no
// journald, and always says that none is expected, it is nil.
func NewJournal(always bool) *Journal {
	if _, err := os.Stat(journalSocket); errors.Is(err, fs.ErrNotExist) && !always {
		return nil
	}
	return JournalAt(journalSocket)
}

// JournalAt returns a journal that sends to another socket than journald's own.
func JournalAt(path string) *Journal {
	return &Journal{path: path, queue: make(chan Entry, journalQueue)}
}

// Log takes an entry without waiting.
func (j *Journal) Log(e Entry) {
	if j == nil {
		return
	}
	select {
	case j.queue <- e:
	default:
		j.lost.Add(1)
	}
}

// Lost is how many entries were dropped.
func (j *Journal) Lost() uint64 {
	if j == nil {
		return 0
	}
	return j.lost.Load()
}

// Run sends entries until the end of ctx, then those that still wait, for a
// moment.
func (j *Journal) Run(ctx context.Context) {
	if j == nil {
		return
	}
	defer func() {
		if j.conn != nil {
			_ = j.conn.Close()
		}
	}()
	for {
		select {
		case e := <-j.queue:
			if err := j.send(e); err != nil {
				j.lost.Add(1)
				j.rest(ctx)
			}
		case <-ctx.Done():
			j.drain()
			return
		}
	}
}

// rest leaves a journald alone that didn't take an entry. What comes meanwhile
// waits, as far as there is room.
func (j *Journal) rest(ctx context.Context) { _ = clock.Sleep(ctx, journalRetry) }

// drain sends what waits, up to the first failure.
func (j *Journal) drain() {
	for {
		select {
		case e := <-j.queue:
			if err := j.send(e); err != nil {
				j.lost.Add(1 + uint64(len(j.queue)))
				return
			}
		default:
			return
		}
	}
}

// send writes one entry as one datagram. The socket is connected, so that the
// kernel wakes us when journald has made room.
func (j *Journal) send(e Entry) (err error) {
	if j.conn == nil {
		if j.conn, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: j.path, Net: "unixgram"}); err != nil {
			return fmt.Errorf("connecting to journald: %w", err)
		}
	}
	_ = j.conn.SetWriteDeadline(clock.Deadline(journalTime)) // fails only on a closed connection
	if _, err = j.conn.Write(encode(e)); err != nil {
		_ = j.conn.Close() // journald may have begun anew
		j.conn = nil
		return fmt.Errorf("writing to journald: %w", err)
	}
	return nil
}

// encode writes an entry in journald's own format. A value with a line feed goes
// by its length: nobody whose text is logged can add a field.
func encode(e Entry) []byte {
	var b []byte
	b = field(b, "PRIORITY", strconv.Itoa(e.Priority))
	b = field(b, "SYSLOG_IDENTIFIER", "guard-broker")
	b = field(b, "MESSAGE", e.Message)
	for i := 0; i+1 < len(e.Fields); i += 2 {
		b = field(b, e.Fields[i], e.Fields[i+1])
	}
	return b
}

func field(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	value = value[:min(len(value), maxField)]
	if !strings.Contains(value, "\n") {
		return append(append(append(append(b, name...), '='), value...), '\n')
	}
	b = append(append(b, name...), '\n')
	b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	return append(append(b, value...), '\n')
}
