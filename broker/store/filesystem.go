package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// networkTypes are file systems where a lock may block for ever, or mean
// nothing to another host. The kernel's headers lack names for some.
var networkTypes = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB2",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	unix.V9FS_MAGIC:        "9P",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x01161970:             "GFS2",
	0x0bd00bd0:             "Lustre",
	0x47504653:             "GPFS",
	0x19830326:             "BeeGFS",
	0x786f4256:             "VirtualBox shared folder",
}

// checkFileSystem refuses a directory on a network file system, by its name.
func checkFileSystem(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("asking for the type of its file system: %w", err)
	}
	return checkType(uint32(st.Type)) //nolint:gosec // magic numbers have 32 bits; s390x sign-extends them
}

func checkType(magic uint32) error {
	if name, ok := networkTypes[magic]; ok {
		return fmt.Errorf("it is on %s, where locks can block or lie; put the state directory on a local disk", name)
	}
	return nil
}
