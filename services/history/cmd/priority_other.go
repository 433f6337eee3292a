//go:build !linux

package main

// lowerPriority does nothing: it is implemented for Linux only.
func lowerPriority() {}
