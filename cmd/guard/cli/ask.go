package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxAnswers bounds what guard init reads from a terminal.
const maxAnswers = 64 << 10

// ask fills in the answers of guard init from a person. An empty line takes
// what stands in brackets.
func (c Command) ask(in *initFlags) error {
	lines := bufio.NewReader(io.LimitReader(c.Stdin, maxAnswers))
	question := func(text, otherwise string, to *string) func() error {
		return func() (err error) {
			*to, err = c.question(lines, text, otherwise)
			return err
		}
	}
	self := ""
	if err := question("URL of the ZVM, https://HOST[:PORT]; empty for none", "", &in.zvm.URL)(); err != nil {
		return err
	}
	steps := []func() error{question("VM that this host is (several with commas between), or none", "none", &self)}
	if in.zvm.URL != "" {
		steps = append([]func() error{
			question("file with the ZVM's CA certificate", "", &in.zvm.CAFile),
			question("client id", "guard", &in.zvm.ClientID),
			question("file with the client's secret (mode 0600)", "", &in.zvm.ClientSecretFile),
			func() error { return c.askSameUID(lines, in) },
		}, steps...)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	for name := range strings.SplitSeq(self, ",") { // a VM's name may hold blanks
		in.self = append(in.self, strings.TrimSpace(name))
	}
	return nil
}

func (c Command) askSameUID(lines *bufio.Reader, in *initFlags) error {
	answer, err := c.question(lines, "the agent runs with your uid and can read that secret; is that acceptable? yes or no", "no")
	if err != nil {
		return err
	}
	if answer != "yes" {
		return errors.New("nothing was written: in user mode a ZVM needs accept_same_uid = true")
	}
	in.zvm.AcceptSameUID = true
	return nil
}

func (c Command) question(lines *bufio.Reader, text, otherwise string) (string, error) {
	fmt.Fprintf(c.Stderr, "%s [%s]: ", text, otherwise)
	line, err := lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("nothing was written: the answers ended early: %w", err)
	}
	if line = strings.TrimSpace(line); line == "" {
		return otherwise, nil
	}
	return line, nil
}
