package safepath

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Straight refuses a directory that a link leads to, wherever on the way. The
// gate, which is as short as it can be, follows none on its way to the socket; so
// whoever makes sockets asks here first, and nobody has to find out by denials.
func Straight(path string) error {
	for dir := filepath.Clean(path); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return wrap(path, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		straight, err := filepath.EvalSymlinks(path)
		if err != nil {
			return wrap(path, err)
		}
		return wrap(path, refuse(dir, info, "the gate follows no link on the way to its socket; set XDG_RUNTIME_DIR so that this directory is %q", straight))
	}
	return nil
}
