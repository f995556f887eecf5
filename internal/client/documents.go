package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// noLinks keeps every component of a document's name inside its directory and
// free of links, in one step of the kernel.
const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Delivery is what a verification binds and what was bound to it: the documents
// with their bytes, one after the other.
type Delivery struct {
	Grant     *wire.Grant
	Documents []wire.Document
	Bytes     []byte
}

// Grant carries out a verb that binds the context documents of the session that
// ctl names: it asks which they are, reads them and sends them along. A session
// that was launched anew meanwhile is refused by the broker.
func (c *Client) Grant(ctx context.Context, ctl wire.Control) (Delivery, error) {
	res, err := c.Do(ctx, wire.Control{Verb: wire.VerbContext, Session: ctl.Session, Generation: ctl.Generation}, nil)
	if err != nil {
		return Delivery{}, err
	}
	if res.Context == nil {
		return Delivery{}, fmt.Errorf("%w: no context", ErrAnswer)
	}
	docs, body, err := ReadDocuments(res.Context.Dir, res.Context.Documents)
	if err != nil {
		return Delivery{}, err
	}
	ctl.Session, ctl.Generation, ctl.Documents = res.Context.Session, res.Context.Generation, docs
	res, err = c.Do(ctx, ctl, body)
	if err != nil {
		return Delivery{}, err
	}
	if res.Grant == nil {
		return Delivery{}, fmt.Errorf("%w: no grant", ErrAnswer)
	}
	return Delivery{Grant: res.Grant, Documents: docs, Bytes: body}, nil
}

// ReadDocuments reads the context documents names, relative to dir: regular
// files, no links, at most wire.MaxContext bytes together. A document that
// isn't there is returned as missing; one that can't be read, or is too large,
// is an error, since what was not read can't be bound. The bytes are returned
// one after the other in the order of names.
func ReadDocuments(dir string, names []string) ([]wire.Document, []byte, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the session's directory %q: %w; is it still there?", dir, err)
	}
	defer func() { _ = unix.Close(at) }()
	docs, body := make([]wire.Document, 0, len(names)), []byte{}
	for _, name := range names {
		text, err := readDocument(at, name, wire.MaxContext-len(body))
		if errors.Is(err, unix.ENOENT) {
			docs = append(docs, wire.Document{Name: name, Missing: true})
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading context document %q of %q: %w; correct it, or lease.context in guard.toml", name, dir, err)
		}
		docs = append(docs, wire.Document{Name: name, Size: len(text)})
		body = append(body, text...)
	}
	return docs, body, nil
}

// openBelow opens a regular file below a directory, by no link on the way.
func openBelow(at int, name string) (*os.File, os.FileInfo, error) {
	// O_NONBLOCK: a FIFO in a document's place must not hold the operator up.
	fd, err := unix.Openat2(at, name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: noLinks})
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, nil, errors.New("it is, or is reached through, a link; give the file's own name")
	case err != nil:
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// readDocument reads one document of at most room bytes.
func readDocument(at int, name string, room int) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, errors.New("the name leads out of the directory")
	}
	f, _, err := openBelow(at, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(room)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > room {
		return nil, fmt.Errorf("over the limit of %d bytes for all documents together", wire.MaxContext)
	}
	return text, nil
}
