package service

// heapFloor, in bytes, is the least garbage that triggers a collection. A small heap under load is collected several
// times a second, each time on all free processors, and delays other processes of the machine by a millisecond or more.
const heapFloor = 32 << 20

// ballast makes the collector take a heap for larger than it is. It is never accessed, so it uses no physical memory.
func ballast() []byte { return make([]byte, heapFloor) }
