// Package weakbus removes safeguards of the bus, and marks rare paths, in builds with the tag chaos: see cmd/chaos. It is the
// only user of bus.Instruments, except tests, and empty in other builds.
package weakbus
