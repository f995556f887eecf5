package main

// pi are promises of the broker's part of Pi.
var pi = []mutant{
	{
		name: "pi-any-word-greets", breaks: "after it was taken down, what asks Pi's gate has to greet",
		file: "broker/session/gate.go", old: `	if s.waiting && !greets {`, new: `	if s.waiting && !greets && false {`,
		pkg: "./broker/session", test: "TestPart",
	},
	{
		name: "pi-farewell-unheard", breaks: "a shutdown of Pi takes the gate's being seen",
		file: "broker/lease/apply.go", old: `		l = l.lowered(Parted)
		l.gateSeen = false`, new: `		l = l.lowered(Parted)`,
		pkg: "./broker", test: "TestPiHandshake",
	},
	{
		name: "pi-tool-is-pi", breaks: "a tool's own process session is not Pi's",
		file: "broker/own.go", old: `c.host == wire.HostPi && !inSession(c.peer.Process(), anchor):`, new: `c.host == wire.HostPi && !inSession(anchor, anchor):`,
		pkg: "./broker", test: "TestAttack28_WhoMadeStdin",
	},
	{
		name: "pi-is-asked", breaks: "what can't be asked is denied",
		file: "broker/protect.go", old: `	if asks && !dialect.Asks(c.host) {`, new: `	if asks && dialect.Asks(0) {`,
		pkg: "./broker", test: "TestPiCantAsk",
	},
	{
		name: "pi-line-is-its-tool", breaks: "a person's shell line is judged as one, whatever it calls itself",
		file: "gate/dialect/pi.go", old: `	if ev.Name == userBash {`, new: `	if ev.Name == userBash && false {`,
		pkg: "./gate/dialect", test: "TestPiFields",
	},
}
