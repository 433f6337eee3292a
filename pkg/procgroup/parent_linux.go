package procgroup

import "syscall"

// EndWithParent has the kernel kill a process that is started with these attributes when the thread that started it ends,
// and so when this process does. Only Linux can; elsewhere it does nothing.
func EndWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
