package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// bbolt walks the whole file when it opens it, in a goroutine of its own, where
// a panic on a damaged page, a fault or an endless recursion ends the process
// and can't be caught. So the tree is walked here first, by plain reads.

// The file's layout (bbolt, file version 2), in the machine's byte order.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader = 16 // id 8, flags 2, count 2, overflow 4
	metaSize   = 64 // up to its checksum: 56
	element    = 16 // of a branch and of a leaf page
	bucketSize = 16 // root page 8, sequence 8

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	leafIsBucket = 0x01

	maxPageSize = 1 << 16
	maxPages    = 1 << 20 // 4 GiB: far above what a broker ever writes
)

// pageMeta is what counts of a meta page.
type pageMeta struct {
	size uint32
	root uint64
	high uint64 // no page from here on
	txid uint64

	newer bool // whole, but of a later file version
}

// walker reads each page that is reachable once.
type walker struct {
	r    io.ReaderAt
	meta pageMeta
	seen map[uint64]bool
}

// checkPages says whether bbolt can open f without panicking. An empty file is
// new.
func checkPages(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("looking at it: %w", err)
	}
	if info.Size() == 0 {
		return nil
	}
	return checkTree(f, info.Size())
}

func checkTree(r io.ReaderAt, size int64) error {
	meta, err := newestMeta(r)
	if err != nil {
		return err
	}
	if meta.high > maxPages || int64(meta.high)*int64(meta.size) > size {
		return fmt.Errorf("%w: %d pages of %d bytes don't fit into %d bytes", ErrDamaged, meta.high, meta.size, size)
	}
	w := walker{r: r, meta: meta, seen: map[uint64]bool{0: true, 1: true}}
	return w.page(meta.root, span{}, 0)
}

// newestMeta picks the meta page that bbolt will pick: the newer valid one.
func newestMeta(r io.ReaderAt) (pageMeta, error) {
	size := uint32(os.Getpagesize()) //nolint:gosec // a page's size
	first, ok0 := readMeta(r, 0)
	if ok0 {
		size = first.size
	}
	second, ok1 := readMeta(r, int64(size))
	ok1 = ok1 && second.size == size
	switch {
	case ok0 && (!ok1 || first.txid > second.txid):
		return first, nil
	case ok1:
		return second, nil
	}
	if first.newer || second.newer {
		return pageMeta{}, fmt.Errorf("%w: a later bbolt wrote it; run the guard that wrote it, or move the file away", ErrNewer)
	}
	return pageMeta{}, fmt.Errorf("%w: it has no valid meta page", ErrDamaged)
}

// readMeta reads one meta page; ok is false when bbolt would not take it.
func readMeta(r io.ReaderAt, at int64) (meta pageMeta, ok bool) {
	var b [pageHeader + metaSize]byte
	if _, err := r.ReadAt(b[:], at); err != nil {
		return pageMeta{}, false
	}
	e, m := binary.NativeEndian, b[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(m[:56]) // a hash never fails
	whole := e.Uint32(m) == boltMagic && e.Uint64(m[56:]) == sum.Sum64()
	meta = pageMeta{
		size: e.Uint32(m[8:]), root: e.Uint64(m[16:]), high: e.Uint64(m[40:]), txid: e.Uint64(m[48:]),
		newer: whole && e.Uint32(m[4:]) > boltVersion,
	}
	return meta, whole && e.Uint32(m[4:]) == boltVersion && meta.size >= 1024 && meta.size <= maxPageSize && meta.size&(meta.size-1) == 0 && e.Uint16(b[8:])&flagMeta != 0
}

// read returns a page with its overflow pages.
func (w *walker) read(id uint64) ([]byte, error) {
	var header [pageHeader]byte
	size := uint64(w.meta.size)
	if id < 2 || id >= w.meta.high {
		return nil, fmt.Errorf("%w: page %d of %d", ErrDamaged, id, w.meta.high)
	}
	if _, err := w.r.ReadAt(header[:], int64(id*size)); err != nil { //nolint:gosec // at most maxPages of maxPageSize
		return nil, fmt.Errorf("%w: reading page %d: %w", ErrDamaged, id, err)
	}
	overflow := uint64(binary.NativeEndian.Uint32(header[12:]))
	if binary.NativeEndian.Uint64(header[:]) != id || id+overflow >= w.meta.high {
		return nil, fmt.Errorf("%w: page %d says that it is page %d with %d more", ErrDamaged, id, binary.NativeEndian.Uint64(header[:]), overflow)
	}
	for p := id; p <= id+overflow; p++ {
		if w.seen[p] {
			return nil, fmt.Errorf("%w: page %d is used twice", ErrDamaged, p)
		}
		w.seen[p] = true
	}
	b := make([]byte, (overflow+1)*size)
	if _, err := w.r.ReadAt(b, int64(id*size)); err != nil && !errors.Is(err, io.EOF) { //nolint:gosec // as above
		return nil, fmt.Errorf("%w: reading page %d: %w", ErrDamaged, id, err)
	}
	return b, nil
}
