// Package platforms has no code: its test type-checks the module for every system that the binaries are built for.
package platforms
