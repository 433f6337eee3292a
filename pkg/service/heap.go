package service

// heapFloor, in bytes, is what a process lets lie around before it collects garbage, however little of it is in use. A
// small heap under load is collected several times a second, each time on all processors that are free, and whoever is on
// the same machine waits meanwhile for a millisecond or more.
const heapFloor = 32 << 20

// ballast makes the collector take a heap for larger than it is. Nobody touches it, so it takes no memory itself.
func ballast() []byte { return make([]byte, heapFloor) }
