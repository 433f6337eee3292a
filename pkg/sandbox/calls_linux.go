package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are the system calls that a program may not make, although the kernel offers most of them to every process: they
// lead to new namespaces and mounts, to other processes, or to parts of the kernel that no tool needs and that have been
// attacked often. The kernel refuses many of the rest for want of a capability; the filter refuses them too.
func refused() []string {
	return []string{
		// Namespaces, mounts and roots.
		"unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr",
		"fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at", "fanotify_init", "quotactl", "quotactl_fd",
		// Other processes.
		"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd", "move_pages", "migrate_pages",
		// Keys, which no namespace separates.
		"add_key", "request_key", "keyctl",
		// Large parts of the kernel.
		"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "modify_ldt", "vm86",
		"vm86old", "uselib", "nfsservctl", "lookup_dcookie", "vserver",
		// The machine.
		"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "query_module",
		"get_kernel_syms", "reboot", "swapon", "swapoff", "acct", "syslog", "iopl", "ioperm", "settimeofday", "clock_settime",
		"stime", "sethostname", "setdomainname", "vhangup", "_sysctl",
	}
}

// absent are system calls that the program finds missing, as on an older kernel, so that it does without: of clone3 no filter
// sees the flags, and the others make shared memory that no limit of a process counts and that outlives it.
func absent() []string {
	return []string{"clone3", "memfd_create", "memfd_secret", "shmget"}
}

// newNamespaces are the flags of clone that make one.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// byArgument are system calls that are refused for some arguments. The kernel reads 32 bits of each of these, so that no
// condition may depend on the others.
func byArgument() []seccomp.NameWithConditions {
	const domain, command = 0, 1
	conditions := []seccomp.NameWithConditions{
		{Name: "clone", Conditions: seccomp.ArgumentConditions{{Operation: seccomp.BitsSet, Value: newNamespaces}}},
		// A network namespace does not separate the rest, such as vsock, by which a virtual machine reaches its host.
		{Name: "socket", Conditions: seccomp.ArgumentConditions{
			{Argument: domain, Operation: seccomp.NotEqual, Value: unix.AF_UNIX},
			{Argument: domain, Operation: seccomp.NotEqual, Value: unix.AF_INET},
			{Argument: domain, Operation: seccomp.NotEqual, Value: unix.AF_INET6},
			{Argument: domain, Operation: seccomp.NotEqual, Value: unix.AF_NETLINK},
		}},
	}
	for _, value := range []uint32{unix.TIOCSTI, unix.TIOCLINUX} { // input for the reader of a terminal
		conditions = append(conditions, seccomp.NameWithConditions{Name: "ioctl", Conditions: equal32(command, value)})
	}
	return conditions
}

// equal32 are the conditions under which the lower half of an argument has a value.
func equal32(argument, value uint32) seccomp.ArgumentConditions {
	conditions := seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.BitsNotSet, Value: uint64(^value)}}
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if value&bit != 0 {
			conditions = append(conditions, seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: uint64(bit)})
		}
	}
	return conditions
}

// filterCalls has the kernel refuse system calls to this thread and all that comes of it. It needs no_new_privs.
func filterCalls() error {
	instructions, err := filter()
	if err != nil {
		return fmt.Errorf("make a filter of system calls: %w", err)
	}
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return fmt.Errorf("make a filter of system calls: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}                                      //nolint:gosec // some hundred
	err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0) //nolint:gosec // prctl takes a pointer
	if err != nil {
		return fmt.Errorf("filter system calls (seccomp): %w", err)
	}
	return nil
}

func filter() ([]bpf.Instruction, error) {
	native, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	known := func(names []string) []string { // to this architecture
		return slices.DeleteFunc(names, func(name string) bool { _, ok := native.SyscallNames[name]; return !ok })
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		{Names: known(refused()), Action: seccomp.ActionErrno},
		{Names: known(absent()), Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
		// The last group, because a condition that is not met leaves an argument where the number of the call was.
		{NamesWithCondtions: byArgument(), Action: seccomp.ActionErrno},
	}}
	instructions, err := policy.Assemble()
	return slices.Concat(others(native), instructions), err
}

// others is the part of the filter for what the policy's tables do not name: it ends programs that call by the convention of
// another architecture, such as 32-bit ones, which the policy would let through, and calls that are newer than the tables
// are missing.
func others(native *arch.Info) []bpf.Instruction {
	const number, architecture, size = 0, 4, 4 // fields of struct seccomp_data
	newest := 0
	for n := range native.SyscallNumbers {
		newest = max(newest, n)
	}
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: architecture, Size: size},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(native.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
		bpf.LoadAbsolute{Off: number, Size: size},
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(newest), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)},
	}
}
