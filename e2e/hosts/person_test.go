//go:build hosts

package hosts

import (
	"testing"
	"time"

	"leaseguard.internal/internal/fakemodel"
)

func TestPerson(t *testing.T) {
	q := `{"questions":[{"question":"which?","header":"h","options":[{"label":"alpha","description":"x"},{"label":"beta","description":"y"}],"multiSelect":false}]}`
	for _, c := range []struct{ mode, tool, input, keys string }{
		{"bypassPermissions", "AskUserQuestion", q, "\r"},
		{"bypassPermissions", "EnterPlanMode", "{}", "\r"},
		{"plan", "ExitPlanMode", `{"plan":"do it"}`, "\r"},
		{"plan", "ExitPlanMode", `{}`, "\r"},
		{"bypassPermissions", "ExitPlanMode", `{}`, "\r"},
		{"default", "Bash", `{"command":"touch xx"}`, "\r"},
		{"default", "Bash", `{"command":"touch xx"}`, "\x1b"},
		{"default", "Write", `{"file_path":"xx","content":"x"}`, "\r"},
		{"bypassPermissions", "Bash", `{"command":"sleep 20"}`, "\x1b"},
	} {
		t.Run(c.mode+" "+c.tool+c.keys, func(t *testing.T) {
			w := newWorld(t)
			p := probe{"p", c.tool, c.input, ""}
			w.steps(p.step(), fakemodel.Say("end of it"))
			x := w.interact("--permission-mode="+c.mode, "--allow-dangerously-skip-permissions", "--settings="+w.watch("", ""), "--setting-sources=")
			w.await("start", func() bool { return len(w.hooks("SessionStart")) >= 1 })
			x.shown("shortcuts")
			x.enter("do it")
			w.await("pre", func() bool { return len(w.hooks("PreToolUse")) >= 1 })
			time.Sleep(1500 * time.Millisecond)
			s := x.screen()
			t.Log(s[max(0, len(s)-700):])
			x.keys(c.keys)
			time.Sleep(1500 * time.Millisecond)
			t.Log(names(w.hooks()))
			m := w.measure(p)
			t.Log(m, m.told)
			if m.pre != nil { t.Logf("%s", m.pre.Input) }
			if m.end != nil { t.Logf("%s", m.end.Raw) }
		})
	}
}
