package service

// Version is the version that this program was built from. Only the linker sets it (-ldflags "-X …").
var Version = "dev" //nolint:gochecknoglobals // the linker sets nothing but variables
