package zvmsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"leaseguard.internal/internal/strictjson"
)

// Preset returns a behaviour by name: "default" (the times that are documented
// or likely), "slow" (their upper ends, always) or "fast" (no delays, a tag
// within 50 ms; for tests).
func Preset(name string) (Behaviour, error) {
	b := Behaviour{Settings: Settings{TokenLife: Span(time.Minute)}}
	ms := func(low, high int) Range {
		return Range{time.Duration(low) * time.Millisecond, time.Duration(high) * time.Millisecond}
	}
	switch name {
	case "", "default":
		b.Latency = Latency{
			OpToken: ms(100, 300), OpVMs: ms(150, 500), OpVPGs: ms(100, 300), OpSites: ms(50, 100),
			OpList: ms(50, 200), OpInsert: ms(100, 400), OpTask: ms(30, 100),
			Done: ms(2000, 3000), Visible: ms(-500, 2000), Fail: ms(5000, 20000),
		}
	case "slow":
		b.Latency = Latency{
			OpToken: ms(300, 300), OpVMs: ms(500, 500), OpVPGs: ms(300, 300), OpSites: ms(100, 100),
			OpList: ms(200, 200), OpInsert: ms(400, 400), OpTask: ms(100, 100),
			Done: ms(3000, 3000), Visible: ms(2000, 2000), Fail: ms(20000, 20000),
		}
	case "fast":
		b.Latency = Latency{Done: ms(30, 30), Visible: ms(20, 20), Fail: ms(50, 50)}
	default:
		return Behaviour{}, fmt.Errorf("speed %q isn't known: want default, slow or fast", name)
	}
	return b.clone(), nil
}

// Flags are the values of a command's behaviour flags, as they were typed.
type Flags struct {
	Speed    string   // --speed default|slow|fast
	Latency  []string // --latency token=200ms,insert=100ms..300ms,visible=1s
	Faults   []string // --fault VPG=no_tag | VPG=status:2,tag_on:OTHER | '*=refused,code:503'
	Variants []string // --variant VPG-AWS=b (a: no tag, b: task fails, c: POST refused)
	Settings []string // --setting token_life=5s,camel_case,filters=ignore
	Answers  []string // --answer '{"op":"task","status":401,"times":1}'
}

// Parse makes a behaviour of flags.
func (f Flags) Parse() (Behaviour, error) {
	b, err := Preset(f.Speed)
	if err != nil {
		return Behaviour{}, fmt.Errorf("--speed: %w", err)
	}
	steps := []struct {
		flag   string
		values []string
		apply  func(*Behaviour, string) error
	}{
		{"--latency", f.Latency, addLatency},
		{"--setting", f.Settings, addSettings},
		{"--fault", f.Faults, addFaults},
		{"--variant", f.Variants, addVariant},
		{"--answer", f.Answers, addAnswer},
	}
	for _, step := range steps {
		for _, v := range step.values {
			if err := step.apply(&b, v); err != nil {
				return Behaviour{}, fmt.Errorf("%s %q: %w", step.flag, v, err)
			}
		}
	}
	return b, b.check()
}

func addLatency(b *Behaviour, text string) error {
	for _, item := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(item, "=")
		var r Range
		if err := r.UnmarshalText([]byte(value)); err != nil {
			return err
		}
		b.Latency[key] = r
	}
	return b.Latency.check()
}

// addSettings reads key=value pairs by way of the settings' JSON form; a bare
// key is true.
func addSettings(b *Behaviour, text string) error {
	for _, item := range strings.Split(text, ",") {
		key, value, set := strings.Cut(item, "=")
		if !slices.Contains(settingKeys, key) {
			return fmt.Errorf("setting %q isn't known: want one of %s", key, strings.Join(settingKeys, ", "))
		}
		raw := jsontext.Value(strconv.Quote(value))
		if !set {
			raw = jsontext.Value("true")
		} else if value == "true" || value == "false" {
			raw = jsontext.Value(value)
		}
		if err := decodeInto(map[string]jsontext.Value{key: raw}, &b.Settings); err != nil {
			return err
		}
	}
	return b.Settings.check()
}

func addFaults(b *Behaviour, text string) error {
	vpg, list, ok := strings.Cut(text, "=")
	if !ok || vpg == "" {
		return fmt.Errorf("want VPG=fault, such as VPG-LOCAL=no_tag")
	}
	f := b.Faults[vpg]
	for _, item := range strings.Split(list, ",") {
		key, value, set := strings.Cut(item, ":")
		switch {
		case !set && key == "omit_status":
			f.OmitStatus = true
		case !set && key == "halted":
			f.Halted = true
		case !set && key == "testing":
			f.Testing = true
		case !set:
			f.Insert = Outcome(key)
		case key == "tag_on":
			f.TagOn = value
		case key == "status":
			f.Status = jsonWord(value)
		case key == "sub_status":
			f.SubStatus = jsonWord(value)
		case key == "code":
			n, err := strconv.Atoi(value)
			if err != nil {
				return fmt.Errorf("code %q isn't a number", value)
			}
			f.Code = n
		default:
			return fmt.Errorf("fault %q isn't known: want tag, no_tag, task_fails, refused, stuck, halted, testing, omit_status, code:N, tag_on:VPG, status:S or sub_status:S", item)
		}
	}
	b.Faults[vpg] = f
	return f.check()
}

// jsonWord lets a flag say status:MeetingSLA as well as status:2 or status:"2".
func jsonWord(s string) jsontext.Value {
	if v := jsontext.Value(s); v.IsValid() {
		return v
	}
	return jsontext.Value(strconv.Quote(s))
}

func addVariant(b *Behaviour, text string) error {
	vpg, letter, _ := strings.Cut(text, "=")
	outcome, ok := map[string]Outcome{"a": InsertNoTag, "b": InsertFails, "c": InsertRefused}[letter]
	if !ok || vpg == "" {
		return fmt.Errorf("want VPG=a, VPG=b or VPG=c")
	}
	f := b.Faults[vpg]
	f.Insert = outcome
	b.Faults[vpg] = f
	return nil
}

func addAnswer(b *Behaviour, text string) error {
	var a Answer
	if err := strictjson.Decode([]byte(text), &a); err != nil {
		return err
	}
	b.Answers = append(b.Answers, a)
	return a.check()
}

// decodeInto writes the given keys over those of a struct, by its JSON names.
func decodeInto(keys map[string]jsontext.Value, into any) error {
	data, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	return strictjson.Decode(data, into)
}
