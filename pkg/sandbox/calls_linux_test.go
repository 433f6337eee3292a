package sandbox

import (
	"encoding/binary"
	"testing"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Not every kernel runs programs of another architecture, so that this runs the filter.
func TestFilterSupportsEveryConventionOfTheProcessor(t *testing.T) {
	t.Parallel()
	instructions, err := filter()
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	native, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	const x32 = 1 << 30
	for name, test := range map[string]struct {
		number       int
		architecture arch.AuditArch
		want         uint32
	}{
		"read":                             {unix.SYS_READ, native.ID, uint32(seccomp.ActionAllow)},
		"mount":                            {unix.SYS_MOUNT, native.ID, uint32(seccomp.ActionErrno) | uint32(unix.EPERM)},
		"mount of another architecture":    {unix.SYS_MOUNT, native.ID + 1, uint32(seccomp.ActionKillProcess)},
		"mount of 386":                     {arch.I386.SyscallNames["mount"], arch.I386.ID, uint32(seccomp.ActionKillProcess)},
		"mount of arm":                     {arch.ARM.SyscallNames["mount"], arch.ARM.ID, uint32(seccomp.ActionKillProcess)},
		"mount of x32":                     {unix.SYS_MOUNT | x32, native.ID, uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)},
		"a call that is not in the tables": {1000, native.ID, uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)},
	} {
		data := make([]byte, 64) // struct seccomp_data as the VM reads it
		binary.BigEndian.PutUint32(data, uint32(test.number))
		binary.BigEndian.PutUint32(data[4:], uint32(test.architecture))
		if got, err := vm.Run(data); err != nil || uint32(got) != test.want {
			t.Errorf("%s: got %#x, %v; want %#x", name, got, err, test.want)
		}
	}
}
