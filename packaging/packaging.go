// Package packaging carries what system mode needs beside the programs: units
// of systemd, accounts and directories. The .deb and .rpm install these files
// (nfpm.yaml); where there is no package, guard init --system writes them from
// here. So there is one text of each, and what is tested is what is installed.
package packaging

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed systemd sysusers.d tmpfiles.d
var files embed.FS

// packagedPrograms is where the packages put the programs, as the units say it.
const packagedPrograms = "/usr/bin/"

// Names of the units.
const (
	BrokerSocket   = "guard-broker.socket"
	OperatorSocket = "guard-operator.socket"
	BrokerService  = "guard-broker.service"
)

// Units are the names of all units, sockets first.
func Units() []string { return []string{BrokerSocket, OperatorSocket, BrokerService} }

// Unit returns a unit whose programs are in the directory programs.
func Unit(name, programs string) []byte {
	text := strings.ReplaceAll(string(read("systemd", name)), "="+packagedPrograms, "="+path.Clean(programs)+"/")
	return []byte(text)
}

// Accounts returns the users and groups in the form of sysusers.d.
func Accounts() []byte { return read("sysusers.d", "guard.conf") }

// Directories returns the directories in the form of tmpfiles.d.
func Directories() []byte { return read("tmpfiles.d", "guard.conf") }

// Directory is a line of Directories.
type Directory struct {
	Path        string
	Mode        uint32 // as chmod takes it
	User, Group string
}

// ParseDirectories returns the lines of Directories, parents first.
func ParseDirectories() []Directory {
	var list []Directory
	for line := range strings.Lines(string(Directories())) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		mode, err := strconv.ParseUint(f[2], 8, 32)
		if err != nil || f[0] != "d" || len(f) != 6 {
			panic(fmt.Sprintf("tmpfiles.d/guard.conf: %q is no directory", line)) // held by a test
		}
		list = append(list, Directory{f[1], uint32(mode), f[3], f[4]})
	}
	return list
}

func read(dir, name string) []byte {
	b, err := fs.ReadFile(files, dir+"/"+name)
	if err != nil {
		panic(err) // held by a test
	}
	return b
}
