package service

// Version is what this program was built from. The linker sets it (-ldflags "-X …"), nobody else does.
var Version = "dev" //nolint:gochecknoglobals // the linker sets nothing but variables
