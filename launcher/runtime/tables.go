package runtime

import "slices"

// EnvTable is what becomes of the variables that a runtime is launched with, for
// people. A * at the end of a name stands for any rest.
type EnvTable struct {
	Runtimes []string `json:"runtimes"`
	Allowed  []string `json:"allowed"` // these alone pass; empty: all that isn't dropped
	Dropped  []string `json:"dropped"`
	Kept     []string `json:"kept"`    // pass although dropped names fit them
	Refused  []string `json:"refused"` // end the launch while they are on
	Set      []string `json:"set"`     // name=value that guard adds
}

// EnvTables are the tables of all runtimes.
func EnvTables() []EnvTable {
	return []EnvTable{
		{
			Runtimes: []string{"claude", "claudex"}, Allowed: []string{},
			Dropped: slices.Clone(dropped), Kept: slices.Clone(kept), Refused: slices.Clone(switches), Set: slices.Clone(fixed),
		},
		{
			Runtimes: []string{"codex"}, Allowed: slices.Clone(codexKept),
			Dropped: []string{}, Kept: []string{}, Refused: []string{}, Set: []string{},
		},
		{
			Runtimes: []string{"pi"}, Allowed: []string{},
			Dropped: slices.Concat(dropped, piDropped), Kept: []string{}, Refused: []string{}, Set: slices.Clone(piFixed),
		},
	}
}
