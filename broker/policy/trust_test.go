package policy

import (
	"errors"
	"strings"
	"testing"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/wire"
)

// TestW2_OneFileDoesntTakeTheOtherAway: a fault of either is one, and what the other
// says goes on; so does what is trusted.
func TestW2_OneFileDoesntTakeTheOtherAway(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("u Bash"))
	k.launch("good", "/srv/app", hooksFile("p Bash"))
	k.trust("user", "u")
	k.trust(app, "p")
	k.launch("bad", "/srv/app", "{")
	k.wantFault("bad", "1", "u p", "/srv/app/.guard/hooks.json: line 1: ")
	k.want("good", "1", "u p") // the same project's other session has its own bytes
	k.Adopt("worse", 1, "/srv/app", wire.ProjectHooks{State: wire.ProjectUnreadable, Why: "it is a link"}, nil)
	k.wantFault("worse", "1", "u p", "/srv/app/.guard/hooks.json: it is a link")
	k.Adopt("silent", 1, "/srv/app", wire.ProjectHooks{}, nil)
	k.wantFault("silent", "1", "u p", "has not said")
	k.write("{")
	k.wantFault("good", "2", "p", k.dir+"/hooks.json: line 1: ")
}

// TestTrustedProjectNeedsNoFile: an agent that deletes or empties the file, or
// launches again without it, is held by it all the same, until an operator says
// otherwise.
func TestTrustedProjectNeedsNoFile(t *testing.T) {
	k := newDesk(t)
	k.launch("s", "/srv/app", hooksFile("p Bash"))
	k.trust(app, "p")
	k.reopen()
	k.launch("none", "/srv/app", "")
	k.launch("empty", "/srv/app", hooksFile())
	k.launch("weaker", "/srv/app", hooksFile("p Write"))
	for _, id := range []string{"none", "empty", "weaker"} {
		k.want(id, "1", "p")
	}
	k.launch("elsewhere", "/srv/app2", "")
	k.want("elsewhere", "1", "")
	k.revoke(app, "p")
	for _, id := range []string{"none", "empty", "weaker"} {
		k.want(id, "1", "")
	}
}

// TestAnotherUnderTheSameNameTakesItsPlace: from the next turn on, and until then
// what was there denies: there is no moment with neither.
func TestAnotherUnderTheSameNameTakesItsPlace(t *testing.T) {
	k := newDesk(t)
	k.launch("old", "/srv/app", hooksFile("p Bash"))
	k.launch("none", "/srv/app", "")
	k.trust(app, "p")
	k.want("old", "1", "p")
	k.want("none", "1", "p")
	k.launch("new", "/srv/app", hooksFile(`p Bash ,"args":["x"]`))
	k.want("new", "1", "p? p")
	k.trust(app, "p")
	for _, id := range []string{"old", "none"} {
		k.want(id, "1", "p?")
		k.want(id, "2", "p")
	}
	k.want("new", "2", "p")
	all := k.Definitions.trust.Load()
	if r := all.of(app); len(r) != 1 || len(all.by[r[0]].Replaced) != 1 || len(all.by[r[0]].Definition.Args) != 1 {
		t.Errorf("trusted: %+v", all.by)
	}
	k.revoke(app, "p")
	k.want("old", "3", "p?") // its file has it, and nothing stands in its place any more
	k.want("none", "3", "")
}

// TestTrustIsRefusedToWhoLookedBefore: a revocation in between wins, of whatever it
// was.
func TestTrustIsRefusedToWhoLookedBefore(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("a Bash"))
	seen := k.List(Look{})
	if was, err := k.Revoke(t.Context(), seen.Definitions[0].Key); was || err != nil {
		t.Fatalf("revoking what nobody trusts: %t, %v", was, err)
	}
	r, _ := k.Find(seen.Definitions[0].Key, Look{})
	r.Files, r.Seen = bytesOf, seen.Revocations
	if _, err := k.Trust(t.Context(), r); !errors.Is(err, store.ErrRevokedSince) {
		t.Errorf("Trust = %v", err)
	}
	k.trust("user", "a")
}

// TestW12_UntrustedIsSaid: by the launch, by the reason, and by the list.
func TestW12_UntrustedIsSaid(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("u Bash"))
	k.launch("s", "/srv/app", hooksFile("p Bash", `q Write ,"enabled":false`))
	if w := strings.Join(k.Warn("s", 1), "\n"); !strings.Contains(w, "nobody has trusted: 2;") || !strings.Contains(w, "guard hooks trust ID") {
		t.Errorf("warnings of the launch: %q", w)
	}
	met, err := k.Meet(Call{Session: "s", Generation: 1})
	if err != nil || len(met) != 0 {
		t.Errorf("a call of no tool meets %v, %v", met, err)
	}
	for _, tt := range []struct {
		change func()
		why    string
	}{
		{func() {}, "nobody has trusted it yet"},
		{func() { k.trust("user", "u") }, "trusted since this turn began"},
	} {
		tt.change()
		met, _ := k.Meet(Call{Session: "s", Generation: 1, Own: true, Event: bashIn("1")})
		if len(met) != 2 || met[0].Trusted || !strings.Contains(met[0].Why, tt.why) || met[0].Hash == "" || met[0].Run.Files != nil {
			t.Errorf("met %+v; want %q", met, tt.why)
		}
	}
	k.write(hooksFile(`u Bash ,"args":["x"]`))
	if met, _ := k.Meet(Call{Session: "s", Generation: 1, Own: true, Event: bashIn("2")}); !strings.Contains(met[0].Why, "not as it was trusted") {
		t.Errorf("met %+v", met)
	}
	k.Adopt("t", 1, "/srv/app", wire.ProjectHooks{State: wire.ProjectUnreadable, Why: "it is a link"}, nil)
	k.trust(app, "p")
	w := strings.Join(k.Warn("t", 1), "\n")
	for _, want := range []string{"nothing may change", "it is a link", "no longer in .guard/hooks.json: 1;", "guard hooks revoke"} {
		if !strings.Contains(w, want) {
			t.Errorf("warnings %q lack %q", w, want)
		}
	}
	if k.Warn("nobody", 1) != nil {
		t.Error("a session that isn't there is warned")
	}
}

// TestListShowsEachOnce: what several sessions share is one line, and a directory
// that an operator only looks at counts too.
func TestListShowsEachOnce(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("u Bash"))
	k.launch("s1", "/srv/app", hooksFile("p Bash"))
	k.launch("s2", "/srv/app", hooksFile("p Bash"))
	k.launch("s3", "/srv/app", hooksFile("p Write"))
	look := Look{Dir: "/srv/new", Project: wire.ProjectHooks{State: wire.ProjectRead}, Text: []byte(hooksFile("n Bash"))}
	k.trust("workspace:/srv/new", "n", look)
	l := k.List(look)
	var names []string
	for _, d := range l.Definitions {
		names = append(names, d.ID+" "+d.Matcher)
	}
	if got := strings.Join(names, ", "); got != "u Bash, p Bash, p Write, n Bash" && got != "u Bash, p Write, p Bash, n Bash" {
		t.Errorf("listed: %s", got)
	}
	if len(l.Projects) != 3 || len(l.Projects[0].Sessions)+len(l.Projects[1].Sessions) != 3 || l.Projects[2].Sessions != nil || l.User.State != "read" {
		t.Errorf("files: %+v %+v", l.User, l.Projects)
	}
	if l = k.List(Look{}); len(l.Definitions) != 4 || l.Definitions[3].InFile || l.Definitions[3].Trust == nil {
		t.Errorf("without a look: %+v", l.Definitions)
	}
}
