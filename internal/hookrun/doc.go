// Package hookrun is `guard hooks run`: the program that a gate becomes when the
// broker answers that policy hooks are to be run. It asks for them on the gate's
// connection, runs them, sends back what became of each, and hands the broker's
// answer to the host. Whatever goes wrong is one denial, status 2.
//
// # What it promises
//
// What runs is what was hashed. A file that only root can change is hashed, unless
// the kernel's stamp of it is the one that it was trusted with, and used as it
// stands: the command by its descriptor, a script by its path. Any
// other is copied into sealed memory while it is hashed, and that copy is what
// runs. A hash that isn't the trusted one runs nothing.
//
// A hook sees a fixed environment, the directory /, and on its stdin one line of
// JSON. It is judged by its exit status and by what it prints; see judge.
//
// Each hook is one unit that can be ended whole. This process is the subreaper of
// one hook; where a call meets several, each gets such a process of its own. So
// whatever a hook leaves behind, out of its group, its session and its tree, is
// below a process that runs no other, and is ended with it: at the latest 3 s
// after its time was over.
//
// # What it doesn't protect
//
// Hooks run as the agent's own user. Who may trace that user's processes, or
// kills this one by a signal that nobody can catch, has taken the hook's place
// with the host; what such a kill leaves running is below the session's anchor,
// and ended with the session's tree. An interpreter that a script's first line
// names isn't hashed: it has to be one that only root can change.
package hookrun
