package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// system is what programs see of the host, read-only: what they need to run, and nothing about this machine.
func system() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
		"/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/ssl", "/etc/passwd", "/etc/group",
	}
}

func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}

// work is where a program runs.
const work = "/work"

// become turns this process into the program. It returns only when that fails.
func become(o order) error {
	runtime.LockOSThread() // what follows belongs to a thread, the one that becomes the program
	dir := work
	if o.Bare {
		dir = o.Dir
	} else if err := enclose(o.Policy); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil && dir != "" {
		return fmt.Errorf("go to its folder: %w", err)
	}
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, variable+"=") })
	enforced, err := disarm(o.Bare)
	if err != nil {
		return err
	}
	if o.Probe {
		return answer(enforced)
	}
	if err := limit(o); err != nil {
		return err
	}
	if err := closeOnExec(); err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", program, unix.Exec(program, os.Args, environ))
}

// answer ends a process that was to find out what the kernel gives.
func answer(enforced Report) error {
	text, err := json.Marshal(enforced)
	if err == nil {
		_, err = os.Stdout.WriteString(ready + string(text))
	}
	if err == nil {
		os.Exit(0)
	}
	return fmt.Errorf("answer: %w", err)
}

// enclose gives this process a separate file system: the visible parts of the host are cloned, put into an empty root,
// and everything else is unmounted.
func enclose(p Policy) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the mounts of the host (the kernel, or the container that this runs in, refuses it): %w", err)
	}
	var trees []tree
	for _, path := range slices.Concat(system(), devices()) {
		t, err := clone(path, path, true)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	for _, path := range p.Read {
		t, err := clone(path, path, true)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	if p.Dir != "" {
		t, err := clone(p.Dir, work, !p.Writable)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	denied := denyUserNamespaces()
	if err := newRoot(trees, p); err != nil || denied == nil {
		return err
	}
	return denyUserNamespaces() // the host's /proc is read-only in many containers, that of the sandbox is not
}

// tree is a part of the host's file system, and its place in the sandbox.
type tree struct {
	fd     int
	target string
	folder bool
}

func clone(source, target string, readOnly bool) (tree, error) {
	info, err := os.Stat(source)
	if err != nil {
		return tree{}, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("show %s: %w", source, err)
	}
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if readOnly && info.Mode()&fs.ModeDevice == 0 {
		attributes.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attributes); err != nil {
		return tree{}, fmt.Errorf("protect %s: %w", source, err)
	}
	return tree{fd: fd, target: target, folder: info.IsDir()}, nil
}

// newRoot mounts an empty root, puts trees into it, and makes it this process's only one.
func newRoot(trees []tree, p Policy) error {
	const root = "/proc" // any folder that every system has: it is hidden from this process alone
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=755"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	for _, t := range trees {
		target := filepath.Join(root, t.target)
		if err := mountPoint(target, t.folder); err != nil {
			return err
		}
		if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("show %s: %w", t.target, err)
		}
	}
	size := fmt.Sprintf("size=%d,mode=1777", p.Limits.FileSize)
	folders := []string{"/tmp"}
	if p.Dir == "" {
		folders = append(folders, work)
	}
	for _, folder := range folders {
		target := filepath.Join(root, folder)
		if err := mountPoint(target, true); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size); err != nil {
			return fmt.Errorf("mount %s: %w", folder, err)
		}
	}
	processes := filepath.Join(root, "proc")
	if err := mountPoint(processes, true); err != nil {
		return err
	}
	// A container that hides parts of it refuses this. Then /proc is missing: most programs do not need it.
	_ = unix.Mount("proc", processes, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// open lets a program of any user look into the folders of its root.
const open = 0o755

func mountPoint(path string, folder bool) error {
	if folder {
		return os.MkdirAll(path, open)
	}
	if err := os.MkdirAll(filepath.Dir(path), open); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// disarm gives up every way to more rights. Where not all is required it does what the kernel allows.
func disarm(lenient bool) (Report, error) {
	enforced := Report{Namespaces: !lenient, UserNamespaces: !lenient}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return enforced, fmt.Errorf("give up new privileges: %w", err)
	}
	err := dropCapabilities()
	if err != nil && !lenient {
		return enforced, err
	}
	enforced.Capabilities = err == nil
	if err = filterCalls(); err != nil && !lenient {
		return enforced, err
	}
	enforced.SystemCalls = err == nil
	return enforced, nil
}

// dropCapabilities empties the five sets of this thread. Where the bounding set cannot be emptied it empties the others.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	var bounding error
	for c := uintptr(0); c <= unix.CAP_LAST_CAP && bounding == nil; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EINVAL) { // an older kernel does not support all of them
			bounding = fmt.Errorf("empty the bounding set of capabilities: %w", err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return bounding
}

// denyUserNamespaces has the kernel refuse user namespaces below that of this process, which has the capability that this
// needs; the program does not.
func denyUserNamespaces() error {
	file, err := os.OpenFile("/proc/sys/user/max_user_namespaces", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("deny user namespaces: %w", err)
	}
	_, err = file.WriteString("0")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("deny user namespaces: %w", err)
	}
	return nil
}

// closeOnExec keeps every descriptor but the standard ones from the program: those of the process that started this service
// too, which may lead to files that the sandbox does not show.
func closeOnExec() error {
	const first = 3 // after the standard ones
	err := unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("keep the descriptors of the service from the program (Linux 5.11 can): %w", err)
	}
	return nil
}

// maxFiles is how many files a process may have open.
const maxFiles = 256

// limit comes last: this process itself may need more.
func limit(o order) error {
	l := o.Limits
	for _, set := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_NOFILE, maxFiles}, {unix.RLIMIT_FSIZE, uint64(l.FileSize)}, //nolint:gosec // never negative
		{unix.RLIMIT_CPU, uint64(o.Seconds)}, {unix.RLIMIT_NPROC, uint64(l.Processes)}, //nolint:gosec // never negative
		{unix.RLIMIT_DATA, uint64(l.Memory)}, {unix.RLIMIT_AS, uint64(l.AddressSpace)}, //nolint:gosec // never negative
	} {
		if set.resource == unix.RLIMIT_AS && set.most == 0 {
			continue
		}
		if err := unix.Setrlimit(set.resource, &unix.Rlimit{Cur: set.most, Max: set.most}); err != nil {
			return fmt.Errorf("set limit %d: %w", set.resource, err)
		}
	}
	return nil
}
