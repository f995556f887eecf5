package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
)

// maxAnswers bounds what guard init reads from a terminal.
const maxAnswers = 64 << 10

// questions are what guard init still wants to know, and the stream of answers.
type questions struct {
	lines *bufio.Reader
	out   io.Writer
}

// ask fills in the answers of guard init from a person. An empty line takes
// what stands in brackets. Each answer is judged when it is given, and asked for
// again until it will do.
func (c Command) ask(in *initFlags) error {
	q := questions{bufio.NewReader(io.LimitReader(c.Stdin, maxAnswers)), c.Stderr}
	self := ""
	err := q.ask("URL of the ZVM, https://HOST[:PORT]; empty for none", "", &in.zvm.URL, goodURL)
	if err == nil && in.zvm.URL != "" {
		err = q.askZVM(&in.zvm, in.system)
	}
	if err == nil {
		err = q.ask("VM that this host is (several with commas between), or none", "none", &self, goodSelf)
	}
	in.self = names(self)
	if err == nil && !in.system { // there the kernel tells operators from sessions
		want := ""
		err = q.ask("a passphrase for approvals, so that no program of yours can approve a session? yes or no", "no", &want, yesOrNo)
		in.offered = strings.HasPrefix(want, "y")
	}
	return err
}

func (q questions) askZVM(z *config.ZVM, system bool) error {
	for _, next := range []struct {
		text, otherwise string
		to              *string
		good            func(string) error
	}{
		{"file with the ZVM's CA certificate", "", &z.CAFile, goodFile(checkCA)},
		{"client id", "guard", &z.ClientID, func(string) error { return nil }},
		{"file with the client's secret (mode 0600)", "", &z.ClientSecretFile, goodFile(checkSecret)},
	} {
		if err := q.ask(next.text, next.otherwise, next.to, next.good); err != nil {
			return err
		}
	}
	if system {
		return nil
	}
	answer := ""
	err := q.ask("the agent runs with your uid and can read that secret; is that acceptable? yes or no", "no", &answer, yesOrNo)
	if err != nil {
		return err
	}
	if z.AcceptSameUID = strings.HasPrefix(answer, "y"); !z.AcceptSameUID {
		return errors.New("nothing was written: in user mode a ZVM needs accept_same_uid = true")
	}
	return nil
}

// ask puts one question until the answer is good.
func (q questions) ask(text, otherwise string, to *string, good func(string) error) error {
	for {
		fmt.Fprintf(q.out, "%s [%s]: ", text, otherwise)
		line, err := q.lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("nothing was written: the answers ended early: %w", err)
		}
		if *to = strings.TrimSpace(line); *to == "" {
			*to = otherwise
		}
		if err = good(*to); err == nil {
			return nil
		}
		for _, said := range saidBy(err) {
			fmt.Fprintf(q.out, "  %s\n", said)
		}
	}
}

func yesOrNo(answer string) error {
	switch answer {
	case "y", "yes", "n", "no":
		return nil
	}
	return fmt.Errorf("%s is neither yes nor no", verdict.Object(answer))
}

// goodFile makes the path absolute first: it was typed relative to here.
func goodFile(check func(path string) error) func(string) error {
	return func(path string) error {
		if path == "" {
			return errors.New("the file's path is needed")
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		return check(abs)
	}
}

func checkSecret(path string) error {
	_, err := config.ZVM{ClientSecretFile: path}.Secret(uid())
	return err
}

// goodURL has the configuration judge the address, beside stand-ins for the
// keys that have not been asked for yet.
func goodURL(url string) error {
	if url == "" {
		return nil
	}
	return goodAnswers(config.Answers{ZVM: &config.ZVM{
		URL: url, CAFile: "/ca.pem", ClientID: "guard", ClientSecretFile: "/secret", AcceptSameUID: true,
	}})
}

func goodSelf(self string) error {
	list := names(self)
	if err := (initFlags{self: list}).whole(); err != nil {
		return err
	}
	return goodAnswers(config.Answers{Self: list, SelfNone: self == "none"})
}

func goodAnswers(a config.Answers) error {
	_, err := config.Parse("guard.toml", paths.User, config.Template(a))
	if err == nil {
		return nil
	}
	var found faults
	for _, e := range config.Faults(err) {
		found = append(found, errors.New(e.Problem))
	}
	return found
}

// names takes a list apart; a VM's name may hold blanks.
func names(list string) []string {
	var all []string
	for name := range strings.SplitSeq(list, ",") {
		all = append(all, strings.TrimSpace(name))
	}
	return all
}
