package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// maxDepth bounds the tree's levels. Each page is visited once, so no cycle
// gets here; a chain that long is none that bbolt built.
const maxDepth = 64

// span is where the keys of a subtree lie: from low on, and before high. nil is
// no bound.
type span struct{ low, high []byte }

// entry is one element of a page.
type entry struct {
	key, value []byte // of a leaf; a branch has only a key
	child      uint64 // of a branch
	bucket     bool   // a leaf's value is a bucket
}

// page checks a page and all below it.
func (w *walker) page(id uint64, in span, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: page %d is over %d levels deep", ErrDamaged, id, maxDepth)
	}
	b, err := w.read(id)
	if err != nil {
		return err
	}
	return w.node(id, b, in, depth)
}

// node checks the entries of a page or an inline bucket and follows them.
func (w *walker) node(id uint64, page []byte, in span, depth int) error {
	entries, err := parseEntries(id, page)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if in.low != nil && bytes.Compare(e.key, in.low) < 0 || in.high != nil && bytes.Compare(e.key, in.high) >= 0 ||
			i > 0 && bytes.Compare(entries[i-1].key, e.key) >= 0 {
			return fmt.Errorf("%w: entry %d of page %d is out of order", ErrDamaged, i, id)
		}
	}
	for i, e := range entries {
		switch {
		case e.bucket:
			err = w.bucket(id, e.value, depth)
		case e.child != 0:
			below := span{e.key, in.high}
			if i+1 < len(entries) {
				below.high = entries[i+1].key
			}
			err = w.page(e.child, below, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket follows a bucket to its own tree, or to the leaf that it holds inline.
func (w *walker) bucket(id uint64, value []byte, depth int) error {
	if len(value) < bucketSize {
		return fmt.Errorf("%w: a bucket in page %d has %d bytes", ErrDamaged, id, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return w.page(root, span{}, depth+1)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint64(inline) != 0 || binary.NativeEndian.Uint16(inline[8:]) != flagLeaf {
		return fmt.Errorf("%w: an inline bucket in page %d isn't one leaf", ErrDamaged, id)
	}
	return w.node(id, inline, span{}, depth+1)
}

// parseEntries reads the elements of a page, all of which have to lie inside it.
func parseEntries(id uint64, page []byte) ([]entry, error) {
	e := binary.NativeEndian
	flags, count := e.Uint16(page[8:]), uint64(e.Uint16(page[10:]))
	branch := flags == flagBranch
	first := pageHeader + count*element
	if !branch && flags != flagLeaf || branch && count == 0 || first > uint64(len(page)) {
		return nil, fmt.Errorf("%w: page %d has flags %#x and %d entries", ErrDamaged, id, flags, count)
	}
	entries := make([]entry, count)
	for i := range count {
		at := pageHeader + i*element
		el := page[at : at+element]
		var pos, ksize, vsize uint64
		if branch {
			pos, ksize = uint64(e.Uint32(el)), uint64(e.Uint32(el[4:]))
			entries[i].child = e.Uint64(el[8:])
		} else {
			pos, ksize, vsize = uint64(e.Uint32(el[4:])), uint64(e.Uint32(el[8:])), uint64(e.Uint32(el[12:]))
			entries[i].bucket = e.Uint32(el)&leafIsBucket != 0
		}
		start, end := at+pos, at+pos+ksize+vsize
		if start < first || end > uint64(len(page)) || ksize == 0 || branch && entries[i].child == 0 {
			return nil, fmt.Errorf("%w: entry %d of page %d lies outside of it, or is empty", ErrDamaged, i, id)
		}
		entries[i].key, entries[i].value = page[start:start+ksize], page[start+ksize:end]
	}
	return entries, nil
}
