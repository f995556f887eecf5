package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"leaseguard.internal/internal/verdict"
)

// value is a value as the file has it.
type value struct {
	kind unstable.Kind
	text string   // of a scalar; of a string what it means
	list []value  // of an array; of an inline table its values
	keys []string // of an inline table; "" of one with dots
}

func newValue(n *unstable.Node) value {
	v := value{kind: n.Kind}
	switch n.Kind {
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			v.list = append(v.list, newValue(it.Node()))
		}
	case unstable.InlineTable:
		for it := n.Children(); it.Next(); {
			key := it.Node().Key()
			key.Next()
			name := string(key.Node().Data)
			if key.Next() {
				name = "" // no plain key
			}
			v.keys, v.list = append(v.keys, name), append(v.list, newValue(it.Node().Value()))
		}
	default:
		v.text = string(n.Data)
	}
	return v
}

// String shows a value in an error, bounded and on one line.
func (v value) String() string {
	switch v.kind {
	case unstable.String:
		return verdict.Object(v.text)
	case unstable.Array:
		return fmt.Sprintf("a list of %d", len(v.list))
	case unstable.InlineTable:
		return fmt.Sprintf("a table of %d", len(v.list))
	default:
		return verdict.Cut(verdict.Clean(v.text), 40)
	}
}

func (v value) str() (string, error) {
	if v.kind != unstable.String {
		return "", fmt.Errorf("want a string, got %v; write it in double quotes", v)
	}
	if v.text == "" {
		return "", errors.New("the string is empty; give a value or remove the key")
	}
	if strings.ContainsRune(v.text, 0) {
		return "", fmt.Errorf("%v contains a NUL character; remove it", v)
	}
	return v.text, nil
}

func (v value) bool() (bool, error) {
	if v.kind != unstable.Bool {
		return false, fmt.Errorf("want true or false, got %v; write it without quotes", v)
	}
	return v.text == "true", nil
}

func (v value) integer(low, high int) (int, error) {
	if v.kind != unstable.Integer {
		return 0, fmt.Errorf("want a whole number, got %v; write %d to %d without quotes", v, low, high)
	}
	n, err := strconv.ParseInt(v.text, 0, 32) // base 0: as TOML, with 0x and 1_000
	if err != nil || int(n) < low || int(n) > high {
		return 0, fmt.Errorf("%v is out of range; write %d to %d", v, low, high)
	}
	return int(n), nil
}

// strings reads a list of distinct strings.
func (v value) strings() ([]string, error) {
	if v.kind != unstable.Array {
		return nil, fmt.Errorf(`want a list of strings, got %v; write it as ["a", "b"]`, v)
	}
	list := make([]string, 0, len(v.list))
	seen := make(map[string]bool, len(v.list))
	for _, e := range v.list {
		s, err := e.str()
		if err != nil {
			return nil, fmt.Errorf("in the list: %w", err)
		}
		if seen[s] {
			return nil, fmt.Errorf("%v is in the list twice; remove one", e)
		}
		seen[s] = true
		list = append(list, s)
	}
	return list, nil
}

const day = 24 * time.Hour

func (v value) duration(low, high time.Duration) (time.Duration, error) {
	if v.kind != unstable.String {
		return 0, fmt.Errorf(`want a duration in quotes, got %v; write a number and a unit such as "300s", "5m" or "90d"`, v)
	}
	d, err := parseDuration(v.text)
	if err != nil {
		return 0, fmt.Errorf(`%v is no duration; write a number and a unit such as "300s", "5m" or "90d"`, v)
	}
	if d < low || d > high {
		return 0, fmt.Errorf(`%v is out of range; write "%s" to "%s"`, v, showDuration(low), showDuration(high))
	}
	return d, nil
}

// parseDuration reads what time.ParseDuration reads, and whole days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16) // at most 179 years, which fit
		return time.Duration(n) * day, err
	}
	return time.ParseDuration(s)
}

func showDuration(d time.Duration) string {
	switch {
	case d > day && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d > 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

func (v value) size(low, high int64) (int64, error) {
	if v.kind != unstable.String {
		return 0, fmt.Errorf(`want a size in quotes, got %v; write a whole number and a unit such as "16MiB" or "2GiB"`, v)
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(v.text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 {
			break
		}
		if n > high/u.bytes || n*u.bytes < low {
			return 0, fmt.Errorf(`%v is out of range; write "%s" to "%s"`, v, showSize(low), showSize(high))
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf(`%v is no size; write a whole number and one of the units B, KiB, MiB, GiB, TiB, such as "16MiB"`, v)
}

func showSize(n int64) string {
	for _, u := range units {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
