// Package sdunit is what the broker has to do with systemd. It is the only one
// that knows it, and nothing in it decides anything: without systemd each call
// does nothing, and with a systemd that hangs none waits for long.
//
//	activation.go  sockets and descriptors that were passed on at start
//	notify.go      what the service manager is told, and what it keeps for us
//	watchdog.go    the sign of life, which only working accept loops give
//	journal.go     the audit's events as lines of the journal
//	scope.go       a cgroup for each session
//
// Open takes the variables by which all of that is announced out of the
// environment, so that no child takes them for its own.
//
// go-systemd reads the environment; the sending is done here, by datagrams with
// deadlines. Its journal.Send waits for as long as journald does, and its SdNotify
// can't pass descriptors.
package sdunit
