package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/agentbus/agentbus/internal/testcluster"
	"golang.org/x/sys/unix"
)

// disk is a file system in a file whose power can be cut: data that was written and not synced is then lost, as on a
// machine. It tests the kernel's part only: it does not simulate a device that loses data it has reported as written,
// or that tears blocks.
type disk struct {
	image string
	dir   string // where it is mounted

	mounted bool
	dead    bool  // has no power
	err     error // why it could not be harmed
}

// diskSize bounds a disk. Its image has holes: it takes what is written to it.
const diskSize = 4 << 30

// newDisk makes a disk and mounts it at dir, which it makes. It needs root, loop devices and e2fsprogs. Remove it.
func newDisk(dir string) (*disk, error) {
	d := &disk{image: dir + ".img", dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(d.image, diskSize); err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	return d, d.on()
}

// shutdown is EXT4_IOC_SHUTDOWN, and withoutFlush its EXT4_GOING_FLAGS_NOLOGFLUSH: nothing is written any more, not even
// the journal.
const (
	shutdown     = 0x8004587d
	withoutFlush = 2
)

// cut cuts the power. Processes that write to the disk must have ended, because they would see errors.
func (d *disk) cut() {
	if d.dead {
		return
	}
	root, err := os.Open(d.dir)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(root.Fd()), shutdown, withoutFlush)
		err = errors.Join(err, root.Close())
	}
	if err != nil {
		d.err = fmt.Errorf("cut the power of %s: %w", d.dir, err)
	}
	d.dead = true
}

// ballast is the file that fills a disk.
func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes all the space that is left.
func (d *disk) fill() {
	file, err := os.Create(d.ballast())
	if err == nil {
		err = errors.Join(takeSpace(int(file.Fd())), file.Close())
	}
	if err != nil {
		d.err = fmt.Errorf("fill %s: %w", d.dir, err)
	}
}

// free gives the space back that fill took.
func (d *disk) free() {
	if err := os.Remove(d.ballast()); err != nil {
		d.err = err
	}
}

// on gives the disk power, if it has none: its journal is replayed.
func (d *disk) on() error {
	if d.err != nil {
		return d.err
	}
	if d.mounted && !d.dead {
		return nil
	}
	if err := d.remove(); err != nil {
		return err
	}
	if err := command("mount", "-t", "ext4", "-o", "loop", d.image, d.dir); err != nil {
		return err
	}
	d.mounted, d.dead = true, false
	return nil
}

// remove unmounts the disk. Its image is kept for inspection.
func (d *disk) remove() error {
	if !d.mounted {
		return nil
	}
	err := command("umount", d.dir)
	d.mounted = err != nil
	return err
}

// command runs a program of the system. It is not to be broken off: half a mount would outlive us.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput() //nolint:gosec,noctx // as above, and the programs are those named here
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// newDisks creates a disk for each NATS node, or returns why that is impossible.
func newDisks(dir string, nodes int) ([]*disk, error) {
	var disks []*disk
	for i := range nodes {
		d, err := newDisk(filepath.Join(dir, testcluster.Name(testcluster.NATS, i)))
		if err != nil {
			return nil, errors.Join(err, removeDisks(disks))
		}
		disks = append(disks, d)
	}
	return disks, nil
}

func removeDisks(disks []*disk) error {
	var all error
	for _, d := range disks {
		all = errors.Join(all, d.remove())
	}
	return all
}
